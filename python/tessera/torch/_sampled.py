"""X Y^T at the nonzeros of A on a GPU."""

from __future__ import annotations

import torch

from ._patterns import Pattern

_GATHERED = 2**26  # elements of X and of Y that are gathered at a time


def sampled_products(pattern: Pattern, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """out[i] = <row of X, row of Y> at the row and column of nonzero i of A.

    Args:
        x: [rows of A, depth]. y: [columns of A, depth], of the type of x. Sums of FP16 and BF16 are
            in FP32.

    Returns:
        [nnz], of the type of x.
    """
    rows, cols = pattern.rows_of_nonzeros, pattern.col_indices.long()
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    out = x.new_empty(pattern.nnz)
    step = max(1, _GATHERED // max(1, x.shape[1]))
    for first in range(0, pattern.nnz, step):
        part = slice(first, first + step)
        products = x[rows[part]].to(wide) * y[cols[part]].to(wide)
        out[part] = products.sum(-1)
    return out
