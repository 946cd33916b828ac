"""Products of tessera.torch have the values of the dense products, on every device, for every form of
the operands, and wrong operands are refused with the cause."""

import numpy as np

from torch_support import (
    SparseOperator,
    assert_product,
    dense,
    main,
    needs_gpu,
    on_each_device,
    pytest,
    sddmm,
    sparse,
    spgemm,
    spmm,
    tessera,
    torch,
)

TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


def forms(a):
    """A in every form that is taken, by name."""
    csr = a.to_sparse_csr()
    arrays = (csr.crow_indices(), csr.col_indices(), csr.values())
    rows, cols = a.shape
    return {
        "csr": csr,
        "csc": a.to_sparse_csc(),
        "coo": a.to_sparse_coo(),
        "bsr": a.to_sparse_bsr((rows // 4, cols // 5)),
        "bsc": a.to_sparse_bsc((rows // 4, cols // 5)),
        "arrays": arrays,
        "arrays of int32": (arrays[0].int(), arrays[1].int(), arrays[2]),
    }


@on_each_device
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 7, 32, 100])
@pytest.mark.parametrize("precision", ["fp32", None])
def test_a_product_has_the_values_of_the_dense_one(device, dtype, n, precision):
    a = sparse(
        60, 45, dtype=torch.float64 if dtype == torch.float64 else torch.float32, device=device
    )
    b = dense(45, n, dtype=dtype, device=device)
    operator = SparseOperator(a.to_sparse_csr(), precision=precision)
    assert_product(operator(b), a, b)
    assert torch.equal(operator @ b, operator(b))


@needs_gpu
def test_tf32_is_rounded_to_tf32_and_no_more():
    a, b = sparse(300, 200, device="cuda"), dense(200, 64, device="cuda")
    operator = SparseOperator(a.to_sparse_csr(), precision="tf32")
    assert_product(operator(b), a, b, "tf32")


@on_each_device
@pytest.mark.parametrize("form", list(forms(sparse(20, 20))))
def test_every_form_of_a_gives_the_same_product(device, form):
    a, b = sparse(20, 20, device=device), dense(20, 8, device=device)
    given = forms(a)[form]
    shape = a.shape if isinstance(given, tuple) else None
    assert_product(SparseOperator(given, shape=shape)(b), a, b)
    assert_product(spmm(given, b, shape=shape), a, b)


def test_a_matrix_of_the_testbed_is_taken():
    matrix = tessera.Matrix("poisson2d(nx=5, ny=4)")
    b = dense(20, 8)
    assert_product(SparseOperator(matrix)(b), torch.tensor(matrix.to_dense()), b)


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_an_order_of_rows_changes_no_product(dtype):
    a, b = sparse(300, 300, device="cuda"), dense(300, 32, dtype=dtype, device="cuda")
    operator = SparseOperator(a.to_sparse_csr(), reorder="rcm", precision="fp32")
    assert_product(operator(b), a, b)
    assert_product(operator.multiply_transposed(b), a.t(), b)


def test_a_scipy_matrix_is_taken():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    a, b = sparse(20, 30), dense(30, 8)
    assert_product(SparseOperator(scipy_sparse.coo_matrix(a.numpy()))(b), a, b)


def test_rows_that_are_not_sorted_are_sorted():
    operator = SparseOperator(
        (torch.tensor([0, 3]), torch.tensor([2, 0, 1]), torch.tensor([1.0, 2.0, 3.0])), shape=(1, 3)
    )
    assert operator.col_indices.tolist() == [0, 1, 2] and operator.values.tolist() == [2, 3, 1]


def test_a_matrix_without_values_has_ones():
    operator = SparseOperator((torch.tensor([0, 1, 2]), torch.tensor([1, 0])), shape=(2, 2))
    assert (operator @ torch.eye(2)).tolist() == [[0, 1], [1, 0]]


@on_each_device
def test_a_batch_is_a_product_for_each_matrix(device):
    a, b = sparse(30, 25, device=device), dense(2, 3, 25, 16, device=device)
    c = SparseOperator(a.to_sparse_csr(), precision="fp32")(b)
    assert c.shape == (2, 3, 30, 16)
    for i in range(2):
        for j in range(3):
            assert_product(c[i, j], a, b[i, j])


@on_each_device
@pytest.mark.parametrize("batch", [(4,), (2, 3)])
@pytest.mark.parametrize("fixed", [True, False])
def test_matrices_side_by_side_are_multiplied_as_one_and_stay_so(device, batch, fixed):
    a = sparse(30, 25, device=device)
    b = dense(25, *batch, 16, device=device).movedim(0, -2)
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32")
    c = operator(b, None if fixed else operator.values.clone())
    assert c.shape == (*batch, 30, 16) and c.stride() == b.stride()
    for of_c, of_b in zip(c.flatten(0, -3), b.flatten(0, -3)):
        assert_product(of_c, a, of_b)
    apart = dense(25, 4, 20, device=device)[:, :, :16].movedim(0, -2)  # side by side with gaps
    for of_c, of_b in zip(operator(apart), apart):
        assert_product(of_c, a, of_b)


@on_each_device
def test_a_vector_gives_a_vector(device):
    a, b = sparse(30, 25, device=device), dense(25, device=device)
    c = SparseOperator(a.to_sparse_csr(), precision="fp32") @ b
    assert c.shape == (30,)
    assert_product(c[:, None], a, b[:, None])


@on_each_device
def test_b_may_have_any_strides(device):
    a, wide = sparse(30, 25, device=device), dense(50, 64, device=device)
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32")
    for b in (wide[:25, :16], wide[::2, ::4], wide[:16, :25].t(), wide[:25, :1].expand(25, 8)):
        assert not b.is_contiguous()
        assert_product(operator(b), a, b)


@on_each_device
def test_the_transpose_multiplies_too(device):
    a, b = sparse(30, 25, device=device), dense(30, 16, device=device)
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32")
    assert_product(operator.multiply_transposed(b), a.t(), b)


@on_each_device
@pytest.mark.parametrize("dtype", TYPES)
def test_out_is_scaled_and_added_to(device, dtype):
    a, b = sparse(30, 25, device=device), dense(25, 16, device=device).to(dtype)
    start = dense(30, 16, seed=3, device=device).to(dtype)
    out = start.clone()
    assert spmm(a.to_sparse_csr(), b, out=out, alpha=2, beta=-0.5) is out
    tolerance = 0.05 if dtype in (torch.float16, torch.bfloat16) else 1e-2
    expected = 2 * a.double() @ b.double() - 0.5 * start.double()
    assert (out.double() - expected).abs().max() < tolerance * expected.abs().max()
    poisoned = torch.full_like(out, float("nan"))
    spmm(a.to_sparse_csr(), b, out=poisoned)
    assert torch.isfinite(poisoned).all()


@on_each_device
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (5, 5), (0, 0)])
def test_an_empty_matrix_gives_zeros(device, shape):
    a = torch.zeros(*shape, device=device)
    operator = SparseOperator(a.to_sparse_csr())
    b = dense(shape[1], 4, device=device)
    assert torch.equal(operator(b), torch.zeros(shape[0], 4, device=device))
    assert operator.multiply_transposed(dense(shape[0], 4, device=device)).shape == (shape[1], 4)
    assert operator.sddmm(dense(shape[0], 4, device=device), b).shape == (0,)
    out = torch.ones(shape[0], 4, device=device)
    assert torch.equal(operator.multiply_into(out, b, beta=3), torch.full_like(out, 3))


