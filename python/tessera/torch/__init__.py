"""Sparse products in PyTorch: C = A B with A sparse, differentiable, on CPUs and GPUs.

    >>> import torch
    >>> from tessera.torch import SparseOperator
    >>> a = torch.tensor([[0.0, 2.0], [1.0, 0.0], [0.0, 3.0]]).to_sparse_csr()
    >>> SparseOperator(a) @ torch.ones(2, 1)
    tensor([[2.],
            [1.],
            [3.]])

`spmm`, `sddmm` and `spgemm` are functions; `SparseOperator` prepares one A for many products.
"""

from .functional import sddmm, spgemm, spmm
from .operator import SparseOperator

__all__ = ["SparseOperator", "sddmm", "spgemm", "spmm"]
