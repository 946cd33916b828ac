"""The pattern of a sparse matrix behind a number, and the plans that multiply it on a GPU.

The operators of torch.ops.tessera take the number. It is never used again, so that a compiled graph
that has outlived its matrix fails instead of multiplying another one.
"""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass

import torch

from .. import _library as tessera
from .._errors import OutOfMemoryError
from . import _native
from ._structure import rows_of, transpose

# The purposes of a plan: torch_operators::Request in python/torch_operators/operators.hpp.
PRODUCT, TRANSPOSED, SAMPLES, WIDE_SAMPLES = range(4)
PRECISIONS = ("fastest", "tf32", "fp32")
# Timing the candidate kernels and packing A for tensor cores costs about as much as this many
# products by rows.
_FEW_PRODUCTS = 20
# From this mean length of a row on, tensor cores win on most matrices of the README's figure.
_LONG_ROWS = 16


@dataclass(frozen=True)
class Options:
    """How plans are made; see `SparseOperator`."""

    precision: str  # of products in FP32
    narrow_precision: str  # of those in FP16 and BF16
    deterministic: bool
    expected_products: int | None = None
    reorder: str | None = None
    kernels: tuple[str, ...] = ()

    def precision_of(self, type_number: int) -> str:
        """The precision of products in that tessera_type."""
        return self.precision if type_number == tessera.FP32 else self.narrow_precision

    def candidates(self, operation: str, precision: str, rows: int, nnz: int) -> tuple[str, ...]:
        """Kernels of "spmm" or "sddmm" to choose from by timing; () for those that libtessera chooses
        from."""
        tiles, by_rows = (f"tessera_{operation}",), (f"rows_{operation}",)
        if self.kernels and operation == "spmm":
            return self.kernels
        if precision == "tf32":
            return tiles
        if not self.by_rule:
            return ()
        if precision == "fastest" and operation == "spmm":
            return ()  # libtessera has a formula
        return tiles if precision == "fastest" and nnz >= _LONG_ROWS * rows else by_rows

    @property
    def by_rule(self) -> bool:
        """Nothing is timed, since it does not pay or since a choice by times may change."""
        few = self.expected_products is not None and self.expected_products <= _FEW_PRODUCTS
        return few or self.deterministic


def make_options(precision, deterministic, expected_products, reorder, kernel) -> Options:
    """Checks the options and fills in what torch's own settings say."""
    narrow = "fastest" if precision is None else precision
    if precision is None:
        precision = "fp32" if torch.get_float32_matmul_precision() == "highest" else "fastest"
    if precision not in PRECISIONS:
        raise ValueError(f"tessera.torch: precision is {precision!r}, not one of {PRECISIONS}")
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    if expected_products is not None and expected_products < 1:
        raise ValueError(f"tessera.torch: expected_products is {expected_products}, not positive")
    kernels = () if kernel is None else (kernel,) if isinstance(kernel, str) else tuple(kernel)
    return Options(precision, narrow, bool(deterministic), expected_products, reorder, kernels)


class Pattern:
    """The arrays of A and its number. Deleted, it frees the plans of A and A^T.

    Attributes:
        row_offsets: int64 [rows + 1]. col_indices: int32 [nnz], both on one device.
        shape: (rows, columns).
        number: what the operators take.
        sides: what _multiply takes for A and for A^T.
        held: the values [nnz] of products that are given none, and their version; None: there are
            none. Another tuple for each state of them.
    """

    def __init__(self, row_offsets, col_indices, shape, options: Options):
        self.row_offsets, self.col_indices = row_offsets, col_indices
        self.shape, self.options = shape, options
        self.nnz = col_indices.numel()
        self._rows = self._transposed = self.held = None
        self._zeros: dict[torch.dtype, torch.Tensor] = {}
        _delete_pending()
        self.number = torch.ops.tessera._new_operator(row_offsets, col_indices, shape[1])
        self.sides = self.number, -self.number
        _patterns[self.number] = self
        weakref.finalize(self, _delete, self.number, vars(self)).atexit = False

    def hold(self, values: torch.Tensor, stamp: int) -> None:
        """Keeps values, float32 and contiguous, for the products that are given none; the stamp names
        their present state."""
        with torch.no_grad():
            torch.ops.tessera._hold_values(values, self.number, stamp)
        self.held = values, values._version

    @property
    def rows_of_nonzeros(self) -> torch.Tensor:
        """int64 [nnz]."""
        if self._rows is None:
            self._rows = rows_of(self.row_offsets, self.nnz)
        return self._rows

    def zeros(self, dtype: torch.dtype) -> torch.Tensor:
        """A CSR tensor of the pattern with zeros, which nobody may change."""
        if dtype not in self._zeros:
            values = torch.zeros(self.nnz, dtype=dtype, device=self.col_indices.device)
            small = self.nnz < 2**31
            offsets = self.row_offsets.int() if small else self.row_offsets
            arrays = offsets, self.col_indices.to(offsets.dtype), values
            self._zeros[dtype] = torch.sparse_csr_tensor(
                *arrays, self.shape, check_invariants=False
            )
        return self._zeros[dtype]

    @property
    def transposed(self):
        """Row offsets, column indices and value indices of A^T, made at the first use."""
        if self._transposed is None:
            self._transposed = transpose(self.row_offsets, self.col_indices, self.shape[1])
            torch.ops.tessera._set_transpose(*self._transposed, self.number)
        return self._transposed

    def side(self, of_transpose: bool):
        """(row offsets, column indices, rows, columns) of A or A^T."""
        rows, cols = self.shape
        if of_transpose:
            return (*self.transposed[:2], cols, rows)
        return self.row_offsets, self.col_indices, rows, cols

    def describe(self, of_transpose: bool, n: int, dtype: torch.dtype) -> dict | None:
        """The plan for B of n columns as libtessera describes it; None when there is none."""
        plan = registry.tessera_torch_plan(self.number, of_transpose, n, _native.TYPES[dtype])
        if not plan:
            return None
        return tessera.long_call_json("tessera_spmm_plan_describe", plan)


