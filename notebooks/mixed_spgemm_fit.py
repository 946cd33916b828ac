# %% [markdown]
# # By rows, by merging or by tiles?
# `mixed_spgemm` asks a model (`model/mixed_spgemm.hpp`) which of three kernels makes C = A A sooner. What a
# device file does not tell of its time (instructions, loads that wait for each other, host waits) is fitted
# here. How good the choice is for a matrix is told by a fit that has not seen it.

# %%
"""The numbers of model/mixed_spgemm.hpp (Effort) from measured times, and the choice left-one-out.

    python3 notebooks/mixed_spgemm_fit.py [experiments/results/spgemm/paths.csv]

Prints the fitted numbers, then for every matrix and precision both predictions of a fit without that
matrix, which kernel they choose, and how much longer it takes than the faster one.
"""

import csv
import sys
from math import exp, log
from pathlib import Path

# One H200, model/devices/h200.toml, in microseconds.
ISSUE = 132 * 3.876 * 1980  # instructions of warps
READ, WRITE, L2 = 4581e3, 4616e3, 8940e3  # bytes
LOAD = 281.2 / 1980  # time of a load that the next one waits for
LAUNCH = 3.656  # time of a launch
PAIR = {"tf32x3": 2 * 2048 / 321e6, "tf32": 2048 / 321e6, "fp16": 2048 / 642.7e6}  # its MMAs

# By stage: what the device file tells of its time, and the terms that are fitted, each with its time
# for an effort of one. The same as model/mixed_spgemm.cpp for a square.
STAGES = {
    "rows": (
        lambda f, _: 27 * LAUNCH + 8 * f["products"] / L2 + 8 * f["nonzeros_of_c"] / WRITE + 8 * f["nonzeros"] / READ,
        {
            "wait_of_rows_us": lambda _: 3,
            "product": lambda f: f["products"] / ISSUE,
            "nonzero_of_c": lambda f: f["nonzeros_of_c"] / ISSUE,
            "nonzero_of_a": lambda f: f["nonzeros"] / ISSUE,
        },
    ),
    "merge": (
        lambda f, _: 10 * LAUNCH
        + 16 * f["products"] / L2
        + 8 * f["nonzeros_of_c"] / WRITE
        + 16 * f["nonzeros"] / READ,
        {
            "wait_of_merge_us": lambda _: 2,
            "merged_column": lambda f: f["merged_columns"] / ISSUE,
        },
    ),
    "tiles_us": (
        lambda f, _: 4 * LAUNCH + 16 * f["nonzeros"] / READ + (8 * f["nonzeros"] + 40 * f["tiles"]) / WRITE,
        {
            "loads_of_nonzero": lambda f: f["longest_warp"] * LOAD,
            "loads_of_tile": lambda f: f["longest_tile_row"] * LOAD,
            "converted_nonzero": lambda f: f["nonzeros"] / ISSUE,
            "converted_tile": lambda f: f["tiles"] / ISSUE,
        },
    ),
    "tasks_us": (
        lambda f, _: 3 * LAUNCH + 8 * f["tiles"] / L2,
        {
            "wait_of_tasks_us": lambda _: 1,
            "tile_row_as_task": lambda f: f["rows"] / 8 / ISSUE,
            "tile_as_task": lambda f: f["tiles"] / ISSUE,
        },
    ),
    "tiles_of_c_us": (
        lambda f, _: 10 * LAUNCH + 4 * f["tile_products"] / L2,
        {"wait_of_tiles_us": lambda _: 1, "counted_tile": lambda f: f["tiles_of_c"] / ISSUE},
    ),
    "pairs_us": (
        lambda f, _: 6 * LAUNCH + 20 * f["tile_products"] / L2 + 8 * f["pairs"] / WRITE,
        {
            "tile_product": lambda f: f["tile_products"] / ISSUE,
            "listed_tile": lambda f: f["tiles_of_c"] / ISSUE,
            "loads_of_tile_products": lambda f: f["largest_tile_products"] / 32 * LOAD,
        },
    ),
    "cells_us": (
        lambda f, _: 4 * LAUNCH + 24 * f["pairs"] / L2 + 40 * f["tiles_of_c"] / WRITE,
        {
            "wait_of_cells_us": lambda _: 1,
            "pair_in_cells": lambda f: f["pairs"] / ISSUE,
            "tile_in_cells": lambda f: f["tiles_of_c"] / ISSUE,
        },
    ),
    "multiplication_us": (
        lambda f, p: LAUNCH + f["pairs"] * PAIR[p] + 40 * f["pairs"] / L2 + 8 * f["nonzeros_of_c"] / WRITE,
        {"pair": lambda f: f["pairs"] / ISSUE, "tile_of_c": lambda f: f["tiles_of_c"] / ISSUE},
    ),
}


