"""Products of sparse matrices as functions. They keep what they prepare with A."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ._structure import csr_of, values_of
from .operator import SparseOperator

_KEPT = "_tessera_operators"


@dataclass
class _Kept:
    """What the functions keep with A."""

    operator: SparseOperator
    order: torch.Tensor | None  # of the values; see values_of()
    state: tuple  # of A's arrays when the operator got its values


def _state_of(a) -> tuple:
    if isinstance(a, tuple | list):
        return tuple(None if array is None else (id(array), array._version) for array in a)
    return (a._version,)


def _operator_of(a: Any, shape, options: dict) -> tuple[SparseOperator, torch.Tensor | None]:
    """The operator of A, and A's values when they want a gradient."""
    if isinstance(a, SparseOperator):
        if options:
            names = ", ".join(options)
            raise TypeError(
                f"tessera.torch: A is a SparseOperator, which has options of its own: {names}"
            )
        return a, None
    is_tuple = isinstance(a, tuple | list)
    anchor = a[1] if is_tuple and len(a) > 1 else a
    if not isinstance(anchor, torch.Tensor):
        return SparseOperator(a, shape=shape, **options), None
    state = _state_of(a)
    key = (shape, tuple(sorted(options.items())) if options else ())
    kept = anchor.__dict__.setdefault(_KEPT, {})
    found = kept.get(key)
    if found is not None and found.state != state:
        pattern_stays = (
            a.layout == torch.sparse_csr if not is_tuple else found.state[:2] == state[:2]
        )
        values = values_of(a, found.order) if pattern_stays else None
        if values is None or values.shape != (found.operator.nnz,):
            found = None
        else:
            found.operator.set_values(values)
            found.state = state
    if found is None:
        csr = csr_of(a, shape)
        found = kept[key] = _Kept(SparseOperator(csr, **options), csr.order, state)
    given = (a[2] if len(a) == 3 else None) if is_tuple else a
    wants = given is not None and given.requires_grad and torch.is_grad_enabled()
    return found.operator, values_of(a, found.order) if wants else None


def spmm(
    a: Any,
    b: torch.Tensor,
    *,
    shape: tuple[int, int] | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    out: torch.Tensor | None = None,
    **options,
) -> torch.Tensor:
    """alpha A B, or with `out` C = alpha A B + beta C in place.

    What is prepared for A stays with the tensor `a` (with its column indices, when it is a tuple):
    pass the same object again. A `SparseOperator` states this, and has less to check in each call.

    Args:
        a: a `SparseOperator` or what makes one.
        b: [..., K, N] of float32, float16, bfloat16 or float64. Gradients flow to b and to a's values.
        shape: (M, K); required when a is a tuple.
        out: C [..., M, N], contiguous, of the type of b; without gradients. C is not read when beta
            is 0.
        **options: those of `SparseOperator`.

    Returns:
        [..., M, N] of the type of b; `out` when it is given.
    """
    operator, values = _operator_of(a, shape, options)
    if out is None:
        if beta != 0:
            raise ValueError("tessera.torch: beta scales out, and no out is given")
        c = operator(b, values)
        return c if alpha == 1 else alpha * c
    return operator.multiply_into(out, b, values, alpha=alpha, beta=beta)


def sddmm(pattern: Any, x: torch.Tensor, y: torch.Tensor, *, shape=None, **options) -> torch.Tensor:
    """X Y^T at the nonzeros of a sparse pattern, whatever its values are.

    Args:
        pattern: [M, K], as `a` in `spmm`.
        x: [M, D]. y: [K, D], of the type of x. Gradients flow to both.

    Returns:
        [nnz], of the type of x, in the order of the pattern's CSR form.
    """
    operator, _ = _operator_of(pattern, shape, options)
    return operator.sddmm(x, y)


def spgemm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """C = A B of two sparse tensors, by torch's own product.

    Args:
        a: [M, K] of layout COO or CSR. b: [K, N], of the type and on the device of a.

    Returns:
        [M, N] of layout CSR when a is, else COO. Gradients flow to COO operands.
    """
    for name, tensor in (("A", a), ("B", b)):
        if not isinstance(tensor, torch.Tensor) or tensor.layout not in (
            torch.sparse_coo,
            torch.sparse_csr,
        ):
            raise TypeError(f"tessera.torch: {name} is not a sparse tensor of layout COO or CSR")
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"tessera.torch: A is {tuple(a.shape)}, and B, {tuple(b.shape)}, does not have {a.shape[1]} rows"
        )
    if a.layout == torch.sparse_csr:
        return torch.sparse.mm(a.to_sparse_coo(), b.to_sparse_coo()).coalesce().to_sparse_csr()
    return torch.sparse.mm(a, b.to_sparse_coo())
