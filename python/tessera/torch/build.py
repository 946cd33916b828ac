"""Compiles the usual product and its derivative for the torch and the Python that are installed, in place of
those in Python:

    python3 -m tessera.torch.build

It takes a C++ compiler ($CXX, c++ or g++), Python's headers (Debian: python3-dev) and some 30 seconds, and
writes a library beside those of tessera, or into the folder $TESSERA_TORCH_BUILD, which `tessera.torch` loads
from then on. Another version of torch or Python does not load it: compile it again for that one. Products
and gradients are the same without it, but take the host longer. Compiled autograd alone (`torch._dynamo.config.compiled_autograd`) needs
the derivative in Python.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import torch

from . import _native


def has_compiled_derivative() -> bool:
    """Whether this process uses a derivative that was compiled for its torch."""
    return _native.HAS_GRADIENTS


def command(target: Path) -> list[str]:
    """What compiles them. Raises RuntimeError where there is no C++ compiler, or no header of Python."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise RuntimeError("tessera.torch: there is no C++ compiler; $CXX names one")
    python = Path(sysconfig.get_path("include"))
    if not (python / "Python.h").exists():
        raise RuntimeError(f"tessera.torch: {python} has no Python.h; Debian's python3-dev has it")
    of_torch = Path(torch.__file__).parent
    include = of_torch / "include"
    return [
        *shlex.split(compiler),
        "-std=c++20",
        "-O2",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        f"-isystem{include}",
        f"-isystem{include / 'torch/csrc/api/include'}",
        f"-isystem{python}",
        str(Path(__file__).with_name("_gradients.cpp")),
        f"-L{of_torch / 'lib'}",
        "-ltorch_python",
        "-ltorch_cpu",
        "-lc10",
        "-o",
        str(target),
    ]


def build() -> Path:
    """Compiles them and returns where they are. Raises RuntimeError where that fails."""
    if _native.OPERATORS is None:
        raise RuntimeError("tessera.torch: the operators are those in Python, which need no library")
    path = _native.gradients_path()
    made = path.with_suffix(f".{os.getpid()}")  # whole, or not there
    try:
        result = subprocess.run(command(made), capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError(f"tessera.torch: the compiler failed:\n{result.stderr}")
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)
    return path


if __name__ == "__main__":
    try:
        print(build())
    except RuntimeError as error:
        sys.exit(str(error))
