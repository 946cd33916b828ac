"""Products from Python: values, types, memory of other libraries, errors."""

import sys

import python_package

python_package.need("pytest", "numpy")
import numpy as np
import pytest

import tessera

A = tessera.Matrix("rmat(scale=8, edge_factor=6)")


def dense(shape, dtype=np.float32, seed=2):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def truth(b, a=A):
    return a.to_dense().astype(np.float64) @ b.astype(np.float64)


@pytest.mark.parametrize("dtype, error", [("float32", 1e-6), ("float64", 1e-14), ("float16", 2e-3)])
def test_a_product_is_that_of_numpy(dtype, error):
    b = dense((A.shape[1], 33), dtype)
    c = tessera.multiply(A, b)
    assert c.dtype == b.dtype and c.shape == (A.shape[0], 33)
    magnitude = np.abs(A.to_dense()).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert (np.abs(c - truth(b)) <= error * magnitude).all()


def test_float64_values_of_a_are_used_in_float64_products():
    values = np.full(A.nnz, 1 + 2.0**-40)
    c = tessera.multiply(A.with_values(values), np.ones((A.shape[1], 2)))
    lengths = np.diff(A.row_offsets)
    assert (c[:, 0] == lengths * (1 + 2.0**-40)).all()


def test_alpha_and_beta_and_rows_with_gaps():
    wide = dense((A.shape[1], 12))
    out = np.full((A.shape[0], 20), 7, np.float32)
    returned = tessera.multiply(A, wide[:, :8], out[:, :8], alpha=2, beta=0.5)
    assert np.allclose(out[:, :8], 2 * truth(wide[:, :8]) + 3.5, atol=1e-4)
    assert (out[:, 8:] == 7).all() and np.shares_memory(returned, out)


def test_threads_do_not_change_bits():
    b = dense((A.shape[1], 64))
    products = []
    for threads in (1, 3, 0):
        tessera.set_threads(threads)
        products.append(tessera.multiply(A, b).tobytes())
    assert len(set(products)) == 1
    with pytest.raises(tessera.InvalidError, match="-1 threads"):
        tessera.set_threads(-1)


class OnlyDLPack:
    """An array of a library that this package knows nothing of."""

    def __init__(self, array):
        self.array, self.exports = array, 0

    def __dlpack__(self, **_):
        self.exports += 1
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_come_by_dlpack_without_a_copy_and_their_memory_goes_back():
    b, out = dense((A.shape[1], 8)), np.empty((A.shape[0], 8), np.float32)
    references = sys.getrefcount(out)
    shown = OnlyDLPack(out)
    assert tessera.multiply(A, OnlyDLPack(b), shown) is shown
    assert shown.exports >= 1 and np.array_equal(out, tessera.multiply(A, b))
    del shown
    assert sys.getrefcount(out) == references
    with pytest.raises(tessera.InvalidError, match="given as `out`"):
        tessera.multiply(A, OnlyDLPack(b))


def test_tensors_of_pytorch_give_tensors():
    torch = pytest.importorskip("torch")
    b = torch.rand(A.shape[1], 8, requires_grad=True)
    c = tessera.multiply(A, b)
    assert isinstance(c, torch.Tensor)
    assert np.array_equal(c.detach().numpy(), tessera.multiply(A, b.detach().numpy()))
    half = b.detach().to(torch.bfloat16)
    assert tessera.multiply(A, half).dtype == torch.bfloat16


@pytest.mark.parametrize("b, text", [
    (np.ones((3, 4), np.float32), "A has 256 columns, but B has 3 rows"),
    (np.ones((256, 4), np.int32), "elements of int32"),
    (np.ones(256, np.float32), "1 dimensions"),
    (np.ones((4, 256), np.float32).T, "row-major"),
    ([[1.0]], "a list"),
])  # fmt: skip
def test_operands_that_do_not_fit_are_refused(b, text):
    with pytest.raises(tessera.InvalidError, match=text):
        tessera.multiply(A, b)


def test_a_c_that_does_not_fit_is_refused():
    b = dense((A.shape[1], 4))
    with pytest.raises(tessera.InvalidError, match="C is 256 x 5"):
        tessera.multiply(A, b, np.empty((256, 5), np.float32))
    with pytest.raises(tessera.InvalidError, match="of float64"):
        tessera.multiply(A, b, np.empty((256, 4)))
    frozen = np.empty((256, 4), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(tessera.InvalidError, match="read-only"):
        tessera.multiply(A, b, frozen)
    with pytest.raises(tessera.InvalidError, match="beta is not 0"):
        tessera.multiply(A, b, beta=1)


def test_an_emulated_product_is_inside_its_bound_and_a_wrong_one_is_not():
    b = dense((A.shape[1], 16))
    c = tessera.emulate(A, b, "tessera_spmm")
    right = tessera.errors(A, b, c, kernel="tessera_spmm")
    assert right["ok"] and right["bound_ratio"] < 1 and right["compared"] == c.size
    c[3, 5] += 9
    wrong = tessera.errors(A, b, c, kernel="tessera_spmm")
    assert not wrong["ok"] and "1 of" in wrong["reason"]
    assert (wrong["worst"]["row"], wrong["worst"]["col"]) == (3, 5)
    with pytest.raises(tessera.InvalidError, match="acc_spmm"):
        tessera.emulate(A, b, "acc_spm")
    with pytest.raises(tessera.UnsupportedError):
        tessera.emulate(A, b, "cusparse")


def test_a_plan_needs_a_gpu_and_known_options():
    with pytest.raises(tessera.InvalidError, match="float64"):
        tessera.Plan(A, 8, dtype="float64")
    with pytest.raises(tessera.InvalidError, match="fastest, tf32, fp32"):
        tessera.Plan(A, 8, precision="exact")
    if tessera.has_gpu():
        assert tessera.gpu_problem() == ""
        assert tessera.Plan(A, 8).describe()["n"] == 8
        return
    assert tessera.gpu_problem() != ""
    with pytest.raises(tessera.UnsupportedError, match="a plan needs a GPU"):
        tessera.Plan(A, 8)


if __name__ == "__main__":
    sys.exit(python_package.main(__file__))
