"""The operators in Python, for a machine without libtessera_torch: the same results, more slowly.

It keeps for each matrix what the C++ operators keep (python/torch_operators/operators.hpp): the plans of A and
A^T, the values that they have, and the stream that used them last.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import torch

from .. import _library as tessera
from . import _native
from ._patterns import make_and_add_plan, pattern_of
from ._sampled import sampled_products
from ._structure import lie_side_by_side

_SCHEMAS = """
spmm(Tensor values, Tensor b, int number, int rows, bool transposed, int stamp) -> Tensor
_spmm(Tensor values, Tensor b, int number, int rows, bool transposed, int stamp) -> Tensor
sddmm(Tensor x, Tensor y, int number, int nnz, bool wide) -> Tensor
_sddmm(Tensor x, Tensor y, int number, int nnz, bool wide) -> Tensor
_spmm_out(Tensor values, Tensor b, Tensor(a!) c, int number, bool transposed, int stamp, \
float alpha, float beta) -> ()
_multiply(Tensor b, int side) -> Tensor
_hold_values(Tensor values, int number, int stamp) -> ()
_new_operator(Tensor row_offsets, Tensor col_indices, int cols) -> int
_set_transpose(Tensor row_offsets, Tensor col_indices, Tensor value_indices, int number) -> ()
"""


@dataclass
class _Plan:
    address: int
    stamp: int = 0
    stream: torch.cuda.Stream | None = None
    sets_values_in_graph: bool = False


@dataclass
class _Operator:
    rows: int
    cols: int
    nnz: int
    device: torch.device
    held: tuple[torch.Tensor, int] | None = None  # values and their stamp, for _multiply
    plans: dict[tuple[bool, int, int], _Plan] = field(default_factory=dict)


class _Registry:
    """The functions of libtessera_torch that take no tensor."""

    def __init__(self):
        self._numbers = itertools.count(1)
        self._operators: dict[int, _Operator] = {}

    def add(self, operator: _Operator) -> int:
        number = next(self._numbers)
        self._operators[number] = operator
        return number

    def find(self, number: int) -> _Operator:
        found = self._operators.get(number)
        if found is None:
            raise RuntimeError(
                f"tessera: operator {number} does not exist any more; keep its SparseOperator"
            )
        return found

    def tessera_torch_add_plan(self, number, transposed, n, type_number, plan) -> int:
        operator = self._operators.get(number)
        if operator is None:
            return 0
        operator.plans[bool(transposed), n, type_number] = _Plan(plan)
        return 1

    def tessera_torch_plan(self, number, transposed, n, type_number) -> int | None:
        plan = self.find(number).plans.get((bool(transposed), n, type_number))
        return None if plan is None else plan.address

    def tessera_torch_delete(self, number) -> int:
        operator = self._operators.pop(number, None)
        if operator is None or not operator.plans:
            return 1
        torch.cuda.synchronize(operator.device)
        for plan in operator.plans.values():
            tessera.library.tessera_spmm_plan_destroy(plan.address)
        return 1


registry = _Registry()


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError("tessera: " + message)


def _checked(values, b, number, transposed) -> tuple[_Operator, int]:
    """The operator, and the rows of the result."""
    operator = registry.find(number)
    inner, outer = operator.cols, operator.rows
    if transposed:
        inner, outer = outer, inner
    shape = " x ".join(str(size) for size in b.shape)
    _require(b.dtype in _native.TYPES, "B has to be of float32, float16, bfloat16 or float64")
    _require(
        b.dim() >= 2 and b.shape[-2] == inner,
        f"B is {shape}, but it needs {inner} rows to be multiplied by A, which is {outer} x {inner}",
    )
    for name, tensor in (("B", b), ("values", values)):
        _require(
            tensor.device == operator.device,
            f"{name} is on another device than A: move one of them, for instance by A.to({name}.device)",
        )
    wide = torch.float64 if b.dtype == torch.float64 else torch.float32
    _require(values.dtype == wide, f"values have to be of {wide} for this B")
    _require(
        values.shape == (operator.nnz,),
        f"values are {tuple(values.shape)}, but A has {operator.nnz} nonzeros",
    )
    return operator, outer


def _stacked(tensor: torch.Tensor) -> torch.Tensor:
    """[..., rows, columns] as [batches, rows, columns]."""
    return tensor.unsqueeze(0) if tensor.dim() == 2 else tensor.flatten(0, -3)


def _on_cpu(values, b, number, transposed) -> torch.Tensor:
    pattern = pattern_of(number)
    row_offsets, col_indices, rows, cols = pattern.side(transposed)
    if transposed:
        values = values[pattern.transposed[2]]
    a = torch.sparse_csr_tensor(
        row_offsets, col_indices.long(), values.double(), (rows, cols), check_invariants=False
    )
    c = torch.zeros(*b.shape[:-2], rows, b.shape[-1], dtype=torch.float64)
    if c.numel() > 0 and values.numel() > 0:
        for of_b, of_c in zip(_stacked(b.double()), _stacked(c)):
            of_c.copy_(a @ of_b)
    return c.to(b.dtype)


def _spmm_cpu(values, b, number, rows, transposed, stamp):
    _checked(values, b, number, transposed)
    return _on_cpu(values, b, number, transposed)


def _like_b(product):
    """The product of a batch in one piece where its matrices lie side by side; those of C then do, too."""

    def multiply(values, b, *rest):
        if not lie_side_by_side(b):
            return product(values, b, *rest)
        c = product(values, b.movedim(-2, 0).flatten(1), *rest)
        return c.unflatten(1, (*b.shape[:-2], b.shape[-1])).movedim(0, -2)

    return multiply


def _multiply(b, side):
    number, transposed = abs(side), side < 0
    operator = registry.find(number)
    _require(operator.held is not None, "A holds no values for this B")
    values, stamp = operator.held
    rows = operator.cols if transposed else operator.rows
    return torch.ops.tessera._spmm(values, b, number, rows, transposed, stamp)


def _hold_values(values, number, stamp):
    registry.find(number).held = values, stamp


def _check_out(b, c, outer) -> None:
    _require(
        c.is_contiguous() and c.dtype == b.dtype, "out has to be contiguous and of the type of B"
    )
    _require(
        c.shape == (*b.shape[:-2], outer, b.shape[-1]),
        f"out is {tuple(c.shape)}, but the product has {outer} rows and {b.shape[-1]} columns",
    )


def _spmm_out_cpu(values, b, c, number, transposed, stamp, alpha, beta):
    _check_out(b, c, _checked(values, b, number, transposed)[1])
    product = alpha * _on_cpu(values, b, number, transposed)
    c.copy_(product if beta == 0 else product + beta * c)


def _plan_of(operator, number, transposed, n, dtype) -> _Plan:
    key = transposed, n, _native.TYPES[dtype]
    plan = operator.plans.get(key)
    if plan is not None:
        return plan
    _require(
        not torch.cuda.is_current_stream_capturing(),
        "a CUDA graph is being captured, and there is no plan for B of "
        f"{n} columns yet: run the same product once before the capture",
    )
    make_and_add_plan(number, int(transposed), n, key[2])
    return operator.plans[key]


def _run(values, b, c, number, transposed, stamp, alpha, beta) -> None:
    operator = registry.find(number)
    n, capturing = b.shape[-1], torch.cuda.is_current_stream_capturing()
    with torch.cuda.device(operator.device):
        plan = _plan_of(operator, number, transposed, n, b.dtype)
        stream = torch.cuda.current_stream()
        if plan.stream is not None and plan.stream != stream and not capturing:
            stream.wait_stream(plan.stream)
        plan.stream = stream
        sets = stamp == 0 or stamp != plan.stamp or plan.sets_values_in_graph
        if sets or (capturing and stamp < 0):
            plan.sets_values_in_graph |= capturing
            in_order = values[pattern_of(number).transposed[2]] if transposed else values
            in_order = in_order.contiguous().data_ptr()
            tessera.call("tessera_spmm_plan_set_values", plan.address, in_order, stream.cuda_stream)
            plan.stamp = 0 if plan.sets_values_in_graph else stamp
        b = _stacked(b.contiguous())
        operands = b.data_ptr(), n, b.shape[1] * n, c.data_ptr(), n, c.shape[-2] * n
        run = "tessera_spmm_plan_run_batch"
        tessera.call(
            run, plan.address, b.shape[0], *operands, alpha, beta, stream.cuda_stream
        )


def _spmm_cuda(values, b, number, rows, transposed, stamp):
    operator, outer = _checked(values, b, number, transposed)
    if b.dtype == torch.float64:
        return torch.ops.tessera._spmm_fp64(values, b, number, transposed)
    c = b.new_empty(*b.shape[:-2], outer, b.shape[-1])
    if operator.nnz == 0:
        return c.zero_()
    if c.numel() > 0:
        _run(values, b, c, number, transposed, stamp, 1.0, 0.0)
    return c


def _spmm_out_cuda(values, b, c, number, transposed, stamp, alpha, beta):
    _, outer = _checked(values, b, number, transposed)
    _require(b.dtype != torch.float64, "out cannot be of float64 on a GPU")
    _check_out(b, c, outer)
    if c.numel() > 0:
        _run(values, b, c, number, transposed, stamp, alpha, beta)


def _sddmm(x, y, number, nnz, wide):
    return sampled_products(pattern_of(number), x, y, wide)


def _new_operator(row_offsets, col_indices, cols):
    rows = row_offsets.numel() - 1
    return registry.add(_Operator(rows, cols, col_indices.numel(), row_offsets.device))


def define() -> torch.library.Library:
    """Defines the operators; they exist as long as the result does."""
    library = torch.library.Library("tessera", "FRAGMENT")
    for schema in _SCHEMAS.strip().splitlines():
        library.define(schema)
    for device, spmm, spmm_out in (
        ("CPU", _spmm_cpu, _spmm_out_cpu),
        ("CUDA", _spmm_cuda, _spmm_out_cuda),
    ):
        library.impl("spmm", spmm, device)
        library.impl("_spmm", _like_b(spmm), device)
        library.impl("_spmm_out", spmm_out, device)
        library.impl("_multiply", _multiply, device)
        library.impl("_hold_values", _hold_values, device)
        library.impl("_new_operator", _new_operator, device)
        library.impl("_set_transpose", lambda *_: None, device)
        for name in ("sddmm", "_sddmm"):
            library.impl(name, _sddmm, device)
    return library
