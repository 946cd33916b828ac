# %% [markdown]
# # By rows, by merging or by tiles?
# `mixed_spgemm` chooses one of three kernels by their cost models (`model/mixed_spgemm.hpp`). This notebook
# fits the terms that no device file contains (instructions, chains of dependent loads, host waits) to
# measured times of C = A A. It judges the choice for a matrix by a fit to all other matrices.

# %%
"""Fits the numbers of model/mixed_spgemm.hpp (Effort) to measured times, and tests the choice leave-one-out.

    python3 notebooks/mixed_spgemm_fit.py [experiments/results/spgemm/paths.csv]

Prints the fitted numbers. Then, for every matrix and admitted precision, prints the predictions of a fit
without that matrix, the kernel that they choose, and its time relative to the fastest kernel.
fp32 admits no tiles; rows of A with more nonzeros than a warp has lanes are never merged.
"""

import csv
import sys
from math import exp, log
from pathlib import Path

# One H200, model/devices/h200.toml, in microseconds.
ISSUE = 132 * 3.876 * 1980  # instructions of warps
READ, WRITE, L2 = 4581e3, 4616e3, 8940e3  # bytes
LOAD = 281.2 / 1980  # time of a load on which the next one depends
LAUNCH = 3.656  # cost of a launch
PAIR = {"tf32x3": 2 * 2048 / 321e6, "tf32": 2048 / 321e6, "fp16": 2048 / 642.7e6}  # MMAs of a pair of tiles

THREADS = 128  # of a thread block of tile_spgemm
PAIRS_OF_TILE = 3  # the effort of a tile of C, in pairs
ROOM_FOR_PRODUCTS = 16 << 20  # up to here merge_spgemm does not wait for the size of C
PRECISIONS = ("fp16", "tf32", "tf32x3")
COUNTS = {"looks": "scans", "tiles_looked_at": "tiles_scanned"}  # columns of the file that the kernels rename


def is_fp16(f):
    return f["precision"] == "fp16"


def long_pairs(f):
    return f["pairs"] * f["long_tile_products"] / f["tile_products"]


def pair_in(precision):
    def work(f):
        return (f["pairs"] + PAIRS_OF_TILE * f["tiles_of_c"]) / ISSUE if f["precision"] == precision else 0

    return work


# For each stage: its time by the device file's rates alone, and the fitted terms, each with its time for an
# effort of one. These are the formulas of model/mixed_spgemm.cpp for a square.
STAGES = {
    "rows": (
        lambda f: 27 * LAUNCH + 8 * f["products"] / L2 + 8 * f["nonzeros_of_c"] / WRITE + 8 * f["nonzeros"] / READ,
        {
            "wait_of_rows_us": lambda _: 3,
            "product": lambda f: f["products"] / ISSUE,
            "nonzero_of_c": lambda f: f["nonzeros_of_c"] / ISSUE,
            "nonzero_of_large_row": lambda f: f["nonzeros_of_large_rows"] / ISSUE,
            "loads_of_nonzero": lambda f: f["longest_row"] * LOAD,
        },
    ),
    "merge": (
        lambda f: 10 * LAUNCH + 16 * f["products"] / L2 + 8 * f["nonzeros_of_c"] / WRITE + 16 * f["nonzeros"] / READ,
        {
            "wait_of_merge_us": lambda f: 2 if f["products"] > ROOM_FOR_PRODUCTS else 1,
            "merged_column": lambda f: f["merged_columns"] / ISSUE,
        },
    ),
    "tiles_us": (
        lambda f: (3 if is_fp16(f) else 2) * LAUNCH
        + (20 if is_fp16(f) else 16) * f["nonzeros"] / READ
        + ((4 if is_fp16(f) else 8) * f["nonzeros"] + 16 * f["tiles"]) / WRITE,
        {
            "start_us": lambda _: 1,
            "scales_us": lambda f: 1 if is_fp16(f) else 0,
            "filled_tile_row": lambda f: f["tile_rows"] / ISSUE,
            "filled_tile": lambda f: f["tiles"] / ISSUE,
            "loads_of_filling": lambda f: f["longest_filling"] * LOAD,
        },
    ),
    "cells_us": (
        lambda f: 4 * LAUNCH + 32 * f["tile_products"] / L2,
        {
            "counting_scan": lambda f: f["scans"] / ISSUE,
            "counting_tile": lambda f: f["tiles_scanned"] / ISSUE,
            "counted_product": lambda f: f["tile_products"] / ISSUE,
            "loads_of_counting": lambda f: f["largest_task"] / THREADS * LOAD,
        },
    ),
    "multiplication_us": (
        lambda f: (4 if f["long_tile_products"] > 0 else 3) * LAUNCH
        + f["pairs"] * PAIR[f["precision"]]
        + 16 * (3 * f["tile_products"] + f["pairs"]) / L2
        + 8 * f["rows"] / READ
        + 8 * (f["rows"] + f["nonzeros_of_c"]) / WRITE,
        {
            "summing_scan": lambda f: f["scans"] / ISSUE,
            "summing_tile": lambda f: f["tiles_scanned"] / ISSUE,
            "long_pair": lambda f: long_pairs(f) / ISSUE,
            "loads_of_summing": lambda f: f["largest_task"] / THREADS * LOAD,
        }
        | {f"pair_in_{precision}": pair_in(precision) for precision in PRECISIONS},
    ),
}


