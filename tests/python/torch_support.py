"""What the tests of tessera.torch share. They need PyTorch and pytest; where either is missing, they
say so and count as skipped: a test takes both from here. The tests of a GPU run where torch sees one."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import python_package

ROOT = python_package.ROOT


def _skip(reason):
    if "pytest" in sys.modules:
        sys.modules["pytest"].skip(reason, allow_module_level=True)
    sys.exit(python_package.skip(reason))


try:  # without PyTorch, a test that is a program ends before pytest is there to be asked to skip
    import torch  # isort: skip
    import pytest
except ImportError as error:
    _skip(f"{sys.executable} has no {error.name}")
if not Path(os.environ["TESSERA_LIBRARY"]).exists():
    _skip(f"{python_package.LIBRARY} does not exist: its target is tessera_torch")

import tessera.torch

SparseOperator, spmm = tessera.torch.SparseOperator, tessera.torch.spmm
sddmm, spgemm = tessera.torch.sddmm, tessera.torch.spgemm
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]
on_each_device = pytest.mark.parametrize("device", DEVICES)


def sparse(rows, cols, density=0.3, seed=0, dtype=torch.float32, device="cpu"):
    """A dense tensor [rows, cols] with seeded values and zeros, some rows and columns all zero."""
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(rows, cols, generator=generator, dtype=torch.float64)
    dense[torch.rand(rows, cols, generator=generator) >= density] = 0
    if rows > 3:
        dense[rows // 2] = 0
    if cols > 3:
        dense[:, 1] = 0
    return dense.to(dtype).to(device)


def dense(*shape, seed=1, dtype=torch.float32, device="cpu"):
    """Seeded values."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).to(device)


# The unit roundoff of a result's type, and of an operand's when it is rounded to multiply.
UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}  # fmt: skip
TF32 = 2.0**-11


def assert_product(c, a, b, precision="fp32"):
    """C is A B within the error that the types and the number of terms allow.

    A sum of k products in FP32 has an error of at most (k + 1) 2^-24 of the sum of magnitudes
    (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1); an operand that is rounded
    to multiply adds its own unit roundoff, and so does rounding C."""
    a64, b64 = a.double(), b.double()
    exact, magnitude = a64 @ b64, a64.abs() @ b64.abs()
    terms = (a64 != 0).sum(1).max().item() if a64.numel() else 0
    sums = UNIT[torch.float64 if b.dtype == torch.float64 else torch.float32] * (terms + 2)
    if precision == "tf32":
        operands = 2 * TF32
    else:
        operands = UNIT[b.dtype] if b.dtype in (torch.float16, torch.bfloat16) else 0
    least = 2.0**-24 if b.dtype == torch.float16 else 0  # half of FP16's least number, and more
    bound = (sums + operands) * 1.01 * magnitude + UNIT[b.dtype] * exact.abs() + least
    assert c.dtype == b.dtype and c.shape == exact.shape
    excess = ((c.double() - exact).abs() - bound).max().item() if c.numel() else 0
    assert excess <= 0, f"an element is {excess} beyond its bound"


def main(file):
    """Runs a file's tests as ctest does."""
    sys.exit(python_package.main(file))
