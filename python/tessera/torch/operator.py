"""A sparse matrix that multiplies dense ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from . import _native
from ._autograd import ALWAYS_SET, multiply_with_gradient, raw_multiply, sddmm, spmm
from ._patterns import Pattern, make_options
from ._structure import csr_of

_spmm_out = torch.ops.tessera._spmm_out.default
_stamps = itertools.count(1)
_FLOAT64 = torch.float64
# In place of the values that products are ready for: (where they are kept, values, version, number of the operator).
_NOT_READY = {"values": None}, object(), 0, 0
_usual_multiply = _native.usual_multiply
_is_compiling = torch.compiler.is_compiling
_is_tracing = torch.compiler.is_dynamo_compiling
_is_grad_enabled = torch.is_grad_enabled
_OF_THIS_PROCESS = {"_pattern", "_number", "_store", "_stamped", "_ready", "_set_version", "_stamp"}


class SparseOperator(nn.Module):
    """A sparse matrix A [M, K] of fixed pattern, prepared for many products: C = A B.

    On a GPU, the first product with a B of some width and type packs A and, unless the options name
    one kernel, times the candidate kernels (milliseconds to seconds; it also copies the pattern to
    the host). Later ones take a few microseconds of host time and run on the current stream. The
    operator keeps a packed copy of A for each of the last eight widths and types of B, and as much
    for A^T once a gradient has asked for it. On a CPU nothing is prepared.

    Args:
        a: A sparse torch tensor (CSR, CSC, COO, BSR, BSC), a SciPy sparse matrix, a
            `tessera.Matrix`, or a tuple (row_offsets [M + 1], col_indices [nnz], values [nnz] or
            None for ones) of tensors.
            Indices may be of int32 or int64; M, K < 2^31. Values of float64 stay so; others become
            float32.
        shape: (M, K); required with a tuple.
        learnable: makes the values a parameter.
        precision: Of products on a GPU. "fp32": as accurate as FP32, of the operands as they are;
            "tf32": operands are rounded to TF32, and A's values to the type of a float16 or bfloat16
            B; "fastest": either. None: "fastest" for a B of 16 bits, as in torch.mm; for a float32 B
            "fp32" where `torch.get_float32_matmul_precision()` is "highest", torch's default, else
            "fastest". Sums are in FP32.
        deterministic: A kernel gives the same bits every time. True: it is chosen by a rule, so that
            they are the same for every operator and in every process; False: by timing. None: as
            `torch.are_deterministic_algorithms_enabled()` says.
        expected_products: About how often one A is multiplied; up to 20, nothing is timed: a formula
            chooses the kernel. With more, an order of A's rows is found on the GPU where a formula
            expects it to save more than it takes, and kept where its products are the faster ones; B
            and C keep their order. None: often, and no order is looked for.
        reorder: A reordering of A's rows that suits the kernels, such as "rcm" (`tessera list
            reorderings`), for a float32 B. B and C keep their order.
        kernel: One kernel or several to choose from, by the names of `tessera list kernels`; in
            place of `precision` and `deterministic`.

    Products of one operator share a workspace on the GPU; on different streams they wait for each
    other. A replay of a CUDA graph does not: let it and other products of the same operator run on
    one stream, or copy the operator (`copy.deepcopy`).
    """

    def __init__(
        self,
        a: Any,
        *,
        shape: tuple[int, int] | None = None,
        learnable: bool = False,
        precision: str | None = None,
        deterministic: bool | None = None,
        expected_products: int | None = None,
        reorder: str | None = None,
        kernel: str | Sequence[str] | None = None,
    ):
        super().__init__()
        options = make_options(precision, deterministic, expected_products, reorder, kernel)
        csr = csr_of(a, shape)
        self.shape = csr.shape
        self.nnz = csr.col_indices.numel()
        self.learnable = bool(learnable)
        self.options = options
        values = csr.values
        if values is None:
            values = torch.ones(self.nnz, device=csr.col_indices.device)
        elif values.dtype != torch.float64:
            values = values.float()
        values = values.detach().clone(memory_format=torch.contiguous_format)
        self.register_buffer("row_offsets", csr.row_offsets)
        self.register_buffer("col_indices", csr.col_indices)
        if learnable:
            self.values = nn.Parameter(values)
        else:
            self.register_buffer("values", values)
        self._prepare()

    # ---- products --------------------------------------------------------------------------------

    def forward(self, b: torch.Tensor, values: torch.Tensor | None = None) -> torch.Tensor:
        """A B, differentiable for B and for the values.

        Args:
            b: [..., K, N] or [K], of float32, float16, bfloat16 or float64, on the device of A.
            values: [nnz] in place of the operator's, in the order of `row_offsets` and
                `col_indices`.

        Returns:
            [..., M, N] or [M], of the type of b.

        Raises:
            RuntimeError: for a B of another shape, type or device.
        """
        return self._multiply(b, values, False)

    def multiply_transposed(
        self, b: torch.Tensor, values: torch.Tensor | None = None
    ) -> torch.Tensor:
        """A^T B [..., K, N] for b [..., M, N]; everything else as in `forward`."""
        return self._multiply(b, values, True)

    def multiply_into(
        self,
        out: torch.Tensor,
        b: torch.Tensor,
        values: torch.Tensor | None = None,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> torch.Tensor:
        """C = alpha A B + beta C in `out`, without gradients.

        Args:
            out: C [..., M, N], contiguous, of the type of b; not read when beta is 0.
            b, values: as in `forward`.
        """
        wants = (
            b.requires_grad or out.requires_grad or (values is not None and values.requires_grad)
        )
        if torch.is_grad_enabled() and (wants or self.values.requires_grad):
            raise RuntimeError(
                "tessera.torch: a product into out has no gradient; use torch.no_grad()"
            )
        values, stamp = self._values_for(b, values)
        if self.nnz == 0 or (b.dtype == torch.float64 and b.device.type == "cuda"):
            product = alpha * spmm(values, b, self._pattern, False, stamp)
            return out.copy_(product if beta == 0 else product + beta * out)
        _spmm_out(values, b, out, self._number, False, stamp, alpha, beta)
        return out

    def sddmm(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The elements of X Y^T at the nonzeros of A, differentiable for both.

        Args:
            x: [M, D]. y: [K, D], of the type of x.

        Returns:
            [nnz], of the type of x, in the order of `row_offsets` and `col_indices`.
        """
        x, y = _autocast(x), _autocast(y)
        if torch.compiler.is_compiling():
            return torch.ops.tessera.sddmm(x, y, self._number, self.nnz, False)
        return sddmm(x, y, self._pattern)

    def _multiply(self, b, values=None, transposed=False):
        if values is None and _usual_multiply is not None and not _is_tracing():
            c = _usual_multiply(b, self._ready, transposed)
            if c is not None:
                return c
        if _is_compiling():
            return self._multiply_compiled(b, values, transposed)
        if _any_autocast():
            b = _autocast(b)
        if b.ndim == 1:
            return self._multiply(b.unsqueeze(-1), values, transposed).squeeze(-1)
        if values is None and b.dtype is not _FLOAT64:
            # The usual case in as few steps as possible: own values, unchanged since the last product.
            store, ready, version, _ = self._ready
            if store["values"] is ready and ready._version == version:
                pattern = self._pattern
                if ready.requires_grad:
                    return spmm(ready, b, pattern, transposed, self._stamp)
                if b.requires_grad and _is_grad_enabled():
                    return multiply_with_gradient(b, pattern, transposed)
                return raw_multiply(b, pattern.sides[transposed])
        values, stamp = self._values_for(b, values)
        return spmm(values, b, self._pattern, transposed, stamp)

    __matmul__ = _multiply  # itself, since a call more takes as long as half of its checks

    def _multiply_compiled(self, b, values, transposed):
        if b.dim() == 1:
            return self._multiply_compiled(b.unsqueeze(-1), values, transposed).squeeze(-1)
        b = _autocast(b)
        fixed = values is None and not self.learnable
        stamp = self._stamp if fixed else ALWAYS_SET
        values = (self.values if values is None else values).to(_type_of_values(b))
        rows = self.shape[1 if transposed else 0]
        return torch.ops.tessera.spmm(values, b, self._number, rows, transposed, stamp)

    def _values_for(self, b, values):
        """The values of a product with b, and their stamp."""
        stamp = ALWAYS_SET
        if values is None:
            values = self.values
            stamp = self._stamp_of(values)
        wide = _type_of_values(b)
        return (values if values.dtype is wide else values.to(wide)), stamp

    def _stamp_of(self, values) -> int:
        """The stamp of the operator's own values: a new one whenever they have changed."""
        if values.is_inference():  # it has no version
            return ALWAYS_SET
        if values is not self._stamped or values._version != self._set_version:
            # Negative: a graph that is captured sets them anew at each replay.
            stamp = -next(_stamps) if self.learnable else next(_stamps)
            ready = _NOT_READY
            if values.dtype is torch.float32 and values.is_contiguous():
                self._pattern.hold(values, stamp)
                ready = self._store, values, values._version, self._number
            # Past nn.Module, for which they would be one more parameter or buffer.
            self.__dict__.update(_stamped=values, _ready=ready, _set_version=values._version)
            self._stamp = stamp
        return self._stamp

    # ---- the matrix ------------------------------------------------------------------------------

    def set_values(self, values: torch.Tensor) -> None:
        """Replaces the values [nnz] in place; later products use them. A compiled function is
        compiled anew; for values that change often, pass them to `forward`."""
        if values.shape != (self.nnz,):
            raise ValueError(
                f"tessera.torch: the values are of shape {tuple(values.shape)}, but A has {self.nnz} nonzeros"
            )
        with torch.no_grad():
            self.values.copy_(values)
        self._stamp_of(self.values)

    def to_sparse_csr(self) -> torch.Tensor:
        """A as a torch tensor that shares the operator's arrays."""
        return torch.sparse_csr_tensor(
            self.row_offsets,
            self.col_indices.long(),
            self.values,
            self.shape,
            check_invariants=False,
        )

    def plan(
        self, n: int, dtype: torch.dtype = torch.float32, transposed: bool = False
    ) -> dict | None:
        """Prepares products with B of n columns, as before the capture of a CUDA graph.

        Returns:
            The chosen kernel, its packed size and every candidate's time in microseconds, as
            libtessera describes them; None on a CPU, where nothing is prepared.
        """
        if self.row_offsets.device.type != "cuda" or dtype == torch.float64 or self.nnz == 0:
            return None
        inner = self.shape[0 if transposed else 1]
        zeros = torch.zeros(inner, n, dtype=dtype, device=self.row_offsets.device)
        with torch.no_grad():
            self._multiply(zeros, None, transposed)
        return self._pattern.describe(transposed, n, dtype)

    def extra_repr(self) -> str:
        rows, cols = self.shape
        return f"{rows} x {cols}, {self.nnz} nonzeros, {self.options}"

    # ---- what a module of torch has to do --------------------------------------------------------

    def _prepare(self) -> None:
        """Gives the present arrays a number of their own. Plans follow when they are needed."""
        # Where the values are: a search by nn.Module takes longer than all else.
        store = self._parameters if self.learnable else self._buffers
        self.__dict__.update(_store=store, _stamped=None, _ready=_NOT_READY)
        self._set_version, self._stamp = 0, ALWAYS_SET
        self._pattern, self._number = None, 0
        on_meta = self.row_offsets.device.type == "meta"
        if not on_meta and not isinstance(self.row_offsets, torch._subclasses.FakeTensor):
            self._pattern = Pattern(self.row_offsets, self.col_indices, self.shape, self.options)
            self._number = self._pattern.number
            self._stamp_of(self.values)

    def _apply(self, fn, recurse=True):
        before = self.row_offsets
        super()._apply(fn, recurse)
        if self.row_offsets is not before:
            self._prepare()
        else:  # the values may have another type
            self.__dict__.update(_stamped=None, _ready=_NOT_READY)
        return self

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name not in _OF_THIS_PROCESS}

    def __setstate__(self, state):
        super().__setstate__(state)
        self._prepare()

    def get_extra_state(self):
        return {"shape": list(self.shape)}

    def set_extra_state(self, state):
        self.shape = tuple(state["shape"])

    def _load_from_state_dict(self, state_dict, prefix, *args):
        """A matrix of another size replaces this one. Raises ValueError where it is none."""
        for name in ("row_offsets", "col_indices", "values"):
            given, own = state_dict.get(prefix + name), getattr(self, name)
            if given is None:
                continue
            fresh = torch.empty(given.shape, dtype=own.dtype, device=own.device)
            if name == "values" and self.learnable:
                if given.shape != own.shape:
                    self.values = nn.Parameter(fresh)
            else:
                setattr(self, name, fresh)
        super()._load_from_state_dict(state_dict, prefix, *args)
        csr = csr_of((self.row_offsets, self.col_indices, self.values), self.shape)
        if not torch.equal(csr.col_indices, self.col_indices):
            raise ValueError("tessera.torch: the rows of the state's matrix are not sorted")
        self.nnz = self.col_indices.numel()
        self._prepare()


def _type_of_values(b: torch.Tensor) -> torch.dtype:
    return torch.float64 if b.dtype is torch.float64 else torch.float32


def _autocast(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in the type that autocast wants of products; float64 stays, as in torch.mm."""
    kind = tensor.device.type
    if not torch.is_autocast_enabled(kind) or tensor.dtype is torch.float64:
        return tensor
    return tensor.to(torch.get_autocast_dtype(kind))


def _enabled_somewhere() -> bool:
    return torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")


# One question in place of two, where this torch has it.
_any_autocast = getattr(torch._C, "_is_any_autocast_enabled", _enabled_somewhere)
