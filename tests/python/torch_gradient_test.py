"""Gradients of tessera.torch: for B, for A's values and of sampled products, against finite differences
in FP64 and against the dense product in the smaller types."""

import gc
import time

from torch_support import (
    UNIT,
    SparseOperator,
    assert_product,
    dense,
    main,
    on_each_device,
    pytest,
    sddmm,
    sparse,
    spgemm,
    spmm,
    tessera,
    torch,
)

F64 = torch.float64


def operands(device, *shape_of_b):
    """An operator in FP64, its values and a B, both of which want gradients."""
    operator = SparseOperator(sparse(7, 5, dtype=F64, device=device).to_sparse_csr())
    values = operator.values.clone().requires_grad_()
    return operator, values, dense(*shape_of_b, dtype=F64, device=device).requires_grad_()


@on_each_device
@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3), (2, 2, 5, 1)])
def test_the_gradient_of_a_product_is_that_of_differences(device, shape):
    operator, values, b = operands(device, *shape)
    assert torch.autograd.gradcheck(lambda v, x: operator(x, v), (values, b))


@on_each_device
def test_the_gradient_of_a_product_with_the_transpose_is_that_of_differences(device):
    operator, values, b = operands(device, 7, 3)
    product = lambda v, x: operator.multiply_transposed(x, v)  # noqa: E731
    assert torch.autograd.gradcheck(product, (values, b))


@on_each_device
def test_the_gradient_of_sampled_products_is_that_of_differences(device):
    operator, _, y = operands(device, 5, 3)
    x = dense(7, 3, seed=4, dtype=F64, device=device).requires_grad_()
    assert torch.autograd.gradcheck(operator.sddmm, (x, y))


@on_each_device
def test_gradients_have_gradients(device):
    operator, values, b = operands(device, 5, 3)
    x = dense(7, 3, seed=4, dtype=F64, device=device).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda v, y: operator(y, v), (values, b))
    assert torch.autograd.gradgradcheck(operator.sddmm, (x, b))


@on_each_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gradients_are_those_of_the_dense_product(device, dtype):
    a = sparse(60, 45, device=device)
    operator = SparseOperator(a.to_sparse_csr(), learnable=True, precision="fp32")
    b = dense(45, 16, dtype=dtype, device=device).requires_grad_()
    weights = dense(60, 16, seed=3, dtype=dtype, device=device)
    (operator(b) * weights).sum().backward()
    rows, cols = a.nonzero(as_tuple=True)
    of_b = a.double().t() @ weights.double()
    of_values = (weights.double() @ b.detach().double().t())[rows, cols]
    unit = max(UNIT[dtype], 64 * UNIT[torch.float32])
    for gradient, exact, like in (
        (b.grad, of_b, b),
        (operator.values.grad, of_values, operator.values),
    ):
        assert gradient.dtype == like.dtype
        assert (gradient.double() - exact).abs().max() <= 4 * unit * exact.abs().max()


@on_each_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_values_that_are_fixed_give_the_gradient_of_b(device, dtype, transposed, batch):
    a = sparse(60, 45, device=device)
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32")
    factor = a.t() if transposed else a
    outer, inner = factor.shape
    b = dense(*batch, inner, 16, dtype=dtype, device=device).requires_grad_()
    weights = dense(*batch, outer, 16, seed=3, dtype=dtype, device=device).requires_grad_()
    c = operator.multiply_transposed(b) if transposed else operator(b)
    (gradient,) = torch.autograd.grad(c, b, weights, create_graph=True)
    (second,) = torch.autograd.grad(gradient, weights, b.detach())  # of A^T W B: A B again
    for i in range(torch.Size(batch).numel()):
        at = lambda tensor: tensor.detach().reshape(-1, *tensor.shape[-2:])[i]  # noqa: B023, E731
        assert_product(at(c), factor, at(b))
        assert_product(at(gradient), factor.t(), at(weights))
        assert_product(at(second), factor, at(b))


@on_each_device
def test_matrices_side_by_side_have_gradients_of_b_and_of_the_values(device):
    operator, values, b = operands(device, 5, 3, 2)
    assert torch.autograd.gradcheck(lambda v, x: operator(x.movedim(0, 1), v), (values, b))
    assert torch.autograd.gradcheck(lambda x: operator(x.movedim(0, 1)), (b,))


@on_each_device
def test_a_gradient_has_the_values_of_its_product(device):
    a, b = sparse(60, 45, device=device), dense(45, 16, device=device).requires_grad_()
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32")
    weights = dense(60, 16, seed=3, device=device)
    changed = operator(b)
    operator.set_values(operator.values * 3)
    with pytest.raises(RuntimeError, match="changed in place"):
        changed.backward(weights)
    replaced = operator(b)
    operator.values = operator.values * 2
    assert_product(operator(b.detach()), 6 * a, b.detach())
    replaced.backward(weights)
    assert_product(b.grad, 3 * a.t(), weights)
    assert_product(operator(b.detach()), 6 * a, b.detach())


@on_each_device
def test_a_gradient_of_values_may_exceed_the_range_of_fp16(device):
    a = sparse(30, 25, device=device)
    operator = SparseOperator(a.to_sparse_csr(), learnable=True)
    b = torch.full((25, 64), 100.0, dtype=torch.float16, device=device)
    operator(b).backward(torch.full((30, 64), 100.0, dtype=torch.float16, device=device))
    assert torch.equal(operator.values.grad, torch.full_like(operator.values, 64 * 100 * 100.0))


