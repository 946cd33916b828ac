"""C = alpha A B + beta C with A sparse and B dense, on a GPU or on the CPU."""

import ctypes
import json
from collections.abc import Sequence
from ctypes import c_char_p, c_void_p
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _library
from ._arrays import NAMES, Operand, current_stream, new_like, operand
from ._errors import InvalidError, UnsupportedError
from ._library import SpmmOptions, call, encoded, library, long_call, texts
from .matrix import Matrix, matrix

PRECISIONS = {"fastest": 0, "tf32": 1, "fp32": 2}
SHORT_WORK = 1_000_000  # multiplications that take too little time to be interrupted


def has_gpu() -> bool:
    """True when this build has a CUDA half and this machine a GPU that it can use; gpu_problem() says
    why not."""
    return bool(library.tessera_has_gpu())


def gpu_problem() -> str:
    """The reason why has_gpu() is false; "" when it is true."""
    return "" if has_gpu() else library.tessera_last_error().decode("utf-8", "replace")


def set_threads(threads: int = 0) -> None:
    """Lets the library use that many CPU threads; 0: $TESSERA_THREADS, else every CPU."""
    call("tessera_set_threads", threads)


class Plan:
    """Products of one A with any number of B on the current GPU: A is packed and uploaded once, the
    candidate kernels are timed once, and the fastest is kept.

    n            columns of B and C
    dtype        of B and C: "float32", "float16" or "bfloat16"
    kernels      names, with parameters if wanted, such as "rows_spmm" or
                 "tessera_spmm(precision=tf32x3)"; none: those of `precision`
    precision    "fastest" (operands may be rounded to TF32), "tf32", or "fp32" (sums in FP32, or three
                 TF32 products in the place of one)
    row_order    [M] the order of A's rows that suits the kernel, as reorder() gives it; C comes back in
                 the order of A
    sets_values  allows set_values()
    strided      allows B and C whose rows have gaps; takes a copy of each
    expected_products
                 about how often A is multiplied; from 1 to 20 a formula chooses the kernel where it
                 can, and nothing is timed; with more, A's rows are also ordered on the GPU where that
                 is expected to pay; 0: often, and no order is looked for

    Raises InvalidError for wrong arguments, UnsupportedError without a GPU and, with every kernel's
    reason, when none takes this case, OutOfMemoryError and DeviceError. The product is that of
    kernels/abi/tessera.h, `tessera_spmm_plan_run`.
    """

    def __init__(self, a: Any, n: int, *, dtype: str = "float32", kernels: Sequence[str] = (),
                 precision: str = "fastest", row_order: ArrayLike | None = None,
                 sets_values: bool = False, strided: bool = False, expected_products: int = 0):
        self.matrix = matrix(a)
        self.n = int(n)
        self._handle = c_void_p()
        names = {text: kind for kind, text in NAMES.items() if text != "float64"}
        if str(dtype) not in names:
            raise InvalidError(f"a plan has no B and C of {dtype}; it has {', '.join(names)}")
        if precision not in PRECISIONS:
            raise InvalidError(f"precision '{precision}' is none of {', '.join(PRECISIONS)}")
        options = SpmmOptions()
        library.tessera_spmm_options_init(ctypes.byref(options))
        kernel_texts = texts(list(kernels))
        options.num_kernels = len(kernels)
        options.kernels = ctypes.cast(kernel_texts, ctypes.POINTER(c_char_p))
        options.precision, options.type = PRECISIONS[precision], names[str(dtype)]
        options.sets_values, options.strided = int(sets_values), int(strided)
        options.expected_products = int(expected_products)
        order = None
        if row_order is not None:
            order = np.ascontiguousarray(row_order, np.int32)
            if order.shape != (self.matrix.shape[0],):
                raise InvalidError(f"the order has {order.size} rows, but A has {self.matrix.shape[0]}")
            options.row_order = order.ctypes.data
        self.type = names[str(dtype)]
        long_call("tessera_spmm_plan_create", self.matrix._csr(), self.n, ctypes.byref(options),
                  ctypes.byref(self._handle))  # fmt: skip

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library.tessera_spmm_plan_destroy(self._handle)

    def run(self, b: Any, out: Any = None, *, alpha: float = 1, beta: float = 0,
            stream: int | None = None) -> Any:
        """Enqueues C = alpha A B + beta C and returns C without waiting.

        b       [K x n] on the GPU, row-major: PyTorch, CuPy, or anything with DLPack
        out     C [M x n], likewise; None: a new array of b's library
        stream  a cudaStream_t as a number; None: the one that b's library works on

        Raises InvalidError for another shape, type or place.
        """
        queue = current_stream(b) if stream is None else stream
        shape = (self.matrix.shape[0], self.n)
        if out is None:
            if beta != 0:
                raise InvalidError("beta is not 0, so C has to be given as `out`")
            out = new_like(b, shape)
        of_b, of_c = operand("B", b, queue), operand("C", out, queue)
        for name, given, wanted in (("B", of_b, (self.matrix.shape[1], self.n)), ("C", of_c, shape)):
            if given.shape != wanted or given.type != self.type or given.device is None:
                place = "host memory" if given.device is None else "the GPU"
                raise InvalidError(
                    f"{name} is {given.shape[0]} x {given.shape[1]} of {NAMES[given.type]} in {place}; "
                    f"it has to be {wanted[0]} x {wanted[1]} of {NAMES[self.type]} on the GPU")
        call("tessera_spmm_plan_run", self._handle, of_b.pointer, max(of_b.ld, self.n), of_c.pointer,
             max(of_c.ld, self.n), alpha, beta, queue)  # fmt: skip
        return out

    def set_values(self, values: Any, *, stream: int | None = None) -> None:
        """Replaces A's values for later runs on the stream: values [nnz] float32 on the GPU, in the order
        of the matrix's arrays. Enqueues and does not wait."""
        queue = current_stream(values) if stream is None else stream
        given = operand("values", values.reshape(1, -1), queue)
        if given.shape[1] != self.matrix.nnz or given.type != _library.FP32 or given.device is None:
            raise InvalidError(f"{given.shape[1]} values of {NAMES[given.type]}: A needs "
                               f"{self.matrix.nnz} of float32 on the GPU")  # fmt: skip
        call("tessera_spmm_plan_set_values", self._handle, given.pointer, queue)

    @property
    def workspace_bytes(self) -> int:
        """Bytes on the GPU beside the packed A."""
        return int(library.tessera_spmm_plan_workspace_bytes(self._handle))

    def describe(self) -> dict[str, Any]:
        """The kernel with every parameter, packed_bytes, workspace_bytes, and `timings`: for each
        candidate its median time in microseconds (us) or why it was left out (problem)."""
        text = c_void_p()
        call("tessera_spmm_plan_describe", self._handle, ctypes.byref(text))
        try:
            return json.loads(ctypes.string_at(text.value or 0))
        finally:
            library.tessera_free(text)