def least_squares(rows, targets, rounds=3000):
    """Coefficients, none of them negative, by coordinate descent."""
    size = len(rows[0])
    gram = [[sum(r[i] * r[j] for r in rows) for j in range(size)] for i in range(size)]
    right = [sum(r[i] * t for r, t in zip(rows, targets)) for i in range(size)]
    found = [0.0] * size
    for _ in range(rounds):
        for i in range(size):
            rest = right[i] - sum(gram[i][j] * found[j] for j in range(size))
            found[i] = max(0.0, found[i] + rest / gram[i][i])
    return found


# The stages that are a kernel's whole product; the others are tile_spgemm's.
WHOLE = {"rows": "row_spgemm", "merge": "merge_spgemm"}


class Fit:
    """Fitted to the records of all matrices but one; relative errors count."""

    def __init__(self, records, without=None):
        self.records = [r for r in records if r["matrix"] != without]
        self.known = {}

    def efforts(self, stage, precision):
        """By name. Only the multiplication has other ones for another precision."""
        key = stage, precision if stage == "multiplication_us" else None
        if key not in self.known:
            self.known[key] = self._fit(*key)
        return self.known[key]

    def time_us(self, stage, record, precision):
        base, terms = STAGES[stage]
        efforts = self.efforts(stage, precision)
        return base(record, precision) + sum(efforts[name] * term(record) for name, term in terms.items())

    def rows_us(self, record):
        return self.time_us("rows", record, None)

    def tiles_us(self, record):
        return sum(self.time_us(stage, record, record["precision"]) for stage in STAGES if stage not in WHOLE)

    def _fit(self, stage, precision):
        base, terms = STAGES[stage]
        column = "pool_us" if stage in WHOLE else stage
        kernel = WHOLE.get(stage, "tile_spgemm")
        used = [
            r
            for r in self.records
            if r["kernel"] == kernel and r[column] and precision in (None, r["precision"])
        ]
        rows = [[term(r) / r[column] for term in terms.values()] for r in used]
        targets = [1 - base(r, r["precision"]) / r[column] for r in used]
        return dict(zip(terms, least_squares(rows, targets)))


def read(path):
    """Records with their numbers; 0 for a time that there is none of."""
    with open(path, newline="", encoding="utf-8") as file:
        return [
            {k: v if k in ("matrix", "kernel", "precision") else float(v or 0) for k, v in row.items()}
            for row in csv.DictReader(file)
        ]


def left_one_out(records):
    """(record, row_spgemm's record, predicted by rows, predicted by tiles) of every choice."""
    by_rows = {r["matrix"]: r for r in records if r["kernel"] == "row_spgemm"}
    fits = {name: Fit(records, name) for name in by_rows}
    for r in records:
        if r["kernel"] == "tile_spgemm" and r["matrix"] in by_rows:
            fit = fits[r["matrix"]]
            yield r, by_rows[r["matrix"]], fit.rows_us(r), fit.tiles_us(r)


def main():
    default = Path(__file__).resolve().parent.parent / "experiments/results/spgemm/paths.csv"
    records = read(sys.argv[1] if len(sys.argv) > 1 else default)
    fit = Fit(records)
    for stage in STAGES:
        for precision in ("fp16", "tf32", "tf32x3") if stage == "multiplication_us" else (None,):
            efforts = ", ".join(f"{name} {value:.4g}" for name, value in fit.efforts(stage, precision).items())
            print(f"{stage} {precision or ''}: {efforts}")
    print("\nmatrix precision | rows, us: predicted, measured | tiles | chosen | times the faster: plain, pool")
    right, worst, errors, count = {"plain_us": 0, "pool_us": 0}, 1.0, {"rows": [], "tiles": []}, 0
    for tiles, rows, rows_us, tiles_us in left_one_out(records):
        chosen, other = (rows, tiles) if rows_us <= tiles_us else (tiles, rows)
        losses = {}
        for time in right:
            losses[time] = chosen[time] / min(chosen[time], other[time])
            right[time] += losses[time] == 1
        worst = max(worst, *losses.values())
        count += 1
        errors["rows"].append(abs(log(rows_us / rows["pool_us"])))
        errors["tiles"].append(abs(log(tiles_us / tiles["pool_us"])))
        print(
            f"{tiles['matrix']} {tiles['precision']} | {rows_us:.0f} {rows['pool_us']:.0f} | {tiles_us:.0f} "
            f"{tiles['pool_us']:.0f} | {chosen['kernel']} | {losses['plain_us']:.3f} {losses['pool_us']:.3f}"
        )
    print(f"\nthe faster one: plain {right['plain_us']}, pool {right['pool_us']} of {count}; worst loss {worst:.3f}")
    for path, of_path in errors.items():
        print(f"{path}: off by a factor of {exp(sum(of_path) / len(of_path)):.2f} in the geometric mean")


if __name__ == "__main__":
    main()
