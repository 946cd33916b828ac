"""Figure descriptions for the tests of notebooks/, and what is drawn of them."""

import importlib
import random
import re
import subprocess
import sys
import unittest
import zlib
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))
PREDICTED = ("modelled", "simulated", "emulated")


def available(name: str) -> bool:
    """True when a module can be imported."""
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


if available("matplotlib"):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.text import Text

    import figure

import figure_data

KINDS = figure_data.known_kinds()
NEEDS_MATPLOTLIB = unittest.skipUnless(available("matplotlib"), "matplotlib is not installed")


def description(kind: str, origins: tuple[str, ...] = ("measured", "modelled"),
                seed: int = 7) -> dict[str, Any]:
    """A valid figure over five matrices; series i is called kernel_i."""
    draw = random.Random(seed)
    names = ["cora", "roadNet-CA", "conf5_4-8x8", "a$b$c", "mc2depi"]
    series = []
    for rank, origin in enumerate(origins):
        values = [draw.uniform(20, 400) for _ in names]
        points = [{"x": x, "y": y, "low": 0.9 * y, "high": 1.2 * y} for x, y in zip(names, values)]
        series.append({"name": f"kernel_{rank}", "origin": origin, "points": points})
    return {"schema": 1, "id": f"try_{kind}", "kind": kind, "title": "Throughput", "caption": "N.",
            "x": {"label": "matrix", "scale": "category"},
            "y": {"label": "GFLOP/s", "scale": "linear"}, "series": series,
            "provenance": "H200, commit 1234abc", "missing": []}


def kind_of(name: str) -> Any:
    """The Kind that a script defines."""
    return importlib.import_module(name).KIND


def built(value: dict[str, Any]) -> Any:
    """The matplotlib figure of a description; figures built before are closed."""
    plt.close("all")
    figure.use_style()
    return figure.build(figure_data.check(value, "test"), kind_of(value["kind"]))


def texts(drawn: Any) -> str:
    """All text in a figure."""
    return "\n".join(t.get_text() for t in drawn.findobj(Text))


def command(script: str, *arguments: str) -> subprocess.CompletedProcess:
    """Run one script of notebooks/ as its user does."""
    return subprocess.run([sys.executable, str(NOTEBOOKS / script), *arguments],
                          capture_output=True, text=True, check=False)


def pdf_bytes(path: Path) -> bytes:
    """A PDF with its compressed streams unpacked behind it."""
    raw = path.read_bytes()
    parts = [raw]
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", raw, re.DOTALL):
        try:
            parts.append(zlib.decompressobj().decompress(stream))
        except zlib.error:
            continue
    return b"\n".join(parts)