def multiply(a: Any, b: Any, out: Any = None, *, alpha: float = 1, beta: float = 0,
             kernels: Sequence[str] = (), precision: str = "fastest") -> Any:
    """C = alpha A B + beta C where B is: on the GPU by a plan, in host memory on the CPU.

    a    [M x K] a Matrix, or what Matrix() takes
    b    [K x N] row-major, float32, float64 (CPU), float16 or bfloat16: NumPy, PyTorch, CuPy, JAX, or
         anything with DLPack or __cuda_array_interface__. It is not copied.
    out  C [M x N] of b's type and place, which is filled; None: a new array of b's library

    On the GPU the plan of a Matrix and a width is made at the first call, kept with the Matrix, and later
    calls return without waiting; `kernels` and `precision` are those of Plan. On the CPU the sums are in
    float64 and rounded at the end, with the same bits at any number of threads and on every machine.

    Raises InvalidError for shapes and types that do not fit, UnsupportedError for arrays on a GPU that
    this build or machine cannot use.

    >>> import numpy as np, tessera
    >>> a = tessera.Matrix(np.array([[2, 0], [1, 3]]))
    >>> tessera.multiply(a, np.ones((2, 3), np.float32))
    array([[2., 2., 2.],
           [4., 4., 4.]], dtype=float32)
    """
    left = matrix(a)
    of_b = operand("B", b)
    if of_b.shape[0] != left.shape[1]:
        raise InvalidError(f"A has {left.shape[1]} columns, but B has {of_b.shape[0]} rows")
    if of_b.device is None:
        if kernels:
            raise InvalidError("kernels are for a B on a GPU; emulate() computes what they give there")
        return _multiply_on_the_cpu(left, b, of_b, out, alpha, beta)
    if not has_gpu():
        raise UnsupportedError(f"B is on a GPU, which this library cannot use: {gpu_problem()}")
    strided = of_b.ld != of_b.shape[1]
    if out is not None:
        strided = strided or operand("C", out).ld != of_b.shape[1]
    key = (of_b.shape[1], of_b.type, of_b.device, tuple(kernels), precision, strided)
    if key not in left._plans:
        left._plans[key] = Plan(left, of_b.shape[1], dtype=NAMES[of_b.type], kernels=kernels,
                                precision=precision, strided=strided)
    return left._plans[key].run(b, out, alpha=alpha, beta=beta)


