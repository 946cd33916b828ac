"""The project's own scripts for figures and records (notebooks/*.py), as modules.

Their names are short (records, style, ...), so they are kept apart from modules of the user with the same
names: each is in sys.modules only while one of them is imported.
"""

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ._errors import UnsupportedError

HERE = Path(__file__).parent
OLDEST = (3, 11)  # of the scripts: tomllib
_loaded: dict[str, ModuleType] = {}
_lock = threading.RLock()


def folder() -> Path:
    """Where the scripts are: in the wheel, or in the checkout that this package lies in."""
    for place in (HERE / "share" / "tessera" / "notebooks", HERE.parents[1] / "notebooks"):
        if (place / "figure.py").is_file():
            return place
    raise UnsupportedError(f"the scripts for figures are missing beside {HERE}")


def need(package: str) -> Any:
    """An optional package. Raises UnsupportedError that says how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise UnsupportedError(
            f"this needs {package}, which this Python has not: pip install {package}") from error


def load(name: str) -> ModuleType:
    """A script as a module, imported once."""
    if sys.version_info < OLDEST:
        raise UnsupportedError("figures and tables of records need Python {}.{}".format(*OLDEST))
    for package in ("numpy", "pandas", "matplotlib"):
        need(package)
    with _lock:
        place = folder()
        names = {path.stem for path in place.glob("*.py")}
        others = {n: sys.modules.pop(n) for n in names if n in sys.modules}
        sys.modules.update(_loaded)
        sys.path.insert(0, str(place))
        try:
            return importlib.import_module(name)
        finally:
            sys.path.remove(str(place))
            _loaded.update({n: sys.modules.pop(n) for n in names if n in sys.modules})
            sys.modules.update(others)


@contextmanager
def style(name: str = "screen") -> Iterator[None]:
    """The project's style of figures, and afterwards the user's settings of matplotlib again."""
    matplotlib = need("matplotlib")
    script = load("style")
    with matplotlib.rc_context():
        script.use_style(name)
        yield
