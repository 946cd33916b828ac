"""Sparse matrices, to and from the libraries that have them."""

import ctypes
from ctypes import c_void_p
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._errors import InvalidError
from ._library import Csr, call, encoded, library, long_call


class _Owned:
    """A matrix in the library's memory, which lives as long as an array that shows it."""

    def __init__(self, handle: c_void_p):
        self.handle = handle

    def __del__(self) -> None:
        library.tessera_matrix_destroy(self.handle)

    def array(self, pointer: int, size: int, dtype: str) -> np.ndarray:
        return np.asarray(_Shown(self, pointer or 0, size, dtype)) if size else np.empty(0, dtype)


class _Shown:
    """A piece of that memory; NumPy keeps this object, and it keeps the matrix."""

    def __init__(self, owner: _Owned, pointer: int, size: int, dtype: str):
        self.owner = owner
        self.__array_interface__ = {"version": 3, "data": (pointer, True), "shape": (size,),
                                    "typestr": np.dtype(dtype).str}  # fmt: skip


class Matrix:
    """A sparse matrix A in compressed sparse rows (CSR), in host memory.

    `Matrix(source)` takes
      * a text: a file (.mtx, .mtx.gz, .npz, .smtx, edge list, METIS, SuiteSparse archive), a name in a
        folder of $TESSERA_DATA, or a formula such as "rmat(scale=10, edge_factor=8)";
      * a sparse matrix or array of SciPy, or one of CuPy, whose arrays are copied from the GPU;
      * a sparse tensor of PyTorch, in the layouts CSR, COO and BSR among others;
      * a dense NumPy array, whose zeros are left out.
    Matrix.from_csr() and Matrix.from_coo() take index arrays.

    Attributes, all NumPy arrays, which nobody may change while the matrix is in use:
      shape        (M, K), both below 2^31
      row_offsets  [M + 1] int64, from 0 to nnz
      col_indices  [nnz] int32, ascending and distinct within a row
      values       [nnz] float32
      copied       names of the arrays that are copies: those of other dtypes, or unsorted ones. The
                   others are the source's own memory.
    Values of float64 are kept as well, for products in float64.

    Raises InvalidError, with row and cause, for arrays that are no such matrix, and UnsupportedError
    for a name that this machine has no matrix for.

    >>> import tessera
    >>> a = tessera.Matrix("poisson2d(nx=4, ny=4)")
    >>> a
    Matrix(16 x 16, 64 nonzeros, 'poisson2d(nx=4, ny=4)')
    >>> a.values.dtype, a.copied
    (dtype('float32'), ())
    """

    def __init__(self, source: Any):
        self.name = ""
        self.values64: np.ndarray | None = None
        self._plans: dict[Any, Any] = {}
        if isinstance(source, Matrix):
            self._take(source.shape, source.row_offsets, source.col_indices, source.values)
            self.name, self.values64 = source.name, source.values64
        elif isinstance(source, str):
            self._load(source)
        elif isinstance(source, np.ndarray):
            self._from_dense(source)
        elif hasattr(source, "tocsr") and hasattr(source, "shape"):
            self._from_scipy(source)
        elif type(source).__module__.split(".")[0] == "torch":
            self._from_torch(source)
        else:
            raise InvalidError(f"a {type(source).__name__} is no sparse matrix that this package knows")

    @classmethod
    def from_csr(cls, row_offsets: ArrayLike, col_indices: ArrayLike, values: ArrayLike | None,
                 shape: tuple[int, int]) -> "Matrix":
        """The matrix of CSR arrays: row_offsets [M + 1], col_indices [nnz] ascending within a row, values
        [nnz] (None: ones). Arrays of int64, int32 and float32 are not copied.

        >>> Matrix.from_csr([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], (2, 3)).to_dense()
        array([[1., 0., 2.],
               [0., 3., 0.]], dtype=float32)
        """
        matrix = cls.__new__(cls)
        matrix.name, matrix.values64, matrix._plans = "", None, {}
        matrix._take(shape, row_offsets, col_indices, values)
        return matrix

    @classmethod
    def from_coo(cls, rows: ArrayLike, cols: ArrayLike, values: ArrayLike | None,
                 shape: tuple[int, int]) -> "Matrix":
        """The matrix of its elements: rows, cols and values [nnz], in any order (None: ones). Elements
        at one place are added. Everything is copied.

        >>> Matrix.from_coo([1, 0, 1], [0, 1, 0], [1.0, 2.0, 3.0], (2, 2)).to_dense()
        array([[0., 2.],
               [4., 0.]], dtype=float32)
        """
        rows, cols = np.asarray(rows, np.int64), np.asarray(cols, np.int64)
        given = np.ones(rows.shape, np.float32) if values is None else np.asarray(values)
        if not rows.shape == cols.shape == given.shape or rows.ndim != 1:
            raise InvalidError(f"rows {rows.shape}, cols {cols.shape} and values {given.shape} have to "
                               "be lists of one length")  # fmt: skip
        if rows.size and not (rows.min() >= 0 and rows.max() < shape[0]
                              and cols.min() >= 0 and cols.max() < shape[1]):
            raise InvalidError(f"an element is outside of {shape[0]} x {shape[1]}")
        place, inverse = np.unique(rows * shape[1] + cols, return_inverse=True)
        summed = np.bincount(inverse.ravel(), weights=given, minlength=place.size)
        offsets = np.searchsorted(place, np.arange(shape[0] + 1, dtype=np.int64) * shape[1])
        dtype = np.float64 if given.dtype == np.float64 else np.float32
        matrix = cls.from_csr(offsets, (place % max(1, shape[1])).astype(np.int32),
                              summed.astype(dtype), shape)  # fmt: skip
        matrix.copied = ("row_offsets", "col_indices", "values")
        return matrix

    def _take(self, shape: Any, row_offsets: Any, col_indices: Any, values: Any) -> None:
        self.shape = (int(shape[0]), int(shape[1]))
        copied = []

        def taken(name: str, array: Any, dtype: Any) -> np.ndarray:
            given = np.asarray(array)
            kept = np.ascontiguousarray(given, dtype)
            if kept.ndim != 1:
                raise InvalidError(f"{name} has {kept.ndim} dimensions, not one")
            if kept.size and not np.shares_memory(kept, given):
                copied.append(name)
            return kept

        if np.size(row_offsets) != self.shape[0] + 1:
            raise InvalidError(f"{self.shape[0]} rows need {self.shape[0] + 1} row offsets, not "
                               f"{np.size(row_offsets)}")  # fmt: skip
        if max(self.shape) > 2**31 - 1:
            raise InvalidError(f"{self.shape[0]} x {self.shape[1]}: rows and columns are below 2^31")
        self.row_offsets = taken("row_offsets", row_offsets, np.int64)
        self.col_indices = taken("col_indices", col_indices, np.int32)
        if values is None:
            values = np.ones(self.col_indices.size, np.float32)
        elif np.asarray(values).dtype == np.float64:
            self.values64 = np.ascontiguousarray(values)
        self.values = taken("values", values, np.float32)
        if self.values.size != self.col_indices.size:
            raise InvalidError(f"{self.col_indices.size} column indices need as many values, not "
                               f"{self.values.size}")  # fmt: skip
        self.copied = tuple(copied)

    def _load(self, name: str) -> None:
        handle, csr = c_void_p(), Csr()
        long_call("tessera_matrix_load", encoded(name), ctypes.byref(handle))
        owned = _Owned(handle)
        call("tessera_matrix_csr", handle, ctypes.byref(csr))
        self._take((csr.rows, csr.cols), owned.array(csr.row_offsets, csr.rows + 1, "int64"),
                   owned.array(csr.col_indices, csr.nnz, "int32"),
                   owned.array(csr.values, csr.nnz, "float32"))  # fmt: skip
        self.name = name

    def _from_dense(self, dense: np.ndarray) -> None:
        if dense.ndim != 2:
            raise InvalidError(f"an array of {dense.ndim} dimensions is no matrix")
        rows, cols = np.nonzero(dense)
        values = dense[rows, cols]
        offsets = np.searchsorted(rows, np.arange(dense.shape[0] + 1))
        self._take(dense.shape, offsets, cols,
                   values if values.dtype == np.float64 else values.astype(np.float32))
        self.copied = ("row_offsets", "col_indices", "values")

    def _from_scipy(self, source: Any) -> None:
        on_device = hasattr(source, "get") and type(source).__module__.startswith("cupyx")
        csr = (source.get() if on_device else source).tocsr()
        is_copy = on_device or csr is not source
        if not csr.has_canonical_format:
            csr, is_copy = csr.copy(), True
            csr.sum_duplicates()
        self._take(csr.shape, csr.indptr, csr.indices, csr.data)
        if is_copy:
            self.copied = ("row_offsets", "col_indices", "values")

    def _from_torch(self, tensor: Any) -> None:
        import torch  # it is the library of the tensor

        source = tensor.detach()
        is_copy = source.layout is not torch.sparse_csr or source.is_cuda
        if source.layout is torch.strided:
            source = source.to_sparse()
        if source.layout is torch.sparse_coo:
            source = source.coalesce()
        csr = source.to_sparse_csr().cpu()
        values = csr.values()
        if values.dtype in (torch.float16, torch.bfloat16):
            values, is_copy = values.float(), True
        self._take(tuple(csr.shape), csr.crow_indices().numpy(), csr.col_indices().numpy(),
                   values.numpy())  # fmt: skip
        if is_copy:
            self.copied = ("row_offsets", "col_indices", "values")

    @property
    def nnz(self) -> int:
        """The number of stored elements."""
        return int(self.col_indices.size)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plans": {}}  # plans live on the GPU of this process

    def __repr__(self) -> str:
        name = f", {self.name!r}" if self.name else ""
        return f"Matrix({self.shape[0]} x {self.shape[1]}, {self.nnz} nonzeros{name})"

    def with_values(self, values: ArrayLike) -> "Matrix":
        """The same pattern with other values [nnz]; the index arrays are shared."""
        return Matrix.from_csr(self.row_offsets, self.col_indices, values, self.shape)

    def permuted(self, rows: ArrayLike, cols: ArrayLike | None = None) -> "Matrix":
        """The matrix whose row i is row rows[i] of this one [M], and whose column j is column cols[j]
        [K]; None: columns stay. It is a copy.

        >>> a = Matrix.from_csr([0, 1, 3], [0, 0, 1], [1.0, 2.0, 3.0], (2, 2))
        >>> a.permuted([1, 0], [1, 0]).to_dense()
        array([[3., 2.],
               [0., 1.]], dtype=float32)
        """
        old = np.asarray(rows, np.int64)
        if not np.array_equal(np.sort(old), np.arange(self.shape[0])):
            raise InvalidError(f"the order of rows is no permutation of 0 to {self.shape[0] - 1}")
        lengths = np.diff(self.row_offsets)[old]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        place = np.repeat(self.row_offsets[:-1][old] - offsets[:-1], lengths) + np.arange(self.nnz)
        indices = self.col_indices[place]
        if cols is not None:
            order = np.asarray(cols, np.int64)
            if not np.array_equal(np.sort(order), np.arange(self.shape[1])):
                raise InvalidError(f"the order of columns is no permutation of 0 to {self.shape[1] - 1}")
            new = np.empty(self.shape[1], np.int32)
            new[order] = np.arange(self.shape[1], dtype=np.int32)
            indices = new[indices]
            sort = np.lexsort((indices, np.repeat(np.arange(self.shape[0]), lengths)))
            indices, place = indices[sort], place[sort]
        source = self.values if self.values64 is None else self.values64
        return Matrix.from_csr(offsets, indices, source[place], self.shape)

    def to_scipy(self) -> Any:
        """The matrix as scipy.sparse.csr_array. Column indices and values are shared; SciPy copies the
        row offsets to int32 where they fit."""
        from scipy.sparse import csr_array  # an optional package

        return csr_array((self.values, self.col_indices, self.row_offsets), self.shape, copy=False)

    def to_torch(self) -> Any:
        """The matrix as a sparse CSR tensor of PyTorch in host memory. The values are shared; the column
        indices are copied to int64, which is the type of the row offsets."""
        import torch  # an optional package

        return torch.sparse_csr_tensor(torch.tensor(self.row_offsets),
                                       torch.tensor(self.col_indices, dtype=torch.int64),
                                       torch.from_numpy(_writable(self.values)), self.shape)  # fmt: skip

    def to_cupy(self) -> Any:
        """The matrix as cupyx.scipy.sparse.csr_matrix, copied to the current GPU."""
        from cupyx.scipy.sparse import csr_matrix  # an optional package

        return csr_matrix(self.to_scipy())

    def to_dense(self) -> np.ndarray:
        """The matrix as an array [M x K] float32."""
        dense = np.zeros(self.shape, np.float32)
        dense[np.repeat(np.arange(self.shape[0]), np.diff(self.row_offsets)), self.col_indices] = self.values
        return dense

    def save(self, path: str) -> None:
        """Writes the matrix to a file; the end of its name (.mtx, .npz, ...) is the format. Values are
        float32."""
        long_call("tessera_matrix_write", self._csr(), encoded(path))

    def _csr(self) -> Any:
        """What the library takes. It refers to the arrays of this matrix, which has to outlive it."""
        csr = Csr(self.shape[0], self.shape[1], self.nnz, self.row_offsets.ctypes.data,
                  self.col_indices.ctypes.data, self.values.ctypes.data)  # fmt: skip
        return ctypes.byref(csr)


def _writable(array: np.ndarray) -> np.ndarray:
    """PyTorch has no tensors that cannot be written."""
    return array if array.flags.writeable else array.copy()


def matrix(source: Any) -> Matrix:
    """The source as a Matrix, itself where it is one."""
    return source if isinstance(source, Matrix) else Matrix(source)
