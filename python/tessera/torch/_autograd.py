"""Derivatives of the operators: of C = A B for B (a product with A^T) and for A's values (sampled
products), and of sampled products for X and Y (products whose A has their gradient as values)."""

from __future__ import annotations

import torch

from . import _library as _library  # loads the operators
from . import _native
from ._patterns import Pattern


def _function_of(operator):
    """The function below an OpOverload, which saves a call, where this torch has it."""
    return getattr(operator.default, "_op", operator.default)


# Without derivatives: calls of these are cheaper, since torch asks no Python code about autograd.
_raw_spmm, _raw_sddmm, raw_multiply = map(
    _function_of,
    (torch.ops.tessera._spmm, torch.ops.tessera._sddmm, torch.ops.tessera._multiply),
)
# A's values have to be set for the product: nobody knows which ones the plan has.
ALWAYS_SET = 0


def spmm(values, b, pattern: Pattern, transposed: bool, stamp: int):
    """A B, or A^T B, with derivatives where they are wanted; not for compiled functions.

    Args:
        values: [nnz] float32, float64 for a B of float64.
        b: [..., K, N] of float32, float16, bfloat16 or float64.
        transposed: multiplies by A^T.
        stamp: names a state of the values, or `ALWAYS_SET`.
    """
    if torch.is_grad_enabled() and (b.requires_grad or values.requires_grad):
        return _Spmm.apply(values, b, pattern, transposed, stamp)
    return _raw_spmm(
        values, b, pattern.number, pattern.shape[1 if transposed else 0], transposed, stamp
    )


def sddmm(x, y, pattern: Pattern, wide: bool = False):
    """X Y^T at A's nonzeros [nnz], with derivatives where they are wanted. `wide`: FP16 and BF16 give
    FP32, as gradients of values do."""
    if torch.is_grad_enabled() and (x.requires_grad or y.requires_grad):
        return _Sddmm.apply(x, y, pattern, wide)
    return _raw_sddmm(x, y, pattern.number, pattern.nnz, wide)


def _columns(tensor: torch.Tensor) -> torch.Tensor:
    """[..., K, N] as [K, ... * N]: the sum over batches is then part of each dot product."""
    if tensor.dim() == 2:
        return tensor
    return tensor.movedim(-2, 0).reshape(tensor.shape[-2], -1)


def _samples(of_rows, of_cols, transposed):
    """The operands of the sampled product that is the gradient of A's values."""
    x, y = _columns(of_rows), _columns(of_cols)
    return (y, x) if transposed else (x, y)


class _Spmm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, b, pattern, transposed, stamp):
        ctx.save_for_backward(values, b if values.requires_grad else None)
        ctx.given = pattern, transposed, stamp
        return _raw_spmm(
            values, b, pattern.number, pattern.shape[1 if transposed else 0], transposed, stamp
        )

    @staticmethod
    def backward(ctx, gradient):
        values, b = ctx.saved_tensors
        pattern, transposed, stamp = ctx.given
        grad_values = grad_b = None
        if ctx.needs_input_grad[1]:
            grad_b = spmm(values, gradient, pattern, not transposed, stamp)
        if ctx.needs_input_grad[0]:
            x, y = _samples(gradient, b, transposed)
            grad_values = sddmm(x, y, pattern, True)
        return grad_values, grad_b, None, None, None


class _Multiply(torch.autograd.Function):
    """The derivative for B alone, in as few steps as possible."""

    @staticmethod
    def forward(ctx, b, pattern, transposed):
        ctx.given = pattern, transposed, pattern.held
        return raw_multiply(b, pattern.sides[transposed])

    @staticmethod
    def backward(ctx, gradient):
        pattern, transposed, held = ctx.given
        values, version = held
        if values._version != version:
            raise RuntimeError(
                "tessera.torch: A's values have been changed in place since the product whose gradient is asked for"
            )
        if pattern.held is not held:
            return spmm(values, gradient, pattern, not transposed, ALWAYS_SET), None, None
        if gradient.requires_grad and torch.is_grad_enabled():
            return multiply_with_gradient(gradient, pattern, not transposed), None, None
        return raw_multiply(gradient, pattern.sides[not transposed]), None, None


def _applied(function):
    """What `function.apply` does for a first argument that alone is a tensor. Function.apply looks for
    a setup_context and at every argument before; where this torch has what it asks, this asks less."""
    try:
        transforms, unwrap = (
            torch._C._are_functorch_transforms_active,
            torch._C._functorch.unwrap_if_dead,
        )
    except AttributeError:
        return function.apply
    apply = super(torch.autograd.Function, function).apply

    def applied(tensor, *rest):
        if transforms():
            return function.apply(tensor, *rest)  # an error that says why
        return apply(unwrap(tensor), *rest)

    return applied


if _native.HAS_GRADIENTS:
    _raw_multiply_with_gradient = _function_of(torch.ops.tessera._multiply_with_gradient)

    def multiply_with_gradient(b, pattern: Pattern, transposed: bool):
        """A B or A^T B with the values that the pattern holds, and the derivative for b, which wants one."""
        return _raw_multiply_with_gradient(b, pattern.sides[transposed])
else:
    multiply_with_gradient = _applied(_Multiply)


class _Sddmm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, pattern, wide):
        ctx.save_for_backward(x, y)
        ctx.pattern = pattern
        return _raw_sddmm(x, y, pattern.number, pattern.nnz, wide)

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        values = gradient.to(_wide(x))
        grad_x = grad_y = None
        if ctx.needs_input_grad[0]:
            grad_x = spmm(values, y, ctx.pattern, False, ALWAYS_SET)
        if ctx.needs_input_grad[1]:
            grad_y = spmm(values, x, ctx.pattern, True, ALWAYS_SET)
        return grad_x, grad_y, None, None


def _wide(tensor: torch.Tensor) -> torch.dtype:
    """The type of A's values for a B of this type."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


# ---- the same derivatives for compiled functions, which hold the number of the pattern -----------


def _keep_spmm(ctx, inputs, output):
    values, b, *ctx.given = inputs
    ctx.save_for_backward(values, b)


def _spmm_backward(ctx, gradient):
    values, b = ctx.saved_tensors
    number, _, transposed, stamp = ctx.given
    grad_values = grad_b = None
    if ctx.needs_input_grad[1]:
        grad_b = _spmm(values, gradient, number, b.shape[-2], not transposed, stamp)
    if ctx.needs_input_grad[0]:
        x, y = _samples(gradient, b, transposed)
        grad_values = _sddmm(x, y, number, values.shape[0], True)
    return grad_values, grad_b, None, None, None, None


def _keep_sddmm(ctx, inputs, output):
    x, y, ctx.number, *_ = inputs
    ctx.save_for_backward(x, y)


def _sddmm_backward(ctx, gradient):
    x, y = ctx.saved_tensors
    values = gradient.to(_wide(x))
    grad_x = grad_y = None
    if ctx.needs_input_grad[0]:
        grad_x = _spmm(values, y, ctx.number, x.shape[0], False, ALWAYS_SET)
    if ctx.needs_input_grad[1]:
        grad_y = _spmm(values, x, ctx.number, y.shape[0], True, ALWAYS_SET)
    return grad_x, grad_y, None, None, None


_spmm, _sddmm = torch.ops.tessera.spmm.default, torch.ops.tessera.sddmm.default
torch.library.register_autograd("tessera::spmm", _spmm_backward, setup_context=_keep_spmm)
torch.library.register_autograd("tessera::sddmm", _sddmm_backward, setup_context=_keep_sddmm)
