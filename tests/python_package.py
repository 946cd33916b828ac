"""What the tests of tests/python share: the package of the checkout on the library of the build.

    import python_package

    python_package.need("pytest", "numpy")     # before they are imported
    import tessera                             # that of the checkout

    if __name__ == "__main__":
        sys.exit(python_package.main(__file__))
"""

import importlib.util
import os
import re
import sys
from pathlib import Path

from program import BINARY

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = BINARY.parent / "libtessera.so.1"
SKIPPED = 77  # the exit code that ctest counts as skipped

os.environ.setdefault("TESSERA_LIBRARY", str(LIBRARY))
os.environ["TESSERA_BINARY"] = str(BINARY)
sys.path.insert(0, str(ROOT / "python"))


def skip(reason: str) -> int:
    """Says why a test is skipped."""
    print(f"skipped: {reason}")
    return SKIPPED


def need(*packages: str) -> None:
    """Ends the process as skipped where the library or a package is missing."""
    if not LIBRARY.exists():
        sys.exit(skip(f"{LIBRARY.parent} has no {LIBRARY.name}: its target is tessera_shared"))
    cache = LIBRARY.parent / "CMakeCache.txt"
    if cache.exists() and re.search(r"^TESSERA_SANITIZE:\w+=.", cache.read_text(), re.MULTILINE):
        sys.exit(skip("a library with sanitizers cannot be loaded into Python"))
    for package in packages:
        if importlib.util.find_spec(package) is None:
            sys.exit(skip(f"{sys.executable} has no {package}"))


def main(file: str) -> int:
    """Runs the tests of a file with pytest."""
    import pytest

    return int(pytest.main([file, "-q", "-p", "no:cacheprovider", "--color=no"]))
