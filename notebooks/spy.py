# %% [markdown]
# # Before and after
# The nonzeros of a matrix in the order of the file and in another one. A cell of the picture is a
# rectangle of the matrix; its colour is the density of the rectangle on a log scale. A large sparse
# matrix drawn dot by dot would be black and not show its structure.

# %%
"""Density pictures of a matrix before and after a reordering, side by side.

    python3 notebooks/spy.py MATRIX --with rcm                  # tessera computes the order
    python3 notebooks/spy.py MATRIX --rows order.npy            # an order from a file, .npy or .txt
    python3 notebooks/spy.py A.npz --rows order.npy --cols order.npy --to pictures/a.png

An order is a list of old indices, as `tessera reorder --out` writes it. --symmetric moves columns
like rows; --set k=v sets a parameter of the reordering. The picture goes to out/spy.png and .pdf,
or to where --to says. This script reads a SciPy .npz itself and
any other matrix through the program: $TESSERA_BINARY, else the newest tessera in build*/.
"""

import argparse
import json
import needs  # noqa: F401  looks for a Python that has what follows
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.ticker import MaxNLocator

from figure import arguments, save, use_style
from layout import plain, wrapped
from style import TWO_COLUMNS

CELLS = 400  # of the longer side of a picture
EMPTY = "white"


# %%
@dataclass(frozen=True)
class Pattern:
    """The positions of a matrix's nonzeros."""

    shape: tuple[int, int]
    rows: np.ndarray  # [nonzeros]
    cols: np.ndarray  # [nonzeros]


class SpyError(Exception):
    """A message for the user."""


def read_npz(path: Path) -> Pattern:
    """Reads a CSR matrix that scipy.sparse.save_npz wrote."""
    with np.load(path) as file:
        if not {"indptr", "indices", "shape"} <= set(file.files):
            raise SpyError(f"{path}: no matrix of SciPy in CSR: it has {', '.join(file.files)}")
        rows = np.repeat(np.arange(file["shape"][0]), np.diff(file["indptr"]))
        return Pattern((int(file["shape"][0]), int(file["shape"][1])), rows, file["indices"])


def program() -> Path:
    """The path of the program tessera."""
    if "TESSERA_BINARY" in os.environ:
        return Path(os.environ["TESSERA_BINARY"])
    root = Path(__file__).resolve().parent.parent
    built = sorted(root.glob("build*/tessera"), key=lambda p: p.stat().st_mtime)
    if not built:
        raise SpyError("there is no tessera in build*/: build it, or set TESSERA_BINARY")
    return built[-1]


