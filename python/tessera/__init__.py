"""Sparse times dense products on tensor cores and without, and the testbed around them.

>>> import numpy as np, tessera
>>> a = tessera.Matrix("shuffle(of=poisson2d(nx=16, ny=16))")     # or SciPy's, PyTorch's, CuPy's
>>> b = np.ones((256, 8), np.float32)
>>> c = tessera.multiply(a, b)                                    # on the CPU; on the GPU where b is there
>>> order = tessera.reorder(a, "rcm")
>>> tessera.pack(order.apply(), "bit_tcf")["mean_nnz_tc"] > tessera.pack(a, "bit_tcf")["mean_nnz_tc"]
True
>>> tessera.errors(a, b, tessera.emulate(a, b, "acc_spmm"), kernel="acc_spmm")["ok"]
True
>>> tessera.simulate(a, 8, "acc_spmm", device="h200")["origin"]   # a prediction, no measurement
'simulated'

The functions are those of the C interface (kernels/abi/tessera.h); `tessera` on the command line is the
program, and run() starts its experiments.
"""

from . import _library
from ._errors import (
    DeviceError,
    InternalError,
    InvalidError,
    OutOfMemoryError,
    TesseraError,
    UnsupportedError,
)
from .matrix import Matrix
from .products import Plan, emulate, errors, gpu_problem, has_gpu, multiply, set_threads
from .records import Records, read, run
from .testbed import Advice, Order, Timeline, advise, pack, reorder, simulate, timeline

__version__ = _library.library.tessera_version().decode().split()[1]

__all__ = [
    "Advice",
    "DeviceError",
    "InternalError",
    "InvalidError",
    "Matrix",
    "Order",
    "OutOfMemoryError",
    "Plan",
    "Records",
    "TesseraError",
    "Timeline",
    "UnsupportedError",
    "advise",
    "emulate",
    "errors",
    "gpu_problem",
    "has_gpu",
    "multiply",
    "pack",
    "read",
    "reorder",
    "run",
    "set_threads",
    "simulate",
    "timeline",
]