def least_squares(rows, targets, rounds=3000):
    """The coefficients of least squares, none of them negative, by coordinate descent."""
    size = len(rows[0])
    gram = [[sum(r[i] * r[j] for r in rows) for j in range(size)] for i in range(size)]
    right = [sum(r[i] * t for r, t in zip(rows, targets)) for i in range(size)]
    found = [0.0] * size
    for _ in range(rounds):
        for i in range(size):
            rest = right[i] - sum(gram[i][j] * found[j] for j in range(size))
            found[i] = max(0.0, found[i] + rest / gram[i][i])
    return found


# The stages that are the whole product of a kernel; the other stages are those of tile_spgemm.
WHOLE = {"rows": "row_spgemm", "merge": "merge_spgemm"}


class Fit:
    """A fit of relative errors to the records of all matrices but one (`without`)."""

    def __init__(self, records, without=None):
        self.efforts = {
            stage: self._fit(stage, [r for r in records if r["matrix"] != without]) for stage in STAGES
        }

    def time_us(self, stage, record):
        base, terms = STAGES[stage]
        efforts = self.efforts[stage]
        return base(record) + sum(efforts[name] * term(record) for name, term in terms.items())

    def path_us(self, record):
        """The predicted time of the whole product by the record's kernel."""
        stages = [s for s in STAGES if WHOLE.get(s, "tile_spgemm") == record["kernel"]]
        return sum(self.time_us(stage, record) for stage in stages)

    @staticmethod
    def _fit(stage, records):
        base, terms = STAGES[stage]
        column = "pool_us" if stage in WHOLE else stage
        kernel = WHOLE.get(stage, "tile_spgemm")
        used = [r for r in records if r["kernel"] == kernel]
        rows = [[term(r) / r[column] for term in terms.values()] for r in used]
        targets = [1 - base(r) / r[column] for r in used]
        return dict(zip(terms, least_squares(rows, targets)))


def read(path):
    """The records with their numbers, by the names of the kernels' counts; 0 for a time that is absent."""
    with open(path, newline="", encoding="utf-8") as file:
        return [
            {
                COUNTS.get(k, k): v if k in ("matrix", "kernel", "precision") else float(v or 0)
                for k, v in row.items()
            }
            for row in csv.DictReader(file)
        ]


def left_one_out(records):
    """Yields (matrix, precision, [(record, time predicted by a fit without the matrix)]) for every choice."""
    for matrix in dict.fromkeys(r["matrix"] for r in records):
        fit = Fit(records, matrix)
        predicted = [(r, fit.path_us(r)) for r in records if r["matrix"] == matrix]
        for precision in ("fp32", *PRECISIONS):
            yield matrix, precision, [(r, us) for r, us in predicted if r["precision"] in ("fp32", precision)]


def main():
    default = Path(__file__).resolve().parent.parent / "experiments/results/spgemm/paths.csv"
    records = read(sys.argv[1] if len(sys.argv) > 1 else default)
    fit = Fit(records)
    for stage, efforts in fit.efforts.items():
        print(f"{stage}: " + ", ".join(f"{name} {value:.4g}" for name, value in efforts.items()))
    print("\nmatrix precision | path: predicted, measured with a pool, us | chosen | times the fastest: plain, pool")
    right, worst, errors, count = {"plain_us": 0, "pool_us": 0}, {"plain_us": 1.0, "pool_us": 1.0}, {}, 0
    for matrix, precision, predicted in left_one_out(records):
        chosen = min(predicted, key=lambda of: of[1])[0]
        losses = {time: chosen[time] / min(r[time] for r, _ in predicted) for time in right}
        for time, loss in losses.items():
            right[time] += loss == 1
            worst[time] = max(worst[time], loss)
        count += 1
        for r, us in predicted:
            if r["precision"] == precision:
                errors.setdefault(r["kernel"], []).append(abs(log(us / r["pool_us"])))
        paths = ", ".join(f"{r['kernel'].split('_')[0]} {us:.0f} {r['pool_us']:.0f}" for r, us in predicted)
        print(
            f"{matrix} {precision} | {paths} | {chosen['kernel']} | {losses['plain_us']:.3f} {losses['pool_us']:.3f}"
        )
    print(f"\nchoices of the fastest kernel, of {count}: plain {right['plain_us']}, pool {right['pool_us']}")
    print(f"largest time relative to the fastest kernel: plain {worst['plain_us']:.3f}, pool {worst['pool_us']:.3f}")
    for path, of_path in errors.items():
        print(f"{path}: geometric mean of the error {exp(sum(of_path) / len(of_path)):.2f} (factor)")


if __name__ == "__main__":
    main()