def call_program(*words: str) -> str:
    """The program's standard output; its standard error appears only when it fails."""
    done = subprocess.run([program(), *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SpyError(f"tessera {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def read_matrix(name: str, folder: Path) -> Pattern:
    """Reads a file, or a matrix of any other name that the program accepts."""
    if name.endswith(".npz") and Path(name).is_file():
        try:
            return read_npz(Path(name))
        except SpyError:
            pass  # another dialect, which the program knows
    call_program("matrix", "convert", name, str(folder / "matrix.npz"))
    return read_npz(folder / "matrix.npz")


def read_order(path: Path, size: int) -> np.ndarray:
    """Reads and checks an order, old_of_new."""
    order = np.load(path) if path.suffix == ".npy" else np.loadtxt(path, dtype=np.int64, ndmin=1)
    if len(order) != size or not np.array_equal(np.sort(order), np.arange(size)):
        raise SpyError(f"{path}: no order of {size} indices")
    return order


def moved(indices: np.ndarray, old_of_new: np.ndarray) -> np.ndarray:
    """The new indices of old ones."""
    new_of_old = np.empty_like(old_of_new)
    new_of_old[old_of_new] = np.arange(len(old_of_new))
    return new_of_old[indices]


# %%
def density(pattern: Pattern) -> np.ndarray:
    """The density of every cell; NaN for an empty cell."""
    height, width = pattern.shape
    side = max(height, width) / CELLS
    down, across = (max(1, min(size, round(size / side))) for size in pattern.shape)
    counts = np.zeros((down, across))
    at = (pattern.rows.astype(np.int64) * down // height,
          pattern.cols.astype(np.int64) * across // width)
    np.add.at(counts, at, 1)
    edges = [-(-np.arange(n + 1) * size // n) for n, size in ((down, height), (across, width))]
    areas = np.outer(np.diff(edges[0]), np.diff(edges[1]))
    return np.where(counts > 0, counts / areas, np.nan)


def mean_nnz_tc(pattern: Pattern) -> float:
    """MeanNNZTC of 8 x 8 TC blocks: windows of 8 rows, eight active columns per block."""
    pairs = np.unique((pattern.rows.astype(np.int64) // 8) * pattern.shape[1] + pattern.cols)
    active = np.bincount(pairs // pattern.shape[1])
    blocks = int((-(-active // 8)).sum())
    return len(pattern.rows) / blocks if blocks else 0.0


def provenance() -> str:
    """The machine, the day and the commit, for the footer; without the program only the day."""
    day = date.today().isoformat()
    try:
        found = json.loads(call_program("doctor", "--json"))
    except (SpyError, OSError):
        return day
    changed = "+changes" if found["build"]["dirty"] else ""
    return (f"{found['machine']['host']['cpu']}, {day}, "
            f"commit {found['build']['commit']}{changed}")


def draw(axes: Axes, picture: np.ndarray, pattern: Pattern, title: str, norm: LogNorm) -> None:
    """Draws one side."""
    height, width = pattern.shape
    axes.imshow(picture, norm=norm, cmap="cividis_r", interpolation="nearest", aspect="equal",
                extent=(0, width, height, 0))
    axes.set_facecolor(EMPTY)
    axes.grid(False)
    axes.spines[:].set_visible(True)
    axes.set_title(f"{title}\n{mean_nnz_tc(pattern):.2f} nonzeros per TC block (8 x 8)")
    for side in (axes.xaxis, axes.yaxis):
        side.set_major_locator(MaxNLocator(5, integer=True))  # six-digit labels side by side
    axes.set_xlabel("column")
    axes.set_ylabel("row")


def figure_of(name: str, before: Pattern, after: Pattern, order: str, where: str) -> plt.Figure:
    """Draws both sides with one colour scale; `where` is machine, day and commit."""
    pictures = [density(before), density(after)]
    values = np.concatenate([p[np.isfinite(p)] for p in pictures])
    low, high = (values.min(), values.max()) if len(values) else (0.5, 1.0)
    norm = LogNorm(low, max(high, 1.001 * low))
    ratio = min(2.0, max(0.25, before.shape[0] / before.shape[1]))
    figure, sides = plt.subplots(1, 2, figsize=(TWO_COLUMNS, 2.8 * ratio + 0.8),
                                 layout="constrained")
    draw(sides[0], pictures[0], before, "order of the file", norm)
    draw(sides[1], pictures[1], after, plain(order), norm)
    bar = figure.colorbar(plt.cm.ScalarMappable(norm, "cividis_r"), ax=list(sides), pad=0.01,
                          aspect=25)
    bar.set_label("share of a cell that is nonzero")
    bar.outline.set_visible(False)
    figure.suptitle(plain(f"{name}: {before.shape[0]:,} x {before.shape[1]:,}, "
                          f"{len(before.rows):,} nonzeros"), size=8, weight="bold")
    figure.supxlabel(wrapped(f"All values counted. {where}", TWO_COLUMNS, 5.5), size=5.5,
                     color="#444444", x=0.01, ha="left")
    return figure


# %%
def options(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="spy.py", description="A matrix before and after.")
    parser.add_argument("matrix", help="file, generator or name")
    parser.add_argument("--with", dest="reordering", help="a reordering of tessera's")
    parser.add_argument("--set", action="append", default=[], help="parameter of it, k=v")
    parser.add_argument("--rows", type=Path, help="order of the rows, .npy or .txt")
    parser.add_argument("--cols", type=Path, help="order of the columns")
    parser.add_argument("--symmetric", action="store_true", help="move columns as rows")
    parser.add_argument("--to", type=Path, default=Path("out/spy.png"),
                        help="where the picture goes (default: out/spy.png)")
    given = parser.parse_args(words)
    if (given.reordering is None) == (given.rows is None):
        parser.error("either --with or --rows says what comes after")
    return given


def orders(given: argparse.Namespace, shape: tuple[int, int],
           folder: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """The orders of the rows and, where they move, of the columns."""
    rows, cols = given.rows, given.cols
    if given.reordering is not None:
        rows, cols = folder / "rows.npy", folder / "cols.npy"
        words = ["reorder", given.matrix, "--with", given.reordering, "--out", str(rows)]
        words += [word for pair in given.set for word in ("--set", pair)]
        if json.loads(call_program(*words, "--json"))["moves_columns"]:
            call_program(*words, "--out-cols", str(cols))  # the order itself is in the cache
    of_rows = read_order(rows, shape[0])
    if given.symmetric:
        if shape[0] != shape[1]:
            raise SpyError(
                f"--symmetric needs a square matrix, this one is {shape[0]} x {shape[1]}")
        return of_rows, of_rows
    return of_rows, read_order(cols, shape[1]) if cols is not None and cols.exists() else None


def main() -> int:
    """The command line; 0, or 2 with a message on stderr."""
    given = options(arguments())
    matplotlib.use("Agg")
    use_style()
    try:
        with tempfile.TemporaryDirectory() as folder:
            before = read_matrix(given.matrix, Path(folder))
            rows, cols = orders(given, before.shape, Path(folder))
    except (SpyError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    after = replace(before, rows=moved(before.rows, rows),
                    cols=before.cols if cols is None else moved(before.cols, cols))
    order = given.reordering or given.rows.name
    moving = "rows and columns" if cols is not None else "rows"
    name = Path(given.matrix).name if Path(given.matrix).is_file() else given.matrix
    drawn = figure_of(name, before, after, f"{order} ({moving})", provenance())
    given.to.parent.mkdir(parents=True, exist_ok=True)
    print("wrote", *save(drawn, given.to.parent, given.to.stem))
    plt.close(drawn)
    return 0


# %%
if __name__ == "__main__":
    sys.exit(main())
