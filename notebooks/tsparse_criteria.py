# %% [markdown]
# # When is tSparse faster?
# tSparse's Table 2 predicts from a matrix whether its tensor cores pay, approach by approach. The
# quality of a criterion is its precision (the share of the predicted matrices where tSparse is
# faster) and its recall (the share of the matrices where tSparse is faster that are predicted).
# Table 3 gives the speedups where the criterion for all approaches holds. This script computes both
# for other matrices.

# %%
"""tSparse's Tables 2 and 3 from measured times: precision and recall of its criteria, and speedups.

    python3 notebooks/tsparse_criteria.py TIMES MATRICES [COLUMN [SUBJECT]]

TIMES is table.csv of `tessera run tsparse_tables2_3`, MATRICES that of `tessera run
tsparse_table1`. COLUMN is the time to compare: time_us (the default, plain allocations) or pool_us.
SUBJECT is the case that is compared with the approaches: tSparse (the default), which is the
published one, or "tSparse, ours". Table 2 is printed first, then an empty line and Table 3.
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

SUBJECT = "tSparse"  # the case, unless another is given


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


class Published(NamedTuple):
    """A line of Table 3 for one GPU."""

    geomean: float
    minimum: float
    maximum: float


# The criteria of Table 3: the mean row above which all matrices of a GPU are taken.
GPUS = {"Titan RTX": 42, "RTX 2070": 21}
TABLE_3 = {
    "cuSPARSE": (Published(2.8, 0.65, 11.58), Published(2.98, 0.78, 9.37)),
    "ESC": (Published(36.93, 4.17, 132.74), Published(26.25, 3.55, 113.5)),
    "RMerge2": (Published(11.16, 0.89, 124.09), Published(11.1, 1.17, 149.18)),
    "Nsparse": (Published(1.49, 0.65, 6.64), Published(1.77, 0.84, 7.8)),
    "AC-SpGEMM": (Published(3.72, 0.79, 19.21), Published(3.4, 0.71, 12.95)),
    "spECK": (Published(1.46, 0.47, 3.17), Published(1.88, 0.7, 4.67)),
    "nonTCU": (Published(1.48, 1.1, 1.97), Published(1.56, 1.19, 2.14)),
}
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


def read_times(path: Path, column: str, subject: str) -> Times:
    """The times of correct products of the subject and the approaches of Table 3."""
    approaches = set(TABLE_3) | {subject}
    times: Times = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["status"] == "ok" and row["case"] in approaches and row[column]:
                times.setdefault(row["matrix"], {})[row["case"]] = float(row[column])
    return times


def speedup(times: dict[str, float], approach: str, subject: str) -> float | None:
    """The speedup of the subject over an approach; None where one of them has no time."""
    others = [time for name, time in times.items()
              if name == approach or (approach == "all" and name not in (subject, "nonTCU"))]
    return min(others) / times[subject] if others and subject in times else None


# %%
class Score(NamedTuple):
    """The quality of a criterion."""

    matrices: int
    predicted: int
    faster: int
    both: int

    def share(self, whole: int) -> str:
        """The share of `whole` that is predicted and true."""
        return f"{self.both / whole:.2f}" if whole else "-"


def score(criterion: Criterion, matrices: dict[str, Matrix], times: Times, subject: str) -> Score:
    """The score of a criterion over the matrices with both times."""
    pairs = []
    for name, matrix in matrices.items():
        ratio = speedup(times.get(name, {}), criterion.approach, subject)
        if ratio is not None:
            pairs.append((criterion.holds(matrix), ratio))
    return Score(len(pairs), sum(holds for holds, _ in pairs), sum(r > 1 for _, r in pairs),
                 sum(holds and r > 1 for holds, r in pairs))


def print_table_2(matrices: dict[str, Matrix], times: Times, subject: str) -> None:
    """Prints a line per criterion."""
    print("approach,condition,predictions,matrices,faster,precision,recall")
    for criterion in CRITERIA:
        s = score(criterion, matrices, times, subject)
        print(f'{criterion.approach},"{criterion.condition}",{s.predicted},{s.matrices},{s.faster},'
              f"{s.share(s.predicted)},{s.share(s.faster)}")


def print_table_3(matrices: dict[str, Matrix], times: Times, subject: str) -> None:
    """Prints a line per approach and criterion: the speedups here and in the paper."""
    print("approach,condition,matrices,geomean,minimum,maximum,"
          "GPU,published_geomean,published_minimum,published_maximum")
    for approach, published in TABLE_3.items():
        for (gpu, mean_row), paper in zip(GPUS.items(), published, strict=True):
            ratios = [ratio for name, matrix in matrices.items()
                      if matrix.mean_row > mean_row and matrix.nnz > 300_000
                      and (ratio := speedup(times.get(name, {}), approach, subject)) is not None]
            here = "-,-,-"
            if ratios:
                mean = exp(sum(map(log, ratios)) / len(ratios))
                here = f"{mean:.2f},{min(ratios):.2f},{max(ratios):.2f}"
            print(f'{approach},"mean row > {mean_row}, nnz > 300000",{len(ratios)},{here},'
                  f"{gpu},{paper.geomean},{paper.minimum},{paper.maximum}")


def main() -> int:
    """Prints both tables."""
    names = arguments()
    if not 2 <= len(names) <= 4:
        print("usage: tsparse_criteria.py TIMES MATRICES [COLUMN [SUBJECT]]", file=sys.stderr)
        return 2
    column, subject = (names[2:] + ["time_us", SUBJECT][len(names) - 2:])
    times = read_times(Path(names[0]), column, subject)
    matrices = read_matrices(Path(names[1]))
    print_table_2(matrices, times, subject)
    print()
    print_table_3(matrices, times, subject)
    return 0


if __name__ == "__main__":
    sys.exit(main())
