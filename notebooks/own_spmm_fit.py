# %% [markdown]
# # A row of warps or a window of tiles?
# A plan for few products chooses between our own SpMM kernels by the formulas of `model/own_spmm.cpp`. This
# notebook fits their factors to measured times, and judges the choice for a matrix by a fit to all others.

# %%
"""Fits the factors of model/own_spmm.cpp to measured times, and tests the choice leave-one-out.

    TESSERA_DATA=FOLDER python3 notebooks/own_spmm_fit.py [experiments/results/spmm]

FOLDER has the matrices as .npz in CSR. Prints the factors of tessera_spmm and of rows_spmm in the order of
TileFactors and RowFactors; where units of rows_spmm are rows, the last two are zero, and those of tall_spmm
as TallFactors. Prints what the chosen kernels take, over the faster ones: the geometric mean
and the most, of the fit to all matrices and of the fits that leave out each matrix in turn.
"""

import csv
import needs  # noqa: F401  looks for a Python that has what follows
import os
import sys
from collections import defaultdict
from math import ceil
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares, nnls

WINDOW_ROWS, BLOCK_COLS, LONGEST = 16, 8, 32
TALL_ROWS, TALL_COLS = 64, 64
SHORT_ROW, WIDE_ROWS = 14, 3168  # of kernels/spmm/rows/schedule.hpp, as what follows
LONGEST_DIRECT, SHORT_DIRECT, STEP_NS, BYTES_OF_NS = 64, 16, 550, 9000
SAMPLED_NONZEROS = 1 << 19  # as product_counts() samples windows
CACHED = 45  # MB
WIDTHS = (32, 128, 512)
CASES = {  # table, what is appended to a kernel's name, bytes of an element
    "fp32": [("own_spmm.csv", "", 4)],
    "16 bits": [("own_spmm_16bit.csv", ", FP16", 2), ("own_spmm_16bit.csv", ", BF16", 2)],
}
START = {  # where the search begins
    "fp32": (3, 0.1, 0.3, 0.1, 0.01, 0.09, 0.11, 3.5, 0.06, 0.09, 0.5, 0.1, 0.01, 0.002)
    + (3, 0.05, 0.1, 0.3, 0.15),
    "16 bits": (2.8, 0.05, 0.35, 0.1, 0.01, 0.2, 0.12, 3.8, 0.035, 0.063, 0.69, 0.1, 0.01, 0.01)
    + (3, 0.04, 0.08, 0.4, 0.13),
}


