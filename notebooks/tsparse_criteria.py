# %% [markdown]
# # When is tSparse faster?
# tSparse's Table 2 predicts from a matrix whether its tensor cores pay, approach by approach. The
# quality of a criterion is its precision (the share of the predicted matrices where tSparse is
# faster) and its recall (the share of the matrices where tSparse is faster that are predicted).
# This script computes both for other matrices.

# %%
"""tSparse's Tables 2 and 3 from measured times: precision and recall of its criteria, and speedups.

    python3 notebooks/tsparse_criteria.py TIMES MATRICES [COLUMN]

TIMES is table.csv of `tessera run tsparse_tables2_3`, MATRICES that of `tessera run
tsparse_table1`. COLUMN is the time to compare: time_us (the default, plain allocations) or pool_us.
Matrices that either table lacks are omitted, as are those outside the paper's collection: at most
10,000 nonzeros, or a bitmap density of one. "all" compares with the fastest of the approaches that
have a time.
"""

import csv
import needs  # noqa: F401  looks for a Python that has what follows
import sys
from collections.abc import Callable
from math import exp, log
from pathlib import Path
from typing import NamedTuple

from figure import arguments

SUBJECT = "tSparse"


class Matrix(NamedTuple):
    """The values that a criterion depends on."""

    nnz: int
    mean_row: float
    products_ratio: float  # products of elements per product of tiles
    bitmap_density: float  # mean nonzeros of a nonempty tile of 8 x 8


class Criterion(NamedTuple):
    """A line of Table 2; ESC stands for CUSP."""

    approach: str
    condition: str
    holds: Callable[[Matrix], bool]


def large_rows(nnz: int) -> Callable[[Matrix], bool]:
    """A condition: more than 42 nonzeros per row on average, and more than `nnz` in all."""
    return lambda matrix: matrix.mean_row > 42 and matrix.nnz > nnz


CRITERIA = (
    Criterion("cuSPARSE", "nnz > 200000", lambda matrix: matrix.nnz > 200_000),
    Criterion("ESC", "products / tile products >= 1", lambda matrix: matrix.products_ratio >= 1),
    Criterion("RMerge2", "mean row > 42, nnz > 100000", large_rows(100_000)),
    Criterion("Nsparse", "mean row > 42, nnz > 100000", large_rows(100_000)),
    Criterion("AC-SpGEMM", "products / tile products > 9",
              lambda matrix: matrix.products_ratio > 9),
    Criterion("spECK", "mean row > 42, nnz > 300000", large_rows(300_000)),
    Criterion("all", "mean row > 42, nnz > 300000", large_rows(300_000)),
)
Times = dict[str, dict[str, float]]  # matrix -> approach -> time


# %%
def read_matrices(path: Path) -> dict[str, Matrix]:
    """The matrices of the paper's collection that have a square."""
    matrices = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if not row["products_per_tile_product"]:
                continue
            nnz = int(row["nnz"])
            matrix = Matrix(nnz, nnz / int(row["rows"]), float(row["products_per_tile_product"]),
                            float(row["tile_nnz_mean_8x8"]))
            if matrix.nnz > 10_000 and matrix.bitmap_density > 1:
                matrices[row["matrix"]] = matrix
    return matrices


def read_times(path: Path, column: str) -> Times:
    """The times of correct products of tSparse and the approaches of Table 2."""
    approaches = {criterion.approach for criterion in CRITERIA} | {SUBJECT}
    times: Times = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["status"] == "ok" and row["case"] in approaches and row[column]:
                times.setdefault(row["matrix"], {})[row["case"]] = float(row[column])
    return times


def speedup(times: dict[str, float], approach: str) -> float | None:
    """The speedup of tSparse over an approach; None where one of them has no time."""
    others = [time for name, time in times.items()
              if name != SUBJECT and approach in ("all", name)]
    return min(others) / times[SUBJECT] if others and SUBJECT in times else None


# %%
class Score(NamedTuple):
    """The quality of a criterion."""

    matrices: int
    predicted: int
    faster: int
    both: int
    speedups: tuple[float, ...]  # where it is predicted

    def share(self, whole: int) -> str:
        """The share of `whole` that is predicted and true."""
        return f"{self.both / whole:.2f}" if whole else "-"

    def geometric_mean(self) -> str:
        """The geometric mean of the speedup where the criterion holds, as in Table 3."""
        if not self.speedups:
            return "-"
        return f"{exp(sum(map(log, self.speedups)) / len(self.speedups)):.2f}"


def score(criterion: Criterion, matrices: dict[str, Matrix], times: Times) -> Score:
    """The score of a criterion over the matrices with both times."""
    pairs = []
    for name, matrix in matrices.items():
        ratio = speedup(times.get(name, {}), criterion.approach)
        if ratio is not None:
            pairs.append((criterion.holds(matrix), ratio))
    return Score(len(pairs), sum(holds for holds, _ in pairs), sum(r > 1 for _, r in pairs),
                 sum(holds and r > 1 for holds, r in pairs),
                 tuple(r for holds, r in pairs if holds))


def main() -> int:
    """Prints a line per criterion."""
    names = arguments()
    if len(names) not in (2, 3):
        print("usage: tsparse_criteria.py TIMES MATRICES [COLUMN]", file=sys.stderr)
        return 2
    times = read_times(Path(names[0]), names[2] if len(names) == 3 else "time_us")
    matrices = read_matrices(Path(names[1]))
    print("approach,condition,predictions,matrices,faster,precision,recall,geomean_where_predicted")
    for criterion in CRITERIA:
        s = score(criterion, matrices, times)
        print(f'{criterion.approach},"{criterion.condition}",{s.predicted},{s.matrices},{s.faster},'
              f"{s.share(s.predicted)},{s.share(s.faster)},{s.geometric_mean()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