def _multiply_on_the_cpu(a: Matrix, b: Any, of_b: Operand, out: Any, alpha: float, beta: float) -> Any:
    n = of_b.shape[1]
    if out is None:
        if beta != 0:
            raise InvalidError("beta is not 0, so C has to be given as `out`")
        out = new_like(b, (a.shape[0], n))
    of_c = operand("C", out)
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise InvalidError("C cannot be written: the array is read-only")
    if of_c.shape != (a.shape[0], n) or of_c.type != of_b.type or of_c.device is not None:
        raise InvalidError(f"C is {of_c.shape[0]} x {of_c.shape[1]} of {NAMES[of_c.type]}; it has to be "
                           f"{a.shape[0]} x {n} of {NAMES[of_b.type]} in host memory")  # fmt: skip
    values = None
    if of_b.type == _library.FP64 and a.values64 is not None:
        values = a.values64.ctypes.data
    run = long_call if a.nnz * n > SHORT_WORK else call
    run("tessera_spmm_cpu", a._csr(), n, of_b.type, values, of_b.pointer, max(of_b.ld, n), of_c.pointer,
        max(of_c.ld, n), alpha, beta)  # fmt: skip
    return out


def _fp32(name: str, array: ArrayLike, shape: tuple[int, int | None]) -> np.ndarray:
    given = np.ascontiguousarray(array, np.float32)
    if given.ndim != 2 or given.shape[0] != shape[0] or shape[1] not in (None, given.shape[1]):
        raise InvalidError(f"{name} is {' x '.join(map(str, given.shape))}; it has to be {shape[0]} x "
                           f"{'N' if shape[1] is None else shape[1]}")  # fmt: skip
    return given


def emulate(a: Any, b: ArrayLike, kernel: str, *, format: str | None = None,
            device: str = "h200") -> np.ndarray:
    """C = A B [M x N] float32 as a kernel computes it on a GPU, bit for bit, on the CPU.

    b       [K x N] float32 (copied from other types)
    kernel  a name with parameters, as in `tessera list kernels`: "acc_spmm", "tessera_spmm(columns=32)"
    format  of A with parameters, "bcsr(block_rows=8)"; None: the kernel's own
    device  a described device (`tessera list devices`), for the arithmetic of its tensor cores

    Raises UnsupportedError for a kernel that adds in no fixed order, and for closed libraries.

    >>> import numpy as np, tessera
    >>> a = tessera.Matrix("poisson2d(nx=4, ny=4)")
    >>> c = tessera.emulate(a, np.ones((16, 8)), "acc_spmm")
    >>> tessera.errors(a, np.ones((16, 8)), c, kernel="acc_spmm")["ok"]
    True
    """
    left = matrix(a)
    right = _fp32("B", b, (left.shape[1], None))
    n = right.shape[1]
    c = np.empty((left.shape[0], n), np.float32)
    long_call("tessera_emulate", left._csr(), n, encoded(kernel), encoded(format), encoded(device),
              right.ctypes.data, n, c.ctypes.data, n)  # fmt: skip
    return c


def errors(a: Any, b: ArrayLike, c: ArrayLike, *, kernel: str | None = None,
           format: str | None = None, device: str = "h200") -> dict[str, Any]:
    """The errors of a computed C against A B in FP64 with compensated sums (oracle/spmm_oracle.hpp).

    b, c    [K x N] and [M x N] float32
    kernel  whose arithmetic gives the bound that C has to be inside; None: sums in FP32, in any order
    format, device  as for emulate()

    Returns `ok` (all of C is inside the bound), `reason`, and the measures of a record's check: smape_pct
    in percent; relative_frobenius, max_rel, backward_error (p50, p95, p99, max), condition and bound_ratio
    without a unit; max_ulp in units in the last place; counts (compared, beyond_bound, non_finite); and
    the worst element (row, col, expected, computed, bound).
    """
    left = matrix(a)
    right = _fp32("B", b, (left.shape[1], None))
    n = right.shape[1]
    result = _fp32("C", c, (left.shape[0], n))
    return _library.long_call_json(
        "tessera_errors", left._csr(), n, encoded(kernel), encoded(format), encoded(device),
        right.ctypes.data, n, result.ctypes.data, n)  # fmt: skip
