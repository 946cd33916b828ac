# %% [markdown]
# # Synergy classes from tile counts alone
# cuTeSpMM (section 6.4, Table 2) classes 1,099 SuiteSparse matrices by alpha, the density of a
# nonempty 16 x 4 brick of condensed columns: 666 low (below 12.5 %), 198 medium, 235 high (from
# 25 %). Alpha needs the matrix. For many matrices only the numbers of rows, columns, nonzeros and
# nonempty 8 x 8, 16 x 8 and 16 x 16 tiles are known; these bound it. Nothing here is measured: all
# values are modelled.

# %%
"""Bounds on alpha, the brick density of cuTeSpMM, from nonempty tile counts.

    python3 notebooks/synergy_bounds.py FINGERPRINTS.csv [FOLDER]

FINGERPRINTS.csv has the columns name, rows, cols, nnz, nonempty_8x8, nonempty_16x8, nonempty_16x16.
Prints class counts beside the paper's, and writes synergy_bounds.csv (a line per matrix), the
counts as synergy_classes.csv, and their figure, to FOLDER (default: out/synergy_bounds).
"""

import csv
import needs  # noqa: F401  looks for a Python that has what follows
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, exp, lgamma
from pathlib import Path

import bars

from figure import arguments, build, save, use_style
from figure_data import check

PAPER = {"low": 666, "medium": 198, "high": 235}  # of 1,099: cuTeSpMM, Table 2
CLASSES = tuple(PAPER)


# %% [markdown]
# ## From tiles to active columns, from active columns to bricks
# Let T, E be the nonempty 16 x 8 and 8 x 8 tiles, and C the active columns of all 16-row windows.
#
# * **C from above**: a tile has 8 columns, a column at least one nonzero: C <= min(8 T, nnz).
# * **C from below**: a tile has at least one active column, so C >= T. Of the T tiles, E - T have
#   both halves nonempty, where a column holds up to 16 nonzeros, the other 2 T - E only one, where
#   it holds 8. The fewest columns hold all nonzeros when the former fill up first.
# * **Bricks**: a window with c active columns has ceil(c / 4), between c / 4 and (c + 3) / 4. The
#   windows with a nonzero are at most as many as windows, and as nonempty 16 x 16 tiles; at least
#   T / ceil(K / 8). A brick holds at most 64 nonzeros.
#
# Alpha = nnz / (64 bricks). The bounds on C are tight: both ends occur, and the test builds them.

# %%
@dataclass(frozen=True)
class Fingerprint:
    """The known counts of a matrix."""

    rows: int
    cols: int
    nnz: int
    tiles_8x8: int
    tiles_16x8: int
    tiles_16x16: int


def fewest_columns(f: Fingerprint) -> int:
    """The least number of active columns, summed over 16-row windows."""
    both = f.tiles_8x8 - f.tiles_16x8  # tiles with two nonempty halves
    columns = f.tiles_16x8
    left = f.nnz - 16 * both - 8 * (f.tiles_16x8 - both)  # beyond the first column of every tile
    if left <= 0:
        return columns
    if left <= 7 * both * 16:
        return columns + ceil(left / 16)
    return columns + 7 * both + ceil((left - 7 * both * 16) / 8)


def most_columns(f: Fingerprint) -> int:
    """The largest number of active columns, summed over 16-row windows."""
    return min(8 * f.tiles_16x8, f.nnz)


def fewest_bricks(f: Fingerprint) -> int:
    """The least number of nonempty 16 x 4 bricks of condensed columns."""
    windows = ceil(f.tiles_16x8 / ceil(f.cols / 8))
    return max(ceil(fewest_columns(f) / 4), windows)


def most_bricks(f: Fingerprint, columns: float) -> float:
    """The largest number of bricks for `columns` active columns."""
    windows = min(ceil(f.rows / 16), f.tiles_16x16)
    return min((columns + 3 * windows) / 4, columns, windows * ceil(f.cols / 4))


def alpha_bounds(f: Fingerprint) -> tuple[float, float]:
    """The least and the largest alpha of such a matrix; 0 and 0 without nonzeros."""
    if f.nnz == 0:
        return 0.0, 0.0
    return (f.nnz / (64 * most_bricks(f, most_columns(f))),
            min(1.0, f.nnz / (64 * fewest_bricks(f))))


# %% [markdown]
# ## A guess between the bounds
# If the nonzeros of a nonempty 8 x 8 tile lay at random in it, equally many in each, a column of
# the tile would be empty with a known probability, and one of two halves with its square. Real
# tiles are more regular, so the guess is mostly low: on the 24 matrices of the set real_matrices it
# is 0.48 to 1.21 times the true alpha, and the class is right for 21.

