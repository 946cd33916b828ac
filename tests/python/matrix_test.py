"""Matrices to and from other libraries: the same elements, and copies only where the class says so."""

import pickle
import sys

import python_package

python_package.need("pytest", "numpy", "scipy")
import numpy as np
import pytest
from scipy import sparse as scipy_sparse

import tessera


def random_csr(rows=40, cols=30, density=0.2, dtype=np.float32, seed=1):
    matrix = scipy_sparse.random(rows, cols, density, "csr", dtype,
                                 np.random.default_rng(seed))  # fmt: skip
    matrix.sort_indices()
    return matrix


def test_a_scipy_matrix_keeps_its_indices_and_values_without_a_copy():
    source = random_csr()
    a = tessera.Matrix(source)
    assert a.shape == (40, 30) and a.nnz == source.nnz
    assert np.shares_memory(a.values, source.data)
    assert np.shares_memory(a.col_indices, source.indices)
    assert a.copied == ("row_offsets",)  # SciPy's are int32
    back = a.to_scipy()
    assert np.shares_memory(back.data, source.data)
    assert (abs(back - source)).nnz == 0


def test_int64_offsets_are_not_copied():
    source = random_csr()
    offsets = source.indptr.astype(np.int64)
    a = tessera.Matrix.from_csr(offsets, source.indices, source.data, source.shape)
    assert a.copied == () and np.shares_memory(a.row_offsets, offsets)


def test_float64_values_are_copied_to_float32_and_kept():
    source = random_csr(dtype=np.float64)
    a = tessera.Matrix(source)
    assert "values" in a.copied and a.values.dtype == np.float32
    assert np.shares_memory(a.values64, source.data)


def test_unsorted_and_repeated_elements_are_put_in_order_and_the_source_is_left():
    source = scipy_sparse.csr_matrix((np.float32([1, 2, 4]), [1, 0, 1], [0, 3]), (1, 2))
    a = tessera.Matrix(source)
    assert a.copied == ("row_offsets", "col_indices", "values")
    assert a.to_dense().tolist() == [[2, 5]]
    assert source.indices.tolist() == [1, 0, 1]


@pytest.mark.parametrize("layout", ["coo", "csc", "bsr"])
def test_other_layouts_of_scipy_have_the_same_elements(layout):
    source = random_csr()
    assert np.array_equal(tessera.Matrix(source.asformat(layout)).to_dense(), source.toarray())


def test_dense_arrays_and_element_lists():
    source = random_csr(7, 9)
    coo = source.tocoo()
    shuffled = np.random.default_rng(3).permutation(coo.nnz)
    assert np.array_equal(tessera.Matrix(source.toarray()).to_dense(), source.toarray())
    a = tessera.Matrix.from_coo(coo.row[shuffled], coo.col[shuffled], coo.data[shuffled], (7, 9))
    assert np.array_equal(a.to_dense(), source.toarray())
    with pytest.raises(tessera.InvalidError, match="outside of 7 x 9"):
        tessera.Matrix.from_coo([7], [0], [1.0], (7, 9))


def test_a_permuted_matrix_has_the_rows_and_columns_in_that_order():
    source = random_csr(11, 13)
    draw = np.random.default_rng(5)
    rows, cols = draw.permutation(11), draw.permutation(13)
    a = tessera.Matrix(source)
    assert np.array_equal(a.permuted(rows, cols).to_dense(), source.toarray()[rows][:, cols])
    assert np.array_equal(a.permuted(rows).to_dense(), source.toarray()[rows])
    with pytest.raises(tessera.InvalidError, match="no permutation"):
        a.permuted(np.zeros(11))


def test_formulas_files_and_names(tmp_path):
    a = tessera.Matrix("rmat(scale=7, edge_factor=4)")
    assert not a.values.flags.writeable
    path = str(tmp_path / "a.mtx")
    a.save(path)
    assert np.array_equal(tessera.Matrix(path).to_dense(), a.to_dense())
    with pytest.raises(tessera.InvalidError, match="rmat"):
        tessera.Matrix("rmaat(scale=7)")
    with pytest.raises(tessera.UnsupportedError, match="nowhere_to_be_found"):
        tessera.Matrix("nowhere_to_be_found")
    (tmp_path / "broken.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n9 9 1\n")
    with pytest.raises(tessera.InvalidError, match=r"broken\.mtx:3"):
        tessera.Matrix(str(tmp_path / "broken.mtx"))


def test_the_arrays_of_a_loaded_matrix_outlive_it():
    values = tessera.Matrix("poisson2d(nx=40, ny=40)").values
    assert values.size == 7840 and np.isfinite(values).all()


def test_a_matrix_is_pickled_with_its_arrays_and_without_its_plans():
    a = tessera.Matrix("poisson2d(nx=4, ny=4)")
    a._plans["key"] = open(__file__)  # noqa: SIM115  like a plan, it cannot be pickled
    again = pickle.loads(pickle.dumps(a))
    a._plans.pop("key").close()
    assert np.array_equal(again.to_dense(), a.to_dense()) and again.name == a.name


def test_arrays_that_are_no_matrix_are_refused():
    with pytest.raises(tessera.InvalidError, match="row offsets"):
        tessera.Matrix.from_csr([0, 1], [0], [1.0], (3, 3))
    with pytest.raises(tessera.InvalidError, match="as many values"):
        tessera.Matrix.from_csr([0, 1], [0], [1.0, 2.0], (1, 3))
    falling = tessera.Matrix.from_csr([0, 2], [1, 0], [1.0, 2.0], (1, 2))
    with pytest.raises(tessera.InvalidError, match="row 0"):
        tessera.pack(falling, "csr")
    with pytest.raises(tessera.InvalidError, match="int is no sparse matrix"):
        tessera.Matrix(3)


def test_a_tensor_of_pytorch_shares_its_values():
    torch = pytest.importorskip("torch")
    source = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    csr = source.to_sparse_csr()
    a = tessera.Matrix(csr)
    assert np.shares_memory(a.values, csr.values().numpy())
    assert a.copied == ("col_indices",)  # PyTorch's are int64
    assert torch.equal(a.to_torch().to_dense(), source)
    assert tessera.Matrix(source.to_sparse()).to_dense().tolist() == source.tolist()


if __name__ == "__main__":
    sys.exit(python_package.main(__file__))
