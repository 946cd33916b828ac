"""The package says what it does: its examples run, it is typed, and it has every function of the C
interface with the structs of its header."""

import ctypes
import doctest
import inspect
import pkgutil
import re
import sys

import python_package

python_package.need("pytest", "numpy")
import pytest

import tessera

HEADER = (python_package.ROOT / "kernels" / "abi" / "tessera.h").read_text(encoding="utf-8")
MODULES = [name for _, name, is_package in pkgutil.iter_modules(tessera.__path__) if not is_package]
PUBLIC = [getattr(tessera, name) for name in tessera.__all__]


@pytest.mark.parametrize("name", ["", *MODULES])
def test_the_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TESSERA_CACHE", str(tmp_path))
    module = tessera if not name else __import__(f"tessera.{name}", fromlist=["x"])
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0
    if not name:
        assert found.attempted > 5


@pytest.mark.parametrize("thing", PUBLIC, ids=lambda thing: thing.__name__)
def test_everything_public_has_a_docstring_and_types(thing):
    assert thing.__doc__ and len(thing.__doc__.split()) > 4
    for function in [thing] if inspect.isfunction(thing) else [
            value for name, value in vars(thing).items()
            if inspect.isfunction(value) and not name.startswith("_")]:  # fmt: skip
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty, function
        for parameter in signature.parameters.values():
            assert parameter.name == "self" or parameter.annotation is not parameter.empty, function
    assert (python_package.ROOT / "python" / "tessera" / "py.typed").exists()


def test_every_function_of_the_header_has_a_signature_here():
    declared = set(re.findall(r"\b(tessera_\w+)\(", re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)))
    assert len(declared) > 20
    known = set(tessera._library.SIGNATURES)
    assert declared - known == {"tessera_main"}  # of the program
    assert known <= declared


@pytest.mark.parametrize("name", ["SpmmOptions", "SddmmOptions", "AdviceOptions"])
def test_structs_have_the_size_that_the_library_fills(name):
    options = getattr(tessera._library, name)()
    init = f"tessera_{name.removesuffix('Options').lower()}_options_init"
    getattr(tessera._library.library, init)(ctypes.byref(options))
    assert options.size == ctypes.sizeof(options)


def test_the_version_is_that_of_the_build():
    assert tessera.__version__ in (python_package.ROOT / "CMakeLists.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(python_package.main(__file__))
