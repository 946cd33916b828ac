"""torch.ops.tessera: loads or defines the operators, and gives them shapes and derivatives."""

from __future__ import annotations

import torch

from . import _native, _patterns
from ._sampled import sampled_products, type_of_samples
from ._structure import lie_side_by_side

if _native.OPERATORS is not None:
    _patterns.registry = _native.OPERATORS
    _native.OPERATORS.tessera_torch_set_planner(_patterns.planner)
else:
    from . import _fallback

    _patterns.registry = _fallback.registry
    _defined = _fallback.define()

_library = torch.library.Library("tessera", "FRAGMENT")
_library.define("_spmm_fp64(Tensor values, Tensor b, int number, bool transposed) -> Tensor")
_library.define("_sddmm_fp64(Tensor x, Tensor y, int number) -> Tensor")


def _sddmm_fp64(x, y, number):
    """The reference on a GPU."""
    return sampled_products(_patterns.pattern_of(number), x, y, False)


def _spmm_fp64(values, b, number, transposed):
    """The reference on a GPU: gathers rows of B and adds them by rows of A, in their order."""
    pattern = _patterns.pattern_of(number)
    row_offsets, col_indices, rows, _ = pattern.side(transposed)
    if transposed:
        values = values[pattern.transposed[2]]
    c = b.new_empty(*b.shape[:-2], rows, b.shape[-1])
    width = max(1, _GATHERED // max(1, pattern.nnz))
    stacked_b, stacked_c = b.unsqueeze(0).flatten(0, -3), c.unsqueeze(0).flatten(0, -3)
    for of_b, of_c in zip(stacked_b, stacked_c):
        for first in range(0, b.shape[-1], width):
            columns = slice(first, first + width)
            gathered = of_b[:, columns][col_indices.long()] * values[:, None]
            of_c[:, columns] = torch.segment_reduce(
                gathered, "sum", offsets=row_offsets, axis=0, initial=0
            )
    return c


_GATHERED = 2**25  # elements of B that the reference gathers at a time

_library.impl("_spmm_fp64", _spmm_fp64, "CUDA")
_library.impl("_sddmm_fp64", _sddmm_fp64, "CUDA")


def _fake_spmm(values, b, number, rows, transposed, stamp):
    return b.new_empty(*b.shape[:-2], rows, b.shape[-1])


def _fake_sddmm(x, y, number, nnz, wide):
    return x.new_empty(nnz, dtype=type_of_samples(x, wide))


torch.library.register_fake("tessera::spmm", _fake_spmm)


@torch.library.register_fake("tessera::_spmm")
def _fake_like_b(values, b, number, rows, transposed, stamp):
    c = b.new_empty(*b.shape[:-2], rows, b.shape[-1])
    return c.as_strided(c.shape, b.stride()) if lie_side_by_side(b) else c


for _name in ("sddmm", "_sddmm"):
    torch.library.register_fake(f"tessera::{_name}", _fake_sddmm)
torch.library.register_fake("tessera::_spmm_out", lambda *_: None)
torch.library.register_fake("tessera::_hold_values", lambda *_: None)


@torch.library.register_fake("tessera::_multiply")
def _fake_multiply(b, side):
    rows = _patterns.pattern_of(abs(side)).shape[1 if side < 0 else 0]
    return _fake_like_b(None, b, abs(side), rows, side < 0, 0)