@on_each_device
def test_a_b_without_columns_gives_a_c_without_columns(device):
    operator = SparseOperator(sparse(6, 5, device=device).to_sparse_csr())
    assert operator(torch.zeros(5, 0, device=device)).shape == (6, 0)
    assert operator(torch.zeros(0, 5, 3, device=device)).shape == (0, 6, 3)


@on_each_device
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("depth", [1, 5, 32, 50])
def test_sampled_products_are_those_of_the_dense_product(device, dtype, depth):
    a = sparse(40, 30, device=device)
    x, y = (
        dense(40, depth, dtype=dtype, device=device),
        dense(30, depth, seed=2, dtype=dtype, device=device),
    )
    s = sddmm(a.to_sparse_csr(), x, y)
    rows, cols = a.nonzero(as_tuple=True)
    exact = (x.double() @ y.double().t())[rows, cols]
    magnitude = (x.double().abs() @ y.double().abs().t())[rows, cols]
    unit = {torch.float64: 2.0**-53, torch.float32: 2.0**-24}.get(dtype, 2.0**-24)
    result = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}.get(dtype, 0)
    bound = unit * (depth + 2) * magnitude + result * exact.abs() + 1e-7 * (result > 0)
    assert s.dtype == dtype
    assert ((s.double() - exact).abs() <= bound).all()