# %%
def empty_column(nnz: float) -> float:
    """The probability that 8 given cells of 64 are empty when `nnz` of the 64 are not."""
    if nnz > 56:
        return 0.0
    return exp(lgamma(57) + lgamma(65 - nnz) - lgamma(57 - nnz) - lgamma(65))


def guessed_alpha(f: Fingerprint) -> float:
    """Alpha of random tiles, every window's last brick half full."""
    if f.nnz == 0:
        return 0.0
    empty = empty_column(f.nnz / f.tiles_8x8)
    both = f.tiles_8x8 - f.tiles_16x8
    columns = 8 * (both * (1 - empty * empty) + (f.tiles_16x8 - both) * (1 - empty))
    columns = min(max(columns, fewest_columns(f)), most_columns(f))
    windows = min(ceil(f.rows / 16), f.tiles_16x16)
    low, high = alpha_bounds(f)
    return min(max(f.nnz / (16 * columns + 24 * windows), low), high)


def synergy(alpha: float) -> str:
    """The class of cuTeSpMM, Table 1."""
    return "low" if alpha < 0.125 else "medium" if alpha < 0.25 else "high"


# %% [markdown]
# ## Counting
# A matrix whose two bounds are in one class is *certain*. A class holds at least the certain
# matrices, and at most all matrices whose interval touches it.

# %%
def class_counts(matrices: Mapping[str, Fingerprint]) -> dict[str, dict[str, int]]:
    """The number of matrices by series and class."""
    counts = {name: dict.fromkeys(CLASSES, 0) for name in ("at least", "at most", "random tiles")}
    for matrix in matrices.values():
        low, high = (synergy(alpha) for alpha in alpha_bounds(matrix))
        if low == high:
            counts["at least"][low] += 1
        for name in CLASSES[CLASSES.index(low):CLASSES.index(high) + 1]:
            counts["at most"][name] += 1
        counts["random tiles"][synergy(guessed_alpha(matrix))] += 1
    return counts


def read_fingerprints(path: Path) -> dict[str, Fingerprint]:
    """The fingerprints by name of the matrices whose nonzeros and tiles are known."""
    keys = ("rows", "cols", "nnz", "nonempty_8x8", "nonempty_16x8", "nonempty_16x16")
    with open(path, encoding="utf-8", newline="") as file:
        return {line["name"]: Fingerprint(*(int(line[key]) for key in keys))
                for line in csv.DictReader(file) if all(line[key] for key in keys)}


def write_csv(path: Path, lines: list[list[object]]) -> None:
    """Write one line per list."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def draw(counts: dict[str, dict[str, int]], matrices: int, folder: Path) -> None:
    """Draw the numbers of matrices by class as bars."""
    series = [{"name": "paper, 1,099 matrices", "origin": "counted", "points":
               [{"x": name, "y": PAPER[name]} for name in CLASSES]}]
    series += [{"name": known, "origin": "modelled", "points":
                [{"x": name, "y": of_class[name]} for name in CLASSES]}
               for known, of_class in counts.items()]
    description = {
        "schema": 1, "id": "synergy_classes", "kind": "bars",
        "title": "Synergy classes of SuiteSparse matrices, from tile counts",
        "caption": f"{matrices} matrices. at least: both bounds of alpha in the class; at most: "
                   "the class is between them; random tiles: a guess.",
        "x": {"label": "synergy class of cuTeSpMM", "scale": "category"},
        "y": {"label": "matrices", "scale": "linear"}, "series": series,
        "provenance": "nonempty 8x8, 16x8 and 16x16 tile counts", "missing": []}
    use_style()
    print("wrote", *save(build(check(description, "synergy_classes"), bars.KIND), folder,
                         "synergy_classes"))


def main() -> int:
    """The command line."""
    if len(arguments()) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments()[1] if len(arguments()) == 2 else "out/synergy_bounds")
    folder.mkdir(parents=True, exist_ok=True)
    matrices = read_fingerprints(Path(arguments()[0]))
    counts = class_counts(matrices)

    lines: list[list[object]] = [["name", "nnz", "alpha_least", "alpha_most", "alpha_random_tiles"]]
    for name, matrix in matrices.items():
        low, high = alpha_bounds(matrix)
        lines.append([name, matrix.nnz, *(f"{alpha:.6g}" for alpha in
                                          (low, high, guessed_alpha(matrix)))])
    write_csv(folder / "synergy_bounds.csv", lines)
    table: list[list[object]] = [["class", "paper", *counts]]
    table += [[name, PAPER[name], *(of[name] for of in counts.values())] for name in CLASSES]
    write_csv(folder / "synergy_classes.csv", table)
    for line in table:
        print("".join(f"{cell!s:>14}" for cell in line))
    certain = sum(counts["at least"].values())
    print(f"modelled, not measured: {certain} of {len(matrices)} matrices are certain")
    draw(counts, len(matrices), folder)
    return 0


# %%
if __name__ == "__main__":
    sys.exit(main())
