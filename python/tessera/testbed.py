"""The testbed as functions: orders, formats, simulation, advice."""

import ctypes
import io
from ctypes import c_char_p
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _notebooks
from ._library import AdviceOptions, encoded, library, long_call_json, texts, variant
from .matrix import Matrix, matrix
from .records import dataframe


@dataclass
class Order:
    """An order of a matrix. rows [M] and cols [K] int32: place p of the new order holds the old index
    rows[p]; cols is None where columns stay."""

    rows: np.ndarray
    cols: np.ndarray | None
    seconds: float  # to find it
    chosen: str  # the best of several candidates, where there are several
    name: str  # with every parameter
    _matrix: Matrix = field(repr=False)

    def apply(self) -> Matrix:
        """The matrix in this order, a copy."""
        return self._matrix.permuted(self.rows, self.cols)


def reorder(a: Any, name: str = "best", **params: Any) -> Order:
    """Finds an order of A's rows, and of its columns where the reordering moves them.

    name, params  a reordering of `tessera list reorderings` and its parameters: reorder(a, "rcm",
                  apply="rows")

    Only the pattern counts. Raises UnsupportedError for a matrix that it cannot order, such as a
    rectangular one symmetrically.

    >>> import tessera
    >>> a = tessera.Matrix("shuffle(of=poisson2d(nx=8, ny=8))")
    >>> order = tessera.reorder(a, "rcm")
    >>> sorted(order.rows) == list(range(64))
    True
    >>> tessera.pack(order.apply(), "bit_tcf")["tiles"] < tessera.pack(a, "bit_tcf")["tiles"]
    True
    """
    given = matrix(a)
    rows, cols = np.empty(given.shape[0], np.int32), np.empty(given.shape[1], np.int32)
    told = long_call_json("tessera_reorder", given._csr(), encoded(variant(name, params)),
                          rows.ctypes.data, cols.ctypes.data)  # fmt: skip
    return Order(rows, cols if told["moves_columns"] else None, told["reorder_s"], told["chosen"],
                 told["reordering"], given)  # fmt: skip


def pack(a: Any, format: str, **params: Any) -> dict[str, Any]:
    """Packs A and describes the result.

    format, params  a format of `tessera list formats` and its parameters

    Returns pack_s (seconds), footprint_bytes (all arrays, by sizeof) and index_bytes, round_trip_exact,
    tiles, mean_nnz_tc (nonzeros a tile), tile_density (share of a tile's cells), padding_ratio (stored
    zeros a nonzero), and arrays (name, elements, bytes). Raises UnsupportedError for a matrix that exceeds
    the format's limits.

    >>> import tessera
    >>> tessera.pack("poisson2d(nx=4, ny=4)", "csr")["footprint_bytes"]
    648
    """
    given = matrix(a)
    return long_call_json("tessera_pack", given._csr(), encoded(variant(format, params)))


def simulate(a: Any, n: int = 128, kernel: str = "auto", *, format: str | None = None,
             device: str = "h200", cold: bool = False) -> dict[str, Any]:
    """The predicted time and traffic of C = A B on a described device, simulated warp by warp. It is a
    prediction: its `origin` is "simulated".

    n       columns of B
    kernel  with parameters, as for emulate(); "auto": the one that a simulation expects to be fastest
    device  of `tessera list devices`
    cold    begins with B and C outside the L2 cache

    Returns kernel and format with every parameter, prediction (time_us in microseconds, bound_by),
    simulation (parts, warp_time, waves, sm_balance, ...) and counters under the names of the hardware's.
    Raises UnsupportedError for a kernel without a trace.

    >>> import tessera
    >>> found = tessera.simulate("rmat(scale=8)", 32, "rows_spmm", device="a100")
    >>> found["origin"], found["prediction"]["time_us"] > 0
    ('simulated', True)
    """
    given = matrix(a)
    return long_call_json("tessera_simulate", given._csr(), int(n), encoded(kernel), encoded(format),
                          encoded(device), int(cold))  # fmt: skip


@dataclass
class Advice:
    """Kernels and orders, the fastest first. Times are predictions."""

    ranked: list[dict[str, Any]]  # reorder, kernel, format, time_us, preparation_s, reason, ...
    best: dict[str, Any] | None  # finishes all products first, preparation included
    complete: bool  # no candidate is left that could be faster
    left_out: list[str]  # orders and kernels that are no candidates, with the reason
    about: dict[str, Any]  # the whole answer, as `tessera advise --json` prints it

    @property
    def table(self) -> Any:
        """The ranking as a pandas DataFrame, with units in `table.attrs["units"]`."""
        return dataframe(self.ranked)