@on_each_device
def test_values_that_are_given_replace_those_of_the_operator(device):
    a, b = sparse(30, 25, device=device), dense(25, 8, device=device)
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32")
    other = operator.values * 3
    assert_product(operator(b, other), 3 * a, b)
    assert_product(operator(b), a, b)
    assert_product(operator.multiply_transposed(dense(30, 8, device=device), other), 3 * a.t(), dense(30, 8, device=device))  # fmt: skip


@on_each_device
def test_values_that_change_are_used_from_then_on(device):
    a, b = sparse(30, 25, device=device), dense(25, 8, device=device)
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32")
    operator(b)
    operator.set_values(operator.values * 2)
    assert_product(operator(b), 2 * a, b)
    operator.values.mul_(2)
    assert_product(operator(b), 4 * a, b)
    c = dense(30, 8, device=device)
    assert_product(operator.multiply_transposed(c), 4 * a.t(), c)


@on_each_device
def test_a_function_sees_that_its_matrix_has_changed(device):
    a, b = sparse(30, 25, device=device), dense(25, 8, device=device)
    csr = a.to_sparse_csr()
    assert_product(spmm(csr, b, precision="fp32"), a, b)
    csr.values().mul_(2)
    assert_product(spmm(csr, b, precision="fp32"), 2 * a, b)
    arrays = (csr.crow_indices().clone(), csr.col_indices().clone(), csr.values().clone())
    assert_product(spmm(arrays, b, shape=a.shape, precision="fp32"), 2 * a, b)
    arrays[2].mul_(0.25)
    assert_product(spmm(arrays, b, shape=a.shape, precision="fp32"), 0.5 * a, b)


@on_each_device
def test_two_sparse_matrices_give_a_sparse_product(device):
    a, b = sparse(20, 30, device=device), sparse(30, 25, seed=5, device=device)
    for convert in (torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse_coo):
        c = spgemm(convert(a), convert(b))
        assert c.layout == convert(a).layout
        assert torch.allclose(c.to_dense(), a @ b, rtol=1e-4, atol=1e-4)


@on_each_device
@pytest.mark.parametrize("dtype", TYPES)
def test_results_have_the_same_bits_every_time(device, dtype):
    a, b = sparse(200, 150, device=device), dense(150, 40, device=device).to(dtype)
    operator = SparseOperator(a.to_sparse_csr(), deterministic=True)
    first, again = operator(b), SparseOperator(a.to_sparse_csr(), deterministic=True)(b)
    assert torch.equal(first, again)
    assert all(torch.equal(first, operator(b)) for _ in range(3))


def test_the_number_of_threads_changes_no_bit():
    a, b = sparse(500, 400), dense(400, 40)
    operator = SparseOperator(a.to_sparse_csr())
    threads = torch.get_num_threads()
    results = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        results.append((operator(b), operator.sddmm(dense(500, 40), b)))
    torch.set_num_threads(threads)
    assert all(torch.equal(x, y) for result in results for x, y in zip(result, results[0]))


class Watched(torch.overrides.TorchFunctionMode):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


