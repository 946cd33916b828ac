#!/usr/bin/env python3
"""Sparse products in PyTorch: tessera.torch beside torch.sparse and PyTorch Geometric.

For each matrix and width, the time of a forward product, of forward and backward (the gradient of B;
`_values`: that of A's values too; `_one_thread`: under torch.autograd.set_multithreading_enabled(False),
so that the calling thread runs the gradients; `_one_core`: with all threads of the process held on one core,
as by taskset, so that the thread that runs the gradients of a GPU takes over without waking another core;
`_graph`: replays of a CUDA graph that captured the call) and of sampled products (SDDMM), with the error of the
result. Writes a table of all times and prints the geometric means of the speed-ups.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import warnings
from collections import defaultdict
from contextlib import contextmanager, nullcontext
from functools import cached_property, lru_cache
from pathlib import Path

import torch
from measured import environment, host_us, time_us, write_csv

import tessera
from tessera.torch import SparseOperator
from tessera.torch.build import has_compiled_derivative

SMALL = ["poisson2d(nx=64, ny=64)", "rmat(scale=11, edge_factor=8)", "uniform(rows=2000, cols=3000, density=0.005)"]  # fmt: skip
ONE_THREAD, ONE_CORE, GRAPH = "_one_thread", "_one_core", "_graph"
OPERATIONS = ["forward", "forward_backward", "forward_backward_one_thread", "forward_backward_values", "sddmm"]  # fmt: skip
# These are asked for by name: after a capture that fails, the memory of a process may stay in use.
OF_CORES = ["forward_one_core", "forward_backward_one_core"]
OF_GRAPHS = ["forward_graph", "forward_backward_graph"]
BASELINE = "torch_csr"
PEERS = [BASELINE, "pyg"]
DERIVATIVE = "C++" if has_compiled_derivative() else "Python"


@lru_cache(maxsize=1)
def matrix_of(name: str) -> tessera.Matrix:
    return tessera.Matrix(name)


class Case:
    """One matrix with B of one width and type on the device, and the product in FP64."""

    def __init__(self, name: str, n: int, dtype: torch.dtype, device: str):
        matrix = matrix_of(name)
        self.name, self.n, self.dtype, self.device = name, n, dtype, device
        self.rows, self.cols = matrix.shape
        self.offsets = torch.tensor(matrix.row_offsets).to(device)
        self.columns = torch.tensor(matrix.col_indices).to(device)
        self.nnz = self.columns.numel()
        generator = torch.Generator(device).manual_seed(1)

        def drawn(draw, *shape):
            return draw(*shape, generator=generator, device=device)

        # Values of the file or formula may be ones, which hide errors of rounding.
        self.values = drawn(torch.rand, self.nnz) + 0.5
        self.b = drawn(torch.randn, self.cols, n).to(dtype)
        self.x = drawn(torch.randn, self.rows, n).to(dtype)
        self.arrays = (self.offsets, self.columns, self.values)

    @cached_property
    def _exact(self) -> SparseOperator:
        return SparseOperator(self.arrays, shape=(self.rows, self.cols))

    @cached_property
    def exact(self) -> torch.Tensor:
        return self._exact(self.b.double())

    @cached_property
    def exact_samples(self) -> torch.Tensor:
        return self._exact.sddmm(self.x.double(), self.b.double())

    def csr(self, dtype=None) -> torch.Tensor:
        values = self.values.to(dtype or self.dtype)
        shape = (self.rows, self.cols)
        return torch.sparse_csr_tensor(self.offsets, self.columns.long(), values, shape)

    def edges(self) -> torch.Tensor:
        """[2, nnz]: source (column), target (row)."""
        rows = torch.arange(self.rows, device=self.device)
        rows = torch.repeat_interleave(rows, self.offsets.diff())
        return torch.stack([self.columns.long(), rows])


def backward_of(product, case: Case, values: torch.Tensor | None = None):
    """A call of a product and its gradients."""
    b = case.b.clone().requires_grad_()
    wanted = [b] if values is None else [b, values]

    def call():
        return torch.autograd.grad(product(b), wanted, case.x)

    return call


def replayed(call):
    """A call that replays a CUDA graph of the given one. Raises RuntimeError where it cannot be
    captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # memory and plans are made before the capture
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


@contextmanager
def one_core():
    """Holds all threads of this process on one core."""
    threads = {int(thread): os.sched_getaffinity(int(thread)) for thread in os.listdir("/proc/self/task")}  # fmt: skip
    core = max(os.sched_getaffinity(0))

    def hold(thread, cores):
        try:
            os.sched_setaffinity(thread, cores)
        except ProcessLookupError:  # it has ended
            pass

    for thread in threads:
        hold(thread, {core})
    try:
        yield
    finally:
        for thread, cores in threads.items():
            hold(thread, cores)


