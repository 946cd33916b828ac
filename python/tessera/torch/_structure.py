"""Sparse matrices of torch, SciPy and plain arrays as compressed sparse rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..matrix import Matrix

_INT32_MAX = 2**31 - 1


class Csr(NamedTuple):
    """A sparse matrix in compressed sparse rows; columns ascend and are distinct within a row."""

    row_offsets: torch.Tensor  # int64 [rows + 1]
    col_indices: torch.Tensor  # int32 [nnz]
    values: torch.Tensor | None  # [nnz]; keeps its autograd history; None for ones
    shape: tuple[int, int]
    # For each nonzero, the index of its value among those given (of a COO tensor: once it is
    # coalesced); None when they are in order.
    order: torch.Tensor | None = None


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(f"tessera.torch: {message}")


def _sizes(rows: int, cols: int) -> tuple[int, int]:
    _check(
        0 <= rows <= _INT32_MAX and 0 <= cols <= _INT32_MAX,
        f"A is {rows} x {cols}, and each extent has to be below 2^31",
    )
    return int(rows), int(cols)


def lie_side_by_side(batch: torch.Tensor) -> bool:
    """Whether matrices [..., K, N] lie in memory as [K, ..., N]: one matrix of all their columns."""
    if batch.dim() < 3 or batch.stride(-1) != 1:
        return False
    stride = batch.shape[-1]
    for size, own in zip(batch.shape[-3::-1], batch.stride()[-3::-1]):
        if own != stride:
            return False
        stride *= size
    return batch.stride(-2) == stride


def rows_of(row_offsets: torch.Tensor, nnz: int) -> torch.Tensor:
    """The row of each nonzero, int64 [nnz]."""
    rows = torch.arange(row_offsets.numel() - 1, device=row_offsets.device)
    return torch.repeat_interleave(rows, row_offsets.diff(), output_size=nnz)


def offsets_of(sorted_rows: torch.Tensor, rows: int) -> torch.Tensor:
    """The row offsets of nonzeros in the order of rows, int64 [rows + 1]."""
    counts = torch.bincount(sorted_rows, minlength=rows)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _checked(row_offsets, col_indices, values, shape) -> Csr:
    """A CSR matrix whose rows are sorted, from arrays that may hold anything."""
    rows, cols = _sizes(*shape)
    for name, array in (("row offsets", row_offsets), ("column indices", col_indices)):
        _check(
            array.dim() == 1 and array.dtype in (torch.int32, torch.int64),
            f"the {name} are {tuple(array.shape)} of {array.dtype}, but have to be one-dimensional "
            "int32 or int64",
        )
    _check(
        row_offsets.numel() == rows + 1,
        f"A has {rows} rows, but {row_offsets.numel()} row offsets instead of {rows + 1}",
    )
    nnz = col_indices.numel()
    if values is not None:
        _check(
            values.shape == (nnz,),
            f"A has {nnz} column indices, but values of shape {tuple(values.shape)}",
        )
        _check(values.is_floating_point(), f"A's values are of {values.dtype}, not floating-point")
        _check(
            values.device == col_indices.device == row_offsets.device,
            "A's arrays are on different devices",
        )
    row_offsets, col_indices, order = row_offsets.detach().long(), col_indices.detach(), None
    if isinstance(row_offsets, torch._subclasses.FakeTensor):
        return Csr(row_offsets.contiguous(), col_indices.int().contiguous(), values, (rows, cols))
    _check(
        int(row_offsets[0]) == 0 and int(row_offsets[-1]) == nnz,
        f"the row offsets go from {int(row_offsets[0])} to {int(row_offsets[-1])}, not from 0 to {nnz}",
    )
    _check(bool((row_offsets.diff() >= 0).all()), "the row offsets descend")
    if nnz > 0:
        low, high = int(col_indices.min()), int(col_indices.max())
        _check(
            low >= 0 and high < cols,
            f"column indices reach from {low} to {high}, but A has {cols} columns",
        )
        keys = rows_of(row_offsets, nnz) * cols + col_indices.long()
        steps = keys.diff()
        if not bool((steps > 0).all()):
            keys, order = keys.sort()
            repeated = (keys.diff() == 0).nonzero()
            if repeated.numel():
                key = int(keys[int(repeated[0])])
                raise ValueError(
                    f"tessera.torch: A has row {key // cols}, column {key % cols} more than once; "
                    "add such elements first (coalesce)"
                )
            col_indices = col_indices[order]
            values = None if values is None else values[order]
    col_indices = col_indices.int().contiguous()
    return Csr(row_offsets.contiguous(), col_indices, values, (rows, cols), order)


def _from_blocks(a: torch.Tensor) -> Csr:
    """Every element of a block is a nonzero, zeros among them."""
    blocks, (height, width) = a.values(), a.values().shape[-2:]
    of_block = rows_of(a.crow_indices().long(), a.col_indices().numel())
    rows = (of_block * height).view(-1, 1, 1) + torch.arange(height, device=a.device).view(1, -1, 1)
    first_cols = a.col_indices().long() * width
    cols = first_cols.view(-1, 1, 1) + torch.arange(width, device=a.device).view(1, 1, -1)
    keys = (rows * a.shape[1] + cols).reshape(-1)
    keys, order = keys.sort()
    row_offsets = offsets_of(keys // a.shape[1], a.shape[0])
    values = blocks.reshape(-1)[order]
    return _checked(row_offsets, keys % a.shape[1], values, a.shape)._replace(order=order)


def _from_coo(a: torch.Tensor) -> Csr:
    a = a.coalesce()
    rows, cols = a.indices()
    return _checked(offsets_of(rows, a.shape[0]), cols, a.values(), a.shape)


def values_of(a: Any, order: torch.Tensor | None) -> torch.Tensor | None:
    """The values of A, with their autograd history, in the order that `csr_of` has found."""
    if isinstance(a, tuple | list):
        values = a[2] if len(a) == 3 else None
    elif a.layout in (torch.sparse_csr, torch.sparse_bsr):
        values = a.values().reshape(-1)
    else:
        values = a.to_sparse_coo().coalesce().values()
    return values if values is None or order is None else values[order]


def csr_of(a: Any, shape: tuple[int, int] | None = None) -> Csr:
    """Any form of A as a `Csr`; a `Csr` as it is.

    Args:
        a: a torch tensor of layout CSR, CSC, COO, BSR or BSC [M, K]; a SciPy sparse matrix; a
            `tessera.Matrix`; or a tuple (row_offsets [M + 1], col_indices [nnz], values [nnz] or None for ones) of integer
            and floating-point tensors.
        shape: (M, K), required with a tuple.

    Raises:
        ValueError: for arrays that are no matrix, and for elements that are given twice.
        TypeError: for any other object.
    """
    if isinstance(a, Csr):
        return a
    if isinstance(a, Matrix):
        values = a.values if a.values64 is None else a.values64
        arrays = (torch.tensor(array) for array in (a.row_offsets, a.col_indices, values))
        return _checked(*arrays, a.shape)
    if isinstance(a, tuple | list):
        _check(
            len(a) in (2, 3), f"A is a tuple of {len(a)}, not (row_offsets, col_indices, values)"
        )
        _check(shape is not None, "A given as a tuple needs shape=(rows, columns)")
        return _checked(a[0], a[1], a[2] if len(a) == 3 else None, shape)
    if hasattr(a, "tocsr") and not isinstance(a, torch.Tensor):
        matrix = a.tocsr()
        matrix.sum_duplicates()
        arrays = (matrix.indptr, matrix.indices, matrix.data)
        offsets, cols, values = (torch.from_numpy(array) for array in arrays)
        if not values.is_floating_point():
            values = values.float()
        return _checked(offsets, cols, values, matrix.shape)
    if not isinstance(a, torch.Tensor):
        raise TypeError(f"tessera.torch: A is a {type(a).__name__}, not a sparse matrix")
    _check(a.dim() == 2, f"A has {a.dim()} dimensions, not 2")
    if a.layout == torch.sparse_csr:
        return _checked(a.crow_indices(), a.col_indices(), a.values(), a.shape)
    if a.layout == torch.sparse_coo:
        return _from_coo(a)
    if a.layout == torch.sparse_bsr:
        return _from_blocks(a)
    if a.layout in (torch.sparse_csc, torch.sparse_bsc):
        return _from_coo(a.to_sparse_coo())
    raise TypeError(
        "tessera.torch: A is dense; make it sparse first, for instance by A.to_sparse_csr()"
    )


def transpose(row_offsets, col_indices, cols: int):
    """The arrays of A^T, and for each of its nonzeros the index of its value in A.

    Returns:
        row offsets int64 [cols + 1], column indices int32 [nnz], value indices int64 [nnz].
    """
    sorted_cols, order = col_indices.long().sort(stable=True)
    rows = rows_of(row_offsets, order.numel())[order]
    return offsets_of(sorted_cols, cols), rows.int(), order
