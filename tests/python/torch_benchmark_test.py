"""The benchmarks of tessera.torch run on small matrices, and their tables say what was measured where."""

import csv
import importlib.util
import os
import subprocess
import sys

from torch_support import ROOT, main, pytest, tessera

GRAPH = "poisson2d(nx=12, ny=10)"
HAS_PYG = importlib.util.find_spec("torch_geometric") is not None


def run(script, folder, *arguments):
    """The rows of the table that a benchmark writes."""
    table = folder / "table.csv"
    package = os.path.dirname(os.path.dirname(tessera.__file__))
    environment = {**os.environ, "PYTHONPATH": package, "TESSERA_LIBRARY": tessera._library.library._name}  # fmt: skip
    command = [sys.executable, "-B", str(ROOT / "python" / "benchmarks" / script), GRAPH]
    command += ["--device", "cpu", "--out", str(table), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert all(row["device"] and row["date"] and row["torch"] for row in rows)
    return rows, result.stdout


def test_times_of_products_stand_beside_those_of_torch(tmp_path):
    rows, text = run("torch_spmm.py", tmp_path, "--n", "8", "16", "--expected-products", "1000")
    timed = {
        (row["operation"], row["implementation"]) for row in rows if float(row["time_us"] or 0) > 0
    }
    operations = {"forward", "forward_backward", "forward_backward_one_thread", "forward_backward_values", "sddmm"}  # fmt: skip
    assert {(operation, "tessera") for operation in operations} <= timed
    assert ("forward", "torch_csr") in timed
    assert (("forward", "pyg_scatter") in timed) == HAS_PYG
    errors = [float(row["relative_error"]) for row in rows if row["relative_error"]]
    assert errors and max(errors) < 1e-6
    assert {row["expected_products"] for row in rows} == {"1000", ""}
    assert "over torch CSR" in text


def test_peers_are_left_out_where_none_is_asked_for(tmp_path):
    rows, _ = run("torch_spmm.py", tmp_path, "--n", "8", "--operations", "forward", "--peers")
    assert {row["implementation"] for row in rows} == {"tessera"}


def test_what_cannot_be_captured_in_a_graph_has_a_problem_and_no_time(tmp_path):
    rows, _ = run("torch_spmm.py", tmp_path, "--n", "8", "--operations", "forward_graph")
    assert rows and all(row["problem"] and not row["time_us"] for row in rows)  # on a CPU


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system holds no threads")
def test_threads_are_held_on_one_core_while_that_is_measured(tmp_path, monkeypatch):
    operations = ["forward_one_core", "forward_backward_one_core"]
    rows, _ = run("torch_spmm.py", tmp_path, "--n", "8", "--operations", *operations)
    timed = {row["operation"] for row in rows if row["implementation"] == "tessera" and float(row["time_us"]) > 0}  # fmt: skip
    assert timed == set(operations)

    monkeypatch.syspath_prepend(ROOT / "python" / "benchmarks")
    benchmark = importlib.import_module("torch_spmm")

    def cores():
        return {thread: os.sched_getaffinity(int(thread)) for thread in os.listdir("/proc/self/task")}  # fmt: skip

    before = cores()
    with benchmark.threads_of("forward_one_core"):
        held = cores().values()
    assert {len(each) for each in held} == {1} and len(set(map(tuple, held))) == 1
    after = cores()
    assert all(after[thread] == before[thread] for thread in before.keys() & after.keys())
    with benchmark.threads_of("forward"):
        assert all(each == before[thread] for thread, each in cores().items() if thread in before)


@pytest.mark.parametrize("network", ["gcn", "gin", "attention"])
def test_every_implementation_learns_the_same(tmp_path, network):
    rows, _ = run("gnn_training.py", tmp_path, "--networks", network, "--epochs", "8", "--features", "16", "--hidden", "16", "--classes", "3")  # fmt: skip
    losses = {row["implementation"]: float(row["loss"]) for row in rows}
    assert all(float(row["epoch_s"]) > 0 for row in rows)
    first = losses["tessera_fp32"]
    assert all(abs(loss - first) < 0.05 * first + 0.01 for loss in losses.values()), losses
    with (tmp_path / "table_curves.csv").open() as file:
        curve = [
            float(row["loss"])
            for row in csv.DictReader(file)
            if row["implementation"] == "tessera_fp32"
        ]
    assert len(curve) == 8 and curve[-1] < curve[0]


if __name__ == "__main__":
    main(__file__)