_patterns: weakref.WeakValueDictionary[int, Pattern] = weakref.WeakValueDictionary()
registry = None  # libtessera_torch, or the same functions of _fallback.py; set by _library.py
# Deleted while a graph was captured, when no memory may be freed, or while a gradient still needed it.
_pending: dict[int, Pattern] = {}


def pattern_of(number: int) -> Pattern:
    """Raises RuntimeError when the operator is gone."""
    found = _patterns.get(number)
    if found is None:
        raise RuntimeError(
            f"tessera: operator {number} does not exist any more; keep its SparseOperator"
        )
    return found


def _is_capturing() -> bool:
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _delete(number: int, state: dict) -> None:
    """Frees what belongs to a pattern that is gone. `state`: its attributes."""
    if _is_capturing() or not registry.tessera_torch_delete(number):
        kept = object.__new__(Pattern)  # a gradient may still ask for a plan
        vars(kept).update(state)
        _patterns[number] = _pending[number] = kept


def _delete_pending() -> None:
    if _pending and not _is_capturing():
        for number in list(_pending):
            if registry.tessera_torch_delete(number):
                del _pending[number]


def _order(csr: tessera.Csr, name: str) -> torch.Tensor:
    """The old row of each new one, int32 [rows]."""
    rows = torch.empty(csr.rows, dtype=torch.int32)
    cols = torch.empty(csr.cols, dtype=torch.int32)
    order = rows.data_ptr(), cols.data_ptr()
    tessera.call("tessera_reorder", ctypes.byref(csr), tessera.encoded(name), *order, None)
    return rows


def _make_plan(pattern: Pattern, request: int, n: int, type_number: int) -> int:
    """A plan for operands of n columns. The values of A are set before the first product."""
    options, sampled = pattern.options, request in (SAMPLES, WIDE_SAMPLES)
    precision = options.precision_of(type_number)
    row_offsets, col_indices, rows, cols = pattern.side(request == TRANSPOSED)
    offsets, columns = row_offsets.cpu(), col_indices.cpu()
    csr = tessera.Csr(rows, cols, pattern.nnz, offsets.data_ptr(), columns.data_ptr(), None)
    operation = "sddmm" if sampled else "spmm"
    given = tessera.SddmmOptions() if sampled else tessera.SpmmOptions()
    getattr(tessera.library, f"tessera_{operation}_options_init")(ctypes.byref(given))
    kernels = options.candidates(operation, precision, rows, pattern.nnz)
    given.num_kernels, given.kernels = len(kernels), tessera.texts(kernels)
    fp32 = precision == "fp32"
    given.precision = _native.FP32_ACCURATE if fp32 else _native.FASTEST
    given.type = type_number
    order = None
    if sampled:
        given.narrow_result = request == SAMPLES and type_number != tessera.FP32
    else:
        given.sets_values = 1
        given.expected_products = 1 if options.by_rule else options.expected_products or 0
        # Plans restore the order of C's rows in FP32 alone.
        if options.reorder is not None and type_number == tessera.FP32:
            order = _order(csr, options.reorder)
            given.row_order = order.data_ptr()
    plan = ctypes.c_void_p()
    arguments = ctypes.byref(csr), n, ctypes.byref(given), ctypes.byref(plan)
    with torch.cuda.device(pattern.row_offsets.device):
        try:
            tessera.call(f"tessera_{operation}_plan_create", *arguments)
        except OutOfMemoryError:  # torch keeps memory that nobody uses
            torch.cuda.empty_cache()
            tessera.call(f"tessera_{operation}_plan_create", *arguments)
    return plan.value


def make_and_add_plan(number: int, request: int, n: int, type_number: int) -> None:
    """Makes the arrays of A^T if they are asked for, and for n > 0 a plan for operands of n columns."""
    pattern = pattern_of(number)
    if request == TRANSPOSED:
        _ = pattern.transposed
    if n == 0:
        return
    plan = _make_plan(pattern, request, n, type_number)
    if not registry.tessera_torch_add_plan(number, request, n, type_number, plan):
        kind = "sddmm" if request in (SAMPLES, WIDE_SAMPLES) else "spmm"
        getattr(tessera.library, f"tessera_{kind}_plan_destroy")(plan)
        raise RuntimeError(f"tessera: operator {number} was deleted meanwhile")


@_native.PLANNER
def planner(number, request, n, type_number, error, error_size):
    """Called by an operator of libtessera_torch that lacks the arrays of A^T or a plan."""
    try:
        make_and_add_plan(number, request, n, type_number)
        return 0
    except BaseException as cause:  # nothing may cross the C interface
        message = str(cause).encode()[: error_size - 1] + b"\0"
        ctypes.memmove(error, message, len(message))
        return 1