class Dispatched(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


class Subclass(torch.Tensor):
    seen = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen.append(str(function))
        return super().__torch_function__(function, types, args, kwargs or {})


@on_each_device
@pytest.mark.parametrize("wants_gradient", [False, True])
def test_what_watches_the_calls_of_torch_sees_a_product(device, wants_gradient):
    """Modes, subclasses and the profiler, though the usual call takes a shorter way."""
    a, b = sparse(6, 5, device=device), dense(5, 4, device=device)
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32")
    assert_product(operator @ b, a, b)
    wanted = b.clone().requires_grad_(wants_gradient)
    for mode in (Watched, Dispatched):
        seen = []
        with mode(seen):
            c = operator @ wanted
        assert any("tessera" in name for name in seen), (mode, seen)
        assert_product(c.detach(), a, b)
    Subclass.seen.clear()
    c = operator @ wanted.as_subclass(Subclass)
    assert isinstance(c, Subclass) and any("tessera" in name for name in Subclass.seen)
    assert_product(c.detach().as_subclass(torch.Tensor), a, b)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiled:
        operator @ wanted
    names = [event.key for event in profiled.key_averages()]
    assert any(name.startswith("tessera::_multiply") for name in names), names
    assert_product((operator @ wanted).detach(), a, b)


# ---- what is refused -----------------------------------------------------------------------------


def arrays(offsets, cols, values=None):
    values = torch.ones(len(cols)) if values is None else values
    return torch.tensor(offsets), torch.tensor(cols, dtype=torch.int64), values


@pytest.mark.parametrize(
    ("given", "shape", "cause"),
    [
        (arrays([0, 1], [0]), None, "needs shape"),
        (arrays([0, 1], [0]), (2, 2), "2 rows, but 2 row offsets"),
        (arrays([0, 2, 1], [0]), (2, 2), "descend"),
        (arrays([0, 1, 2], [0]), (2, 2), "from 0 to 2, not from 0 to 1"),
        (arrays([1, 1, 1], [0]), (2, 2), "from 1 to 1, not from 0 to 1"),
        (arrays([0, 1], [3]), (1, 3), "reach from 3 to 3, but A has 3 columns"),
        (arrays([0, 1], [-1]), (1, 3), "reach from -1 to -1"),
        (arrays([0, 2], [1, 1]), (1, 3), "row 0, column 1 more than once"),
        (arrays([0, 1], [0], torch.ones(2)), (1, 3), "1 column indices, but values of shape"),
        (arrays([0, 1], [0], torch.ones(1, dtype=torch.int64)), (1, 3), "not floating-point"),
        (arrays([0, 1], [0]), (1, 2**31), "below 2^31"),
    ],
)
def test_arrays_that_are_no_matrix_are_refused(given, shape, cause):
    with pytest.raises(ValueError, match=cause.replace("^", r"\^")):
        SparseOperator(given, shape=shape)


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match="A is dense"):
        SparseOperator(torch.eye(3))
    with pytest.raises(TypeError, match="A is a ndarray"):
        SparseOperator(np.eye(3))
    with pytest.raises(ValueError, match="3 dimensions"):
        SparseOperator(torch.eye(2).repeat(2, 1, 1).to_sparse_csr())


def test_options_that_do_not_exist_are_refused():
    a = torch.eye(3).to_sparse_csr()
    with pytest.raises(ValueError, match="precision is 'fp8'"):
        SparseOperator(a, precision="fp8")
    with pytest.raises(ValueError, match="expected_products is 0"):
        SparseOperator(a, expected_products=0)
    with pytest.raises(TypeError, match="has options of its own"):
        spmm(SparseOperator(a), torch.eye(3), precision="tf32")


@on_each_device
def test_operands_that_do_not_fit_are_refused_with_the_shapes(device):
    operator = SparseOperator(sparse(6, 5, device=device).to_sparse_csr())
    b = dense(5, 4, device=device)
    for call, cause in (
        (lambda: operator(b[:3]), "B is 3 x 4, but it needs 5 rows"),
        (lambda: operator(b.int()), "B has to be of float32"),
        (lambda: operator(b, operator.values[:-1]), "but A has .* nonzeros"),
        (lambda: operator.multiply_transposed(b), "B is 5 x 4, but it needs 6 rows"),
        (lambda: operator.sddmm(b, b), "X is .*5.* and Y is .*5"),
        (lambda: operator.sddmm(dense(6, 4, device=device), b.double()), "different types"),
        (lambda: operator.multiply_into(dense(5, 4, device=device), b), "out is"),
        (lambda: operator.multiply_into(dense(4, 6, device=device).t(), b), "contiguous"),
    ):
        with pytest.raises(RuntimeError, match=cause):
            call()
    with pytest.raises(ValueError, match="has .* nonzeros"):
        operator.set_values(torch.ones(1))
    with pytest.raises(ValueError, match="beta scales out"):
        spmm(operator, b, beta=1)
    with pytest.raises(ValueError, match="does not have 5 rows"):
        spgemm(sparse(6, 5).to_sparse_csr(), sparse(6, 5).to_sparse_csr())


@needs_gpu
def test_operands_of_two_devices_are_refused():
    operator = SparseOperator(sparse(6, 5, device="cuda").to_sparse_csr())
    with pytest.raises(RuntimeError, match="another device than A"):
        operator(dense(5, 4))


def test_an_operator_that_is_gone_is_an_error():
    operator = SparseOperator(torch.eye(3).to_sparse_csr())
    number, values = operator._number, operator.values
    del operator
    with pytest.raises(RuntimeError, match=f"operator {number} does not exist any more"):
        torch.ops.tessera.spmm(values, torch.eye(3), number, 3, False, 0)


if __name__ == "__main__":
    main(__file__)
