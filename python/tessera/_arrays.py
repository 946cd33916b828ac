"""Dense arrays of any library as pointers: NumPy, and by DLPack or __cuda_array_interface__ CuPy,
PyTorch, JAX and others. Nothing is copied."""

import ctypes
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._errors import InvalidError
from ._library import BF16, FP16, FP32, FP64

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType
TYPES = {(2, 32): FP32, (2, 16): FP16, (4, 16): BF16, (2, 64): FP64}  # (DLDataTypeCode, bits)
BYTES = {FP32: 4, FP16: 2, BF16: 2, FP64: 8}
NAMES = {FP32: "float32", FP16: "float16", BF16: "bfloat16", FP64: "float64"}


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", ctypes.POINTER(c_int64)), ("strides", ctypes.POINTER(c_int64)),
                ("byte_offset", c_uint64)]  # fmt: skip


class _DLManagedTensor(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManagedTensor))
_DLManagedTensor._fields_ = [("tensor", _DLTensor), ("context", c_void_p), ("deleter", _Deleter)]

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
_USED = ctypes.create_string_buffer(b"used_dltensor")  # lives as long as any capsule


@dataclass
class Operand:
    """A dense matrix in the memory of its owner: element (i, j) at pointer + (i * ld + j) elements."""

    pointer: int
    shape: tuple[int, int]
    ld: int  # elements from one row to the next
    type: int  # tessera_type
    device: int | None  # the number of a CUDA device; None: host memory
    owner: Any = field(repr=False)  # keeps the memory alive


def _matrix(name: str, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...] | None,
            kind: int, device: int | None, owner: Any) -> Operand:  # fmt: skip
    """Strides are in elements; None: row-major without gaps."""
    if len(shape) != 2:
        raise InvalidError(f"{name} has {len(shape)} dimensions; a dense matrix has two")
    rows, cols = shape
    row, col = strides if strides is not None else (cols, 1)
    if cols > 1 and col != 1:
        raise InvalidError(f"the columns of {name} are {col} elements apart: it has to be row-major")
    ld = row if rows > 1 else cols
    if ld < cols:
        raise InvalidError(f"the rows of {name} are {ld} elements apart, but have {cols}")
    return Operand(pointer, (rows, cols), ld, kind, device, owner)


def _from_numpy(name: str, array: np.ndarray) -> Operand:
    kinds = {text: kind for kind, text in NAMES.items()}
    kind = kinds.get(array.dtype.name)
    if kind is None or not array.dtype.isnative:
        raise InvalidError(f"{name} has elements of {array.dtype}; they have to be float32, float64, "
                           "float16 or bfloat16")  # fmt: skip
    size = array.dtype.itemsize
    if any(stride % size for stride in array.strides):
        raise InvalidError(f"{name} has rows that do not begin at whole elements")
    strides = tuple(stride // size for stride in array.strides)
    return _matrix(name, array.ctypes.data, array.shape, strides, kind, None, array)


class _Imported:
    """A tensor that came by DLPack; its memory goes back with this object."""

    def __init__(self, capsule: Any):
        address = _pointer_of(capsule, b"dltensor")
        self.managed = ctypes.cast(address, ctypes.POINTER(_DLManagedTensor)).contents
        _rename(capsule, ctypes.cast(_USED, ctypes.c_char_p))  # it belongs to its consumer now

    def __del__(self) -> None:
        if self.managed.deleter:
            self.managed.deleter(ctypes.pointer(self.managed))


def _from_dlpack(name: str, array: Any, stream: int) -> Operand:
    kind, number = array.__dlpack_device__()
    if kind not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
        raise InvalidError(f"{name} is on a device of DLPack's type {int(kind)}; it has to be in host "
                           "memory or on a CUDA device")  # fmt: skip
    on_device = kind in (CUDA, CUDA_MANAGED)
    # 1 is DLPack's name of the default stream.
    owner = _Imported(array.__dlpack__(stream=stream or 1) if on_device else array.__dlpack__())
    tensor = owner.managed.tensor
    known = TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if known is None:
        raise InvalidError(f"{name} has elements of DLPack's type {tensor.code} with {tensor.bits} "
                           "bits; they have to be float32, float64, float16 or bfloat16")  # fmt: skip
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
    pointer = (tensor.data or 0) + tensor.byte_offset
    return _matrix(name, pointer, shape, strides, known, int(number) if on_device else None, owner)


def _from_cuda_interface(name: str, array: Any) -> Operand:
    interface = array.__cuda_array_interface__
    kind = {"<f4": FP32, "<f2": FP16, "<f8": FP64}.get(interface["typestr"])
    if kind is None:
        raise InvalidError(f"{name} has elements of {interface['typestr']}; they have to be float32 "
                           "or float16, or come by DLPack")  # fmt: skip
    strides = interface.get("strides")
    if strides is not None:
        strides = tuple(stride // BYTES[kind] for stride in strides)
    return _matrix(name, interface["data"][0], tuple(interface["shape"]), strides, kind, 0, array)


def operand(name: str, array: Any, stream: int = 0) -> Operand:
    """The memory of a dense matrix, without a copy. `stream` is the CUDA stream that will use it: its
    producer orders its own work before. Raises InvalidError for other things than a matrix of float32,
    float64, float16 or bfloat16 whose rows are contiguous."""
    if isinstance(array, np.ndarray):
        return _from_numpy(name, array)
    detached = array.detach() if hasattr(array, "detach") else array  # PyTorch exports no gradients
    if hasattr(detached, "__dlpack__") and hasattr(detached, "__dlpack_device__"):
        return _from_dlpack(name, detached, stream)
    if hasattr(array, "__cuda_array_interface__"):
        return _from_cuda_interface(name, array)
    raise InvalidError(f"{name} is a {type(array).__name__}: it has to be a NumPy array, or have "
                       "__dlpack__ or __cuda_array_interface__")  # fmt: skip


def _library_of(array: Any) -> str:
    return type(array).__module__.split(".")[0]


def new_like(array: Any, shape: tuple[int, int]) -> Any:
    """An uninitialised array of the same library, type and device."""
    if isinstance(array, np.ndarray):
        return np.empty(shape, array.dtype)
    library = _library_of(array)
    if library == "torch":
        return array.new_empty(shape)
    if library == "cupy":
        import cupy  # it is the library of the array

        return cupy.empty(shape, array.dtype)
    raise InvalidError(f"C has to be given as `out`: this package makes no arrays of {library}")


def current_stream(array: Any) -> int:
    """The stream that the array's library works on now; 0, the default one, where it does not tell and
    for an array in host memory, which a plan refuses with a reason."""
    library = _library_of(array)
    if library == "torch" and array.is_cuda:
        import torch  # it is the library of the array

        return int(torch.cuda.current_stream(array.device).cuda_stream)
    if library == "cupy":
        import cupy  # it is the library of the array

        return int(cupy.cuda.get_current_stream().ptr)
    return 0