def sampled(offsets, columns, cols, window_rows, block_cols):
    """Condensed columns and blocks of all windows by a sample of them, and the blocks of every window."""
    rows = len(offsets) - 1
    windows = -(-rows // window_rows)
    window = np.repeat(np.arange(rows), np.diff(offsets)) // window_rows
    different = np.bincount(np.unique(window * cols + columns) // cols, minlength=windows)
    nonzeros = np.bincount(window, minlength=windows)
    step = max(1, -(-len(columns) // SAMPLED_NONZEROS))
    sample = np.arange(windows) % step == step // 2
    scale = len(columns) / nonzeros[sample].sum()
    blocks = -(-different // block_cols)
    return scale * different[sample].sum(), scale * blocks[sample].sum(), blocks[np.argmax(nonzeros)]


def counts(path):
    """The numbers of product_counts() for a matrix."""
    with np.load(path) as file:
        offsets, columns = file["indptr"].astype(np.int64), file["indices"].astype(np.int64)
        rows, cols = (int(extent) for extent in file["shape"])
    different, blocks, longest = sampled(offsets, columns, cols, WINDOW_ROWS, BLOCK_COLS)
    return {
        "rows": rows,
        "cols": cols,
        "nonzeros": len(columns),
        "columns": different,
        "blocks": blocks,
        "tall_tiles": sampled(offsets, columns, cols, TALL_ROWS, TALL_COLS)[1],
        "longest": min(int(longest), LONGEST),
        "longest_row": int(np.diff(offsets).max()),
    }


def row_chunks(of, n):
    """Chunks of columns that rows_spmm computes one after another: its warps are wide for short rows."""
    if n <= 128 or of["nonzeros"] > SHORT_ROW * of["rows"] or of["rows"] < WIDE_ROWS:
        return 1 if n <= 64 else ceil(n / 128)
    return ceil(n / (256 if n <= 256 else 512))


def is_direct(of, n, element):
    """Whether units of rows_spmm are rows."""
    in_flight = 1 if element == 2 and n > 64 else 2
    if n <= 16 or of["longest_row"] > LONGEST_DIRECT or of["nonzeros"] > SHORT_DIRECT * of["rows"]:
        return False
    return STEP_NS * of["longest_row"] / in_flight <= of["nonzeros"] * n * element / BYTES_OF_NS


def features(of, n, element):
    """What the factors multiply, in the order of TileFactors, then of RowFactors."""
    chunks = 1 if n <= 64 else ceil(n / 128)
    megabytes = element * n / 1e6
    written, fetched, loaded = (megabytes * of[name] for name in ("rows", "columns", "nonzeros"))
    a = (8 * of["nonzeros"] + 4 * of["rows"]) / 1e6
    uncached = max(a + megabytes * (of["rows"] + of["cols"]) - CACHED, 0)
    rows, blocks = (of[name] * chunks / 1e3 for name in ("rows", "blocks"))
    of_rows = row_chunks(of, n)
    wide_rows, nonzeros = (of[name] * of_rows / 1e3 for name in ("rows", "nonzeros"))
    return (
        [1, fetched, written, uncached, rows, blocks, of["longest"]],
        [1, loaded, fetched, written, uncached, wide_rows, nonzeros],
    )


def tiles_us(factors, x):
    return x @ np.abs(factors)


def rows_us(factors, x, direct):
    """By the factors of cut rows, and by five more where units are rows."""
    f = np.abs(factors)

    def by(f):
        return np.maximum(f[1] * x[:, 1], f[2] * x[:, 2]) + x[:, [0, 3, 4, 5, 6]] @ f[[0, 3, 4, 5, 6]]

    return np.where(direct, by(np.append(f[7:], (0, 0))), by(f[:7]))


class Products:
    """Measured products of a storage: matrices, features and times of both kernels."""

    def __init__(self, folder, storage, of_matrix):
        found = defaultdict(dict)
        for table, suffix, element in CASES[storage]:
            with open(folder / table, newline="") as file:
                for r in csv.DictReader(file):
                    if r.get("l2", "warm") == "warm" and r["time_us"] and int(r["n"]) in WIDTHS:
                        found[r["matrix"], int(r["n"]), suffix, element][r["case"]] = float(r["time_us"])
        keys = [k for k, of in found.items() if {"tessera_spmm" + k[2], "rows_spmm" + k[2]} <= of.keys()]
        self.matrix = np.array([k[0] for k in keys])
        of_both = [features(of_matrix(k[0]), k[1], k[3]) for k in keys]
        self.direct = np.array([is_direct(of_matrix(k[0]), k[1], k[3]) for k in keys])
        self.tiles_x, self.rows_x = (np.array([x[kernel] for x in of_both], float) for kernel in (0, 1))
        self.tiles = np.array([found[k]["tessera_spmm" + k[2]] for k in keys])
        self.rows = np.array([found[k]["rows_spmm" + k[2]] for k in keys])

    def where(self, chosen):
        part = object.__new__(Products)
        for name, of_all in vars(self).items():
            setattr(part, name, of_all[chosen])
        return part

    def cost(self, factors):
        """The time of the chosen kernel over the faster one's, for each product."""
        takes_tiles = tiles_us(factors[:7], self.tiles_x) < rows_us(factors[7:], self.rows_x, self.direct)
        return np.where(takes_tiles, self.tiles, self.rows) / np.minimum(self.tiles, self.rows)


def fit(products, start, tries=6):
    """The factors of the least relative errors, where a wrong choice counts, too."""
    ratio = np.log(products.tiles / products.rows)
    weight = 20 * np.where((np.abs(ratio) > 0.09) & (np.abs(ratio) < 0.3), 0.5, np.abs(ratio))

    def residuals(factors):
        tiles = tiles_us(factors[:7], products.tiles_x)
        rows = rows_us(factors[7:], products.rows_x, products.direct)
        wrong = np.clip(0.01 - np.sign(ratio) * np.log(tiles / rows), 0, 0.3)
        return np.concatenate([np.log(tiles / products.tiles), np.log(rows / products.rows), weight * wrong])

    random = np.random.default_rng(0)
    start, found = np.array(start), []
    for i in range(tries):
        begin = start * np.exp(0.3 * random.standard_normal(len(start)) * (i > 0))
        found.append(least_squares(residuals, begin, x_scale=begin, loss="soft_l1"))
    return np.abs(min(found, key=lambda result: result.cost).x)


def tall_features(of, n, element):
    """What the factors of tall_spmm multiply, in the order of TallFactors."""
    chunks, megabytes = ceil(n / 128), element * n / 1e6
    a = (8 * of["nonzeros"] + 4 * of["rows"]) / 1e6
    uncached = max(a + megabytes * (of["rows"] + of["cols"]) - CACHED, 0)
    of_chunks = (chunks * of["tall_tiles"] / 1e3, chunks * of["nonzeros"] / 1e6)
    return [1, megabytes * of["rows"], uncached, *of_chunks]


def fit_tall(folder, of_matrix):
    """The factors of tall_spmm of the least squares of relative errors, and these errors."""
    x, times = [], []
    for table, suffix, element in CASES["16 bits"]:
        with open(folder / table, newline="") as file:
            for r in csv.DictReader(file):
                if r["case"] == "tall_spmm" + suffix and r["time_us"]:
                    x.append(tall_features(of_matrix(r["matrix"]), int(r["n"]), element))
                    times.append(float(r["time_us"]))
    relative = np.array(x) / np.array(times)[:, None]
    factors, _ = nnls(relative, np.ones(len(times)))
    return factors, relative @ factors - 1


def summary(cost):
    return f"{np.exp(np.log(cost).mean()):.4f} in the mean, {cost.max():.3f} at most"


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "experiments/results/spmm")
    data, known = Path(os.environ["TESSERA_DATA"]), {}

    def of_matrix(name):
        if name not in known:
            known[name] = counts(data / f"{name}.npz")
        return known[name]

    for storage in CASES:
        products = Products(folder, storage, of_matrix)
        factors = fit(products, START[storage])
        print(storage)
        print("  tessera_spmm:", *(f"{f:.4g}" for f in factors[:7]))
        print("  rows_spmm:   ", *(f"{f:.4g}" for f in factors[7:14]))
        print("  units are rows:", *(f"{f:.4g}" for f in factors[14:]))
        for kernel, us, measured in (
            ("tessera_spmm", tiles_us(factors[:7], products.tiles_x), products.tiles),
            ("rows_spmm", rows_us(factors[7:], products.rows_x, products.direct), products.rows),
        ):
            off = np.abs(us / measured - 1)
            print(f"  {kernel} is off by {100 * off.mean():.1f} % in the mean, {100 * off.max():.0f} % at most")
        print("  chosen over faster:", summary(products.cost(factors)))
        left_out = []
        for name in sorted(set(products.matrix)):
            others = fit(products.where(products.matrix != name), START[storage])
            left_out.extend(products.where(products.matrix == name).cost(others))
        print("  the same for a matrix left out:", summary(np.array(left_out)))
    factors, errors = fit_tall(folder, of_matrix)
    print("tall_spmm:", *(f"{f:.4g}" for f in factors))
    print(f"  off by {100 * np.abs(errors).mean():.1f} % in the mean, {100 * np.abs(errors).max():.0f} % at most")


if __name__ == "__main__":
    main()
