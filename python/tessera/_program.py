"""The program `tessera` that the wheel carries: its console script, and how run() starts it."""

import os
import shutil
import sys
from pathlib import Path

from ._errors import UnsupportedError


def path() -> str:
    """The program: $TESSERA_BINARY, that of the wheel, or in a checkout that of build/."""
    chosen = os.environ.get("TESSERA_BINARY")
    if chosen:
        return chosen
    here = Path(__file__)
    for place in (here.parent / "bin" / "tessera", here.parents[2] / "build" / "tessera"):
        if place.is_file():
            return str(place)
    found = shutil.which("tessera")
    if found:
        return found
    raise UnsupportedError("the program tessera is missing: `pip install .` in a checkout installs it, "
                           "and $TESSERA_BINARY names another one")  # fmt: skip


def main() -> None:
    """The console script `tessera`: becomes the program. Figures are drawn by this Python."""
    os.environ.setdefault("TESSERA_PYTHON", sys.executable)
    program = path()
    os.execv(program, ["tessera", *sys.argv[1:]])