@contextmanager
def threads_of(operation: str):
    """The threads and cores that the operation's name asks for."""
    one_thread = operation.endswith(ONE_THREAD)
    held = one_core() if operation.endswith(ONE_CORE) else nullcontext()
    with torch.autograd.set_multithreading_enabled(not one_thread), held:
        yield


def tessera_calls(case: Case, precision: str | None, expected: int | None):
    shape = case.rows, case.cols
    operator = SparseOperator(case.arrays, shape=shape, precision=precision, expected_products=expected)  # fmt: skip
    values = operator.values.clone().requires_grad_()
    return {
        "forward": lambda: operator @ case.b,
        "forward_backward": backward_of(operator, case),
        "forward_backward_values": backward_of(lambda b: operator(b, values), case, values),
        "sddmm": lambda: operator.sddmm(case.x, case.b),
    }


def torch_csr_calls(case: Case):
    a, wants = case.csr(), case.csr().requires_grad_()
    samples = torch.sparse_csr_tensor(
        case.offsets, case.columns.long(), torch.zeros_like(case.values, dtype=case.dtype), a.shape
    )
    return {
        "forward": lambda: a @ case.b,
        "forward_backward": backward_of(lambda b: a @ b, case),
        "forward_backward_values": backward_of(lambda b: wants @ b, case, wants),
        "sddmm": lambda: torch.sparse.sampled_addmm(samples, case.x, case.b.t(), beta=0.0).values(),
    }


def pyg_calls(case: Case):
    """Every way in which PyTorch Geometric multiplies; the best one of each case is its own."""
    import torch_geometric
    from torch_geometric.utils import scatter, spmm

    a, (sources, targets) = case.csr(), case.edges()
    weights = case.values.to(case.dtype)

    def scattered(b, values=weights):
        return scatter(values[:, None] * b[sources], targets, 0, case.rows, reduce="sum")

    values = weights.clone().requires_grad_()
    calls = {
        "pyg_spmm": {
            "forward": lambda: spmm(a, case.b, "sum"),
            "forward_backward": backward_of(lambda b: spmm(a, b, "sum"), case),
        },
        "pyg_scatter": {
            "forward": lambda: scattered(case.b),
            "forward_backward": backward_of(scattered, case),
            "forward_backward_values": backward_of(lambda b: scattered(b, values), case, values),
            "sddmm": lambda: (case.x[targets] * case.b[sources]).sum(-1),
        },
    }
    # A is in the order of rows, that is of targets.
    indices = torch.stack([targets, sources])
    index = torch_geometric.EdgeIndex(indices, sparse_size=(case.rows, case.cols), sort_order="row")
    index.fill_cache_()
    calls["pyg_edge_index"] = {
        "forward": lambda: index.matmul(case.b, weights),
        "forward_backward": backward_of(lambda b: index.matmul(b, weights), case),
        "forward_backward_values": backward_of(lambda b: index.matmul(b, values), case, values),
    }
    return calls


def implementations(case: Case, precisions: list[str | None], given: argparse.Namespace):
    """Calls by operation, by implementation; those that fail at once are told and left out."""
    expected = given.expected_products
    makers = {}
    for precision in precisions:
        name = f"tessera_{precision}" if precision else "tessera"
        makers[name] = lambda name=name, p=precision: {name: tessera_calls(case, p, expected)}
    peers = {"torch_csr": lambda: {"torch_csr": torch_csr_calls(case)}, "pyg": lambda: pyg_calls(case)}  # fmt: skip
    makers.update((peer, peers[peer]) for peer in given.peers)
    found = {}
    for name, make in makers.items():
        try:
            found.update(make())
        except (ImportError, RuntimeError, NotImplementedError, TypeError) as error:
            print(f"  {name}: {str(error).splitlines()[0]}", file=sys.stderr)
    return found


def error_of(operation: str, result, case: Case) -> float | None:
    """The relative error in the Frobenius norm; None of gradients, which the tests check."""
    if operation not in ("forward", "sddmm"):
        return None
    exact = case.exact if operation == "forward" else case.exact_samples
    return ((result.double() - exact).norm() / exact.norm()).item()


def measure(case: Case, precisions: list[str | None], given: argparse.Namespace, hosts: list) -> list[dict]:  # fmt: skip
    """The rows of a case. `hosts` gets those of forward products with a host time, and their calls."""
    rows = []
    for name, calls in implementations(case, precisions, given).items():
        ours = name.startswith("tessera")
        for operation in given.operations:
            call = calls.get(re.sub(f"({ONE_THREAD}|{ONE_CORE}|{GRAPH})$", "", operation))
            if call is None:
                continue
            row = {
                "matrix": case.name,
                "rows": case.rows,
                "cols": case.cols,
                "nnz": case.nnz,
                "n": case.n,
                "dtype": str(case.dtype).removeprefix("torch."),
                "operation": operation,
                "implementation": name,
                "expected_products": given.expected_products or "" if ours else "",
                "derivative": DERIVATIVE if ours else "",
                "time_us": "",
                "host_us": "",
                "relative_error": "",
                "problem": "",
            }
            row.update(measured(operation, call, name, case))
            rows.append(row)
            if row["host_us"] != "" and operation.startswith("forward") and "backward" not in operation:
                hosts.append((row, call))
    return rows