@on_each_device
def test_a_sparse_tensor_gets_a_gradient_of_its_own_pattern(device):
    a, b = sparse(20, 15, dtype=F64, device=device), dense(15, 4, dtype=F64, device=device)
    for convert in (torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse_coo):
        given = convert(a).requires_grad_()
        spmm(given, b).square().sum().backward()
        reference = a.clone().requires_grad_()
        (reference @ b).square().sum().backward()
        expected = torch.where(a != 0, reference.grad, 0)
        assert torch.allclose(given.grad.to_dense(), expected)


@on_each_device
def test_values_of_a_tuple_get_a_gradient(device):
    csr = sparse(20, 15, dtype=F64, device=device).to_sparse_csr()
    values = csr.values().clone().requires_grad_()
    b = dense(15, 4, dtype=F64, device=device)
    arrays = (csr.crow_indices(), csr.col_indices())
    assert torch.autograd.gradcheck(lambda v: spmm((*arrays, v), b, shape=csr.shape), (values,))


@on_each_device
def test_only_the_gradients_that_are_wanted_are_computed(device):
    operator, values, b = operands(device, 5, 3)
    operator(b, values.detach()).sum().backward()
    assert b.grad is not None and values.grad is None
    operator(b.detach(), values).sum().backward()
    assert values.grad is not None
    with torch.no_grad():
        assert not operator(b, values).requires_grad
    with pytest.raises(RuntimeError, match="no gradient"):
        operator.multiply_into(torch.empty(7, 3, dtype=F64, device=device), b)


@on_each_device
def test_the_product_of_sparse_matrices_has_gradients(device):
    a = sparse(6, 5, dtype=F64, device=device).to_sparse_coo().requires_grad_()
    b = sparse(5, 4, seed=2, dtype=F64, device=device).to_sparse_coo().requires_grad_()
    spgemm(a, b).to_dense().sum().backward()
    dense_a, dense_b = (
        a.detach().to_dense().requires_grad_(),
        b.detach().to_dense().requires_grad_(),
    )
    (dense_a @ dense_b).sum().backward()
    for given, reference in ((a, dense_a), (b, dense_b)):
        assert torch.allclose(given.grad.to_dense(), torch.where(reference != 0, reference.grad, 0))


@on_each_device
@pytest.mark.parametrize("dtype", [F64, torch.float32])
def test_an_operator_outlives_its_last_name_in_a_graph(device, dtype):
    b = dense(5, 3, dtype=dtype, device=device).requires_grad_()
    c = SparseOperator(sparse(7, 5, dtype=dtype, device=device).to_sparse_csr())(b)
    c.sum().backward()
    assert torch.isfinite(b.grad).all()


@on_each_device
def test_an_operator_is_freed_after_the_last_gradient_that_needs_it(device):
    b, weights = dense(5, 3, device=device).requires_grad_(), dense(7, 3, seed=2, device=device)
    a = sparse(7, 5, device=device)
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32")
    number, c = operator._number, operator(b)
    del operator
    gc.collect()
    tessera.torch._patterns.pattern_of(number)  # of which the gradient wants the transpose
    c.backward(weights)
    assert_product(b.grad, a.t(), weights)
    del c
    gc.collect()
    for _ in range(100):  # the thread that ran the gradient may keep it for a moment
        SparseOperator(a.to_sparse_csr())
        try:
            tessera.torch._patterns.pattern_of(number)
        except RuntimeError:
            return
        time.sleep(0.01)
    raise AssertionError("the operator is still there")


@on_each_device
def test_transforms_of_functions_differentiate_or_say_why_not(device):
    a, b = sparse(7, 5, device=device), dense(5, 3, device=device)
    operator, kept = SparseOperator(a.to_sparse_csr(), precision="fp32"), []

    def keeps_its_argument(x):
        kept.append(x)
        return (operator(x) * weights).sum()

    weights = dense(7, 3, seed=2, device=device)
    if tessera.torch._native.HAS_GRADIENTS:
        assert_product(torch.func.grad(keeps_its_argument)(b), a.t(), weights)
    else:
        with pytest.raises(RuntimeError, match="setup_context"):
            torch.func.grad(keeps_its_argument)(b)
    assert_product(operator(kept[0]), a, b)  # an argument that has outlived its transform
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level(), pytest.raises(NotImplementedError):
        operator(forward_ad.make_dual(b.clone().requires_grad_(), b))


def test_a_torch_without_what_is_asked_of_it_differentiates_by_its_own_way(monkeypatch):
    from tessera.torch import _autograd

    assert _autograd._applied(_autograd._Multiply) != _autograd._Multiply.apply
    monkeypatch.delattr(torch._C, "_are_functorch_transforms_active")
    assert _autograd._applied(_autograd._Multiply) == _autograd._Multiply.apply


@on_each_device
def test_attention_trains(device):
    """Weights from sampled products, normalised by rows, then a product: all of it differentiable."""
    a = (sparse(12, 12, dtype=F64, device=device) != 0).double()
    operator = SparseOperator(a.to_sparse_csr())
    x = dense(12, 4, dtype=F64, device=device).requires_grad_()

    def attend(x):
        scores = operator.sddmm(x, x).exp()
        ones = torch.ones(12, 1, dtype=F64, device=device)
        return operator(x, scores) / (operator(ones, scores) + 1)

    assert torch.autograd.gradcheck(attend, (x,))
    assert sddmm(operator, x, x).requires_grad


if __name__ == "__main__":
    main(__file__)
