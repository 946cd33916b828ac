"""The declarations of torch's C functions are those of its headers, in the versions that are installed,
and the operators without libtessera_torch give the same products."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from torch_support import ROOT, main, pytest, torch

INCLUDE = Path(torch.__file__).parent / "include"
HEADERS = """
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
#include "python/torch_operators/torch_abi.hpp"
static_assert(sizeof(StableIValue) == 8);
"""


def compile_with_headers(source):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None or not INCLUDE.exists():
        pytest.skip("there is no C++ compiler, or this torch has no headers")
    command = [
        compiler,
        "-std=c++20",
        "-fsyntax-only",
        "-x",
        "c++",
        "-",
        f"-I{ROOT}",
        f"-I{INCLUDE}",
    ]
    return subprocess.run(command, input=source, capture_output=True, text=True)


def test_the_declarations_are_those_of_torch():
    result = compile_with_headers(HEADERS)
    assert result.returncode == 0, result.stderr


def test_a_wrong_declaration_is_noticed():
    wrong = 'extern "C" std::int32_t aoti_torch_get_dim(AtenTensorHandle, std::int32_t*);'
    result = compile_with_headers(HEADERS + wrong)
    assert "aoti_torch_get_dim" in result.stderr and result.returncode != 0


def test_every_function_is_in_this_torch():
    """The library is bound lazily: a function that is missing would fail at its first call."""
    import ctypes
    import re

    text = (ROOT / "python/torch_operators/torch_abi.hpp").read_text()
    names = re.findall(r"^  F\([\w:]+, (\w+),", text, re.MULTILINE)
    libtorch = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    assert len(names) > 20
    assert [name for name in names if not hasattr(libtorch, name)] == []


@pytest.mark.parametrize("name", ["torch_product_test.py", "torch_gradient_test.py"])
def test_the_operators_in_python_pass_the_same_tests(name):
    environment = {**os.environ, "TESSERA_TORCH_PYTHON": "1"}
    command = [sys.executable, "-B", str(Path(__file__).with_name(name))]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("compiled", [False, True])
def test_products_and_gradients_pass_the_same_tests(tmp_path, compiled):
    """Those in Python, and those in C++ after they have been compiled for this torch."""
    package = str(ROOT / "python")
    environment = {**os.environ, "TESSERA_TORCH_BUILD": str(tmp_path), "PYTHONPATH": package}

    def run(*arguments):
        command = [sys.executable, "-B", *arguments]
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout.split()

    if compiled:
        compile_with_headers("")  # or skips the test
        (made,) = run("-m", "tessera.torch.build")
        assert [str(path) for path in tmp_path.iterdir()] == [made]
    has = run("-c", "from tessera.torch import build; print(build.has_compiled_derivative())")
    assert has == [str(compiled)]
    for name in ("torch_gradient_test.py", "torch_product_test.py"):
        run(str(Path(__file__).with_name(name)))


def test_a_library_of_another_torch_leaves_the_derivative_in_python(tmp_path):
    """It has this torch's name, but cannot be loaded."""
    package = str(ROOT / "python")
    environment = {**os.environ, "TESSERA_TORCH_BUILD": str(tmp_path), "PYTHONPATH": package}
    script = (
        "from tessera.torch import _native\n"
        "print(_native.OPERATORS is not None, _native.HAS_GRADIENTS, _native.gradients_path())"
    )

    def run():
        command = [sys.executable, "-B", "-c", script]
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert result.returncode == 0, result.stderr
        return result

    in_library, _, path = run().stdout.split()
    if in_library == "False":
        pytest.skip("the operators are those in Python")
    Path(path).write_bytes(b"not a library")
    result = run()
    assert result.stdout.split()[1] == "False"
    assert "gradients are computed in Python, since" in result.stderr


def test_a_derivative_that_does_not_compile_says_what_the_compiler_said(tmp_path, monkeypatch):
    from tessera.torch import build

    monkeypatch.setenv("TESSERA_TORCH_BUILD", str(tmp_path))
    monkeypatch.setenv("CXX", f"{sys.executable} -c 'import sys; sys.exit(\"no_such_thing\")'")
    with pytest.raises(RuntimeError, match="no_such_thing"):
        build.build()
    assert list(tmp_path.iterdir()) == []


def test_without_headers_of_python_it_says_which_are_missing(tmp_path, monkeypatch):
    from tessera.torch import build

    monkeypatch.setattr(build.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(RuntimeError, match=f"{tmp_path} has no Python.h"):
        build.command(tmp_path / "library.so")


if __name__ == "__main__":
    main(__file__)