def advise(a: Any, n: int = 128, *, device: str = "h200", orders: list[str] | None = None,
           kernels: list[str] | None = None, products: int = 1000, max_seconds: float = 0,
           cold: bool = False, quick: bool = False) -> Advice:
    """Which order and kernel to use for A and a B of n columns, by prediction.

    orders       reorderings to compare with the given order; ["none"] for none, ["all"] for every one;
                 None: the one or two with the largest gain for their time
    kernels      names; None: all whose operands keep the range of FP32
    products     that share one preparation
    max_seconds  answers after this time with what is known by then; 0: no limit
    quick        ranks by the roofline, without simulating

    >>> import tessera
    >>> advice = tessera.advise("rmat(scale=8)", 32, orders=["none"], kernels=["rows_spmm", "csr_spmm"])
    >>> advice.complete, len(advice.ranked)
    (True, 2)
    """
    given = matrix(a)
    options = AdviceOptions()
    library.tessera_advice_options_init(ctypes.byref(options))
    device_text, order_texts, kernel_texts = encoded(device), texts(orders or []), texts(kernels or [])
    options.device = device_text
    options.num_orders, options.orders = len(orders or []), ctypes.cast(order_texts, ctypes.POINTER(c_char_p))
    options.num_kernels = len(kernels or [])
    options.kernels = ctypes.cast(kernel_texts, ctypes.POINTER(c_char_p))
    options.products, options.max_seconds = int(products), float(max_seconds)
    options.cold, options.quick = int(cold), int(quick)
    told = long_call_json("tessera_advise", given._csr(), int(n), ctypes.byref(options))
    return Advice(told["ranked"], told["for_products"], told["complete"], told["left_out"], told)


@dataclass
class Timeline:
    """A simulated product as it runs. Times are in microseconds."""

    about: dict[str, Any]  # time_us, bound_by, launch, thread_block, sms, waves, ...
    csv: dict[str, str]  # thread_blocks, operations and balance as `tessera timeline` writes them

    @property
    def tables(self) -> dict[str, Any]:
        """The three tables as pandas DataFrames: every thread block with its SM, start_us and end_us; the
        operations of one of them; and how many ran how long."""
        pandas = _notebooks.need("pandas")
        tables = {name: pandas.read_csv(io.StringIO(text)) for name, text in self.csv.items()}
        for table in tables.values():
            table.attrs["units"] = {c: "us" for c in table.columns if c.endswith("_us")}
        return tables

    def _of_notebook(self, script: Any, about_name: str) -> Any:
        version = library.tessera_version().decode()
        return script.Timeline({**self.about, "matrix": about_name}, version, self.tables)

    def pipeline(self, us: float = 3, skip: float = 0, name: str = "A") -> Any:
        """The matplotlib Figure of the first `us` microseconds of the thread block after `skip`: its warps'
        computations, waits and reads in flight, as in Acc-SpMM's Fig. 5 (notebooks/timeline.py). `name`
        is the matrix's."""
        with _notebooks.style():
            script = _notebooks.load("timeline")
            return script.pipeline([self._of_notebook(script, name)], skip, us)

    def balance(self, name: str = "A") -> Any:
        """The matplotlib Figure of all thread blocks on their SMs, and how long they ran, as in Acc-SpMM's
        Fig. 6 (notebooks/timeline.py)."""
        with _notebooks.style():
            script = _notebooks.load("timeline")
            return script.balance([self._of_notebook(script, name)])


def timeline(a: Any, n: int = 128, kernel: str = "auto", *, format: str | None = None,
             device: str = "h200", cold: bool = False, thread_block: int | None = None) -> Timeline:
    """The simulated product as it runs: which thread block ran when on which SM, and the operations of one
    of them. Arguments as for simulate().

    thread_block  of the longest launch, whose operations are kept; None: the longest

    >>> import tessera
    >>> found = tessera.timeline("rmat(scale=8)", 32, "rows_spmm")
    >>> found.about["origin"], found.about["time_us"] > 0
    ('simulated', True)
    """
    given = matrix(a)
    told = long_call_json("tessera_timeline", given._csr(), int(n), encoded(kernel), encoded(format),
                          encoded(device), int(cold), -1 if thread_block is None else thread_block)  # fmt: skip
    about = told.pop("about")
    return Timeline(about, told)


