"""X Y^T at the nonzeros of A by PyTorch's own operations: in FP64 on GPUs, and without
libtessera_torch."""

from __future__ import annotations

import torch

from ._patterns import Pattern

_GATHERED = 2**26  # elements of X and of Y that are gathered at a time


def type_of_samples(x: torch.Tensor, wide: bool) -> torch.dtype:
    """That of x; `wide` makes FP32 of FP16 and BF16."""
    return torch.float32 if wide and x.dtype != torch.float64 else x.dtype


def _check(x: torch.Tensor, y: torch.Tensor, pattern: Pattern) -> None:
    rows, cols = pattern.shape
    device = pattern.row_offsets.device
    if x.device != device or y.device != device:
        raise RuntimeError(f"tessera: X is on {x.device} and Y on {y.device}, but A is on {device}")
    if x.dtype != y.dtype:
        raise RuntimeError("tessera: X and Y have different types")
    fits = x.dim() == y.dim() == 2 and x.shape[1] == y.shape[1]
    if not fits or x.shape[0] != rows or y.shape[0] != cols:
        raise RuntimeError(
            f"tessera: X is {tuple(x.shape)} and Y is {tuple(y.shape)}, but A, which is {rows} x {cols}, "
            f"needs X with {rows} and Y with {cols} rows, and as many columns in each"
        )


def sampled_products(
    pattern: Pattern, x: torch.Tensor, y: torch.Tensor, wide: bool
) -> torch.Tensor:
    """out[i] = <row of X, row of Y> at the row and column of nonzero i of A.

    Args:
        x: [rows of A, depth]. y: [columns of A, depth], of the type of x. Sums of FP16 and BF16 are
            in FP32.
        wide: FP16 and BF16 give FP32.

    Returns:
        [nnz], see type_of_samples().

    Raises:
        RuntimeError: for operands of other shapes, types or devices.
    """
    _check(x, y, pattern)
    sums = torch.float64 if x.dtype == torch.float64 else torch.float32
    if pattern.nnz == 0 or x.shape[1] == 0:
        samples = x.new_zeros(pattern.nnz, dtype=sums)
    elif x.device.type == "cuda":
        zeros = pattern.zeros(sums)
        samples = torch.sparse.sampled_addmm(zeros, x.to(sums), y.to(sums).t(), beta=0).values()
    else:
        samples = _gathered(pattern, x.to(sums), y.to(sums))
    return samples.to(type_of_samples(x, wide))


def _gathered(pattern: Pattern, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rows, cols = pattern.rows_of_nonzeros, pattern.col_indices.long()
    out = x.new_empty(pattern.nnz)
    step = max(1, _GATHERED // x.shape[1])
    for first in range(0, pattern.nnz, step):
        part = slice(first, first + step)
        out[part] = (x[rows[part]] * y[cols[part]]).sum(-1)
    return out