def measured(operation: str, call, name: str, case: Case) -> dict:
    """The columns of a row that are measured; a call that fails has a problem alone."""
    try:
        error = error_of(operation, call(), case)
        if operation.endswith(GRAPH):
            call = replayed(call)
        on_host = case.device == "cuda" and name.startswith("tessera")
        with threads_of(operation):
            us = round(time_us(call, case.device), 2)
            host = round(host_us(call, us), 2) if on_host else ""
        return {
            "time_us": us,
            "host_us": host,
            "relative_error": "" if error is None else f"{error:.2e}",
        }
    except (RuntimeError, NotImplementedError, TypeError) as failure:
        return {"problem": str(failure).splitlines()[0]}


def measure_hosts_again(hosts: list) -> None:
    """The host times of tessera's forward products once more: the pace of a shared host changes from
    second to second, and the table has the least."""
    for row, call in hosts:
        with threads_of(row["operation"]):
            row["host_us"] = min(row["host_us"], round(host_us(call, row["time_us"]), 2))


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def print_speedups(rows: list[dict]) -> None:
    """By operation, type and width: how much faster tessera is than torch.sparse and than the best of
    PyTorch Geometric, as a geometric mean over the matrices, with the least."""
    times = defaultdict(dict)
    for row in rows:
        if row["time_us"] != "":
            key = (row["operation"], row["dtype"], row["n"])
            times[key].setdefault(row["matrix"], {})[row["implementation"]] = row["time_us"]
    print(
        f"{'operation':26} {'dtype':9} {'N':>4}  {'implementation':16} {'over torch CSR':>20} {'over best PyG':>20}"
    )
    for (operation, dtype, n), matrices in times.items():
        for name in sorted(
            {name for found in matrices.values() for name in found if name.startswith("tessera")}
        ):
            cells = []
            for others in (lambda x: x == BASELINE, lambda x: x.startswith("pyg")):
                ratios = [
                    min(time for other, time in found.items() if others(other)) / found[name]
                    for found in matrices.values()
                    if name in found and any(map(others, found))
                ]
                text = f"{geometric_mean(ratios):.2f} (least {min(ratios):.2f})" if ratios else "-"
                cells.append(f"{text:>20}")
            print(f"{operation:26} {dtype:9} {n:4}  {name:16} {' '.join(cells)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "matrices",
        nargs="*",
        default=SMALL,
        metavar="MATRIX",
        help="files (.npz, .mtx, ...), names in $TESSERA_DATA or formulas; three small formulas",
    )
    parser.add_argument("--n", nargs="+", type=int, default=[32, 128, 512], help="widths of B")
    parser.add_argument(
        "--dtypes", nargs="+", default=["float32"], help="types of B: float32, float16, bfloat16"
    )
    parser.add_argument(
        "--precisions",
        nargs="+",
        default=["tf32", "fastest", "fp32"],
        help="of tessera's FP32 products",
    )
    parser.add_argument(
        "--expected-products", type=int, help="of tessera's operators; from 21 on A may be ordered"
    )
    parser.add_argument(
        "--operations", nargs="+", default=OPERATIONS, choices=OPERATIONS + OF_CORES + OF_GRAPHS
    )
    parser.add_argument(
        "--host-passes",
        type=int,
        default=1,
        help="over all products, for the least host times; from 2 on they keep their memory",
    )
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS, help="beside tessera")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("out/torch_spmm.csv"), help="the table")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse")
    rows, hosts, where = [], [], environment(given.device)
    for matrix in given.matrices:
        for dtype_name in given.dtypes:
            dtype = getattr(torch, dtype_name)
            # The precisions differ for FP32 on a GPU alone.
            several = dtype == torch.float32 and given.device == "cuda"
            precisions = given.precisions if several else [None]
            for n in given.n:
                print(f"{matrix}, N = {n}, {dtype_name}", file=sys.stderr)
                case = Case(matrix, n, dtype, given.device)
                rows += measure(case, precisions, given, hosts)
                if given.host_passes == 1:
                    hosts.clear()
        write_csv(given.out, rows, where)  # a run that is cut short keeps what it has measured
    for _ in range(given.host_passes - 1):
        measure_hosts_again(hosts)
        write_csv(given.out, rows, where)
    print_speedups(rows)
    print(f"{given.out}: {len(rows)} times", file=sys.stderr)


if __name__ == "__main__":
    main()
