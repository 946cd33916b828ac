"""libtessera_torch, where it lies beside libtessera: the operators in C++."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
import zlib
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import torch

from .. import _library as tessera

TYPES = {
    torch.float32: tessera.FP32,
    torch.float16: tessera.FP16,
    torch.bfloat16: tessera.BF16,
    torch.float64: tessera.FP64,
}
FASTEST, FP32_ACCURATE = 0, 2  # tessera_precision

PLANNER = ctypes.CFUNCTYPE(
    ctypes.c_int32,  # 1: failed
    ctypes.c_int64,  # the number of the operator
    ctypes.c_int32,  # what the plan is for
    ctypes.c_int64,  # columns of B, or of X and Y; 0: only the arrays of A^T
    ctypes.c_int32,  # the type of B
    ctypes.c_void_p,  # where the error goes
    ctypes.c_int64,  # its size in bytes
)


def _load() -> ctypes.CDLL | None:
    """None where it is absent, and when TESSERA_TORCH_PYTHON is set: the operators are then those of
    _fallback.py."""
    path = Path(tessera.library._name).with_name("libtessera_torch.so")
    if not path.exists() or os.environ.get("TESSERA_TORCH_PYTHON"):
        return None
    torch.ops.load_library(str(path))
    library = ctypes.CDLL(str(path))
    number, flag, type_number = ctypes.c_int64, ctypes.c_int32, ctypes.c_int32
    n, plan = ctypes.c_int64, ctypes.c_void_p
    library.tessera_torch_set_planner.argtypes = [PLANNER]
    library.tessera_torch_set_planner.restype = None
    library.tessera_torch_add_plan.argtypes = [number, flag, n, type_number, plan]
    library.tessera_torch_plan.argtypes = [number, flag, n, type_number]
    library.tessera_torch_plan.restype = plan
    library.tessera_torch_delete.argtypes = [number]
    library.tessera_torch_delete.restype = flag
    return library


OPERATORS = _load()


class _ForGradients(ctypes.Structure):
    """The functions that _gradients.cpp calls."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("keep", "holds", "release", "multiply", "multiply_plain")]


def gradients_path() -> Path:
    """Where _gradients.cpp lies once it is compiled, beside libtessera or in $TESSERA_TORCH_BUILD: a name
    for each of its texts, each torch and each Python, since their C++ and C interfaces change."""
    text = Path(__file__).with_name("_gradients.cpp").read_bytes()
    versions = f"torch-{torch.__version__}-{sys.implementation.cache_tag}"
    name = f"libtessera_gradients-{zlib.crc32(text):08x}-{versions}.so"
    return Path(os.environ.get("TESSERA_TORCH_BUILD") or Path(tessera.library._name).parent) / name


def _load_gradients() -> ModuleType | None:
    """The usual product and the derivative for B in C++, where they are compiled."""
    if OPERATORS is None or not gradients_path().exists():
        return None
    loader = ExtensionFileLoader(f"{__package__}._gradients", str(gradients_path()))
    try:
        module = module_from_spec(spec_from_loader(loader.name, loader))
    except ImportError as error:  # built for another PyTorch of this version; a new build mends it
        warnings.warn(
            f"gradients are computed in Python, since {error}", RuntimeWarning, stacklevel=2
        )
        return None
    loader.exec_module(module)
    functions = _ForGradients()
    for name, _ in _ForGradients._fields_:
        function = getattr(OPERATORS, "tessera_torch_" + name)
        setattr(functions, name, ctypes.cast(function, ctypes.c_void_p))
    ctypes.CDLL(str(gradients_path())).tessera_gradients_use(ctypes.byref(functions))
    return module


_gradients = _load_gradients()
HAS_GRADIENTS = _gradients is not None
# multiply(b, ready, transposed) -> C, or None where the call is not the usual one.
usual_multiply = _gradients.multiply if _gradients is not None else None
