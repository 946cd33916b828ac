# %% [markdown]
# # What does an order found on the GPU bring, and what does it take?
# A plan decides by the formulas of `model/matched_order.cpp` whether it looks for an order. This notebook fits
# their numbers to the orders of 24 matrices, and judges the decisions by the times of their products.

# %%
"""Fits the numbers of model/matched_order.cpp, and judges the decisions that they lead to.

    python3 notebooks/matched_order_fit.py [experiments/results]

Prints the numbers in the order of the model; then the error of the factor of filling where each matrix is
left out of the fit in turn, and those of the times; then, for numbers of products with N = 128, how many of
the matrices are ordered, and the time of preparation and products over that in the order of the file: of the
decisions, of the best ones, and of an order always. Decisions are by the formula of tessera_spmm
(model/own_spmm.cpp), without the longest task, which is the same in both orders.
"""

import csv
import needs  # noqa: F401  looks for a Python that has what follows
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

N, CACHED = 128, 45  # columns of B, MB
TILES = {"fetched": 0.1063, "written": 0.1633, "uncached": 0.09165, "rows": 0.0095, "blocks": 0.08185}
PRODUCTS = (21, 100, 300, 1000, 3000, 10_000, 100_000)


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


class Orders:
    """The matrices: nonzeros, rows, fetched rows of B and TC blocks in the order of the file (windows of 16
    rows), the factor by which the order fills rows, and times in microseconds."""

    def __init__(self, results):
        found = {}
        for r in table(results / "reorder/matched.csv"):
            of = found.setdefault(r["matrix"], {"nonzeros": float(r["nnz"])})
            if r["backend"] == "reorder":
                of["filled " + r["reorder"]] = float(r["nnz_of_fetched_row_16"])
                of["of block " + r["reorder"]] = float(r["mean_nnz_tc_16x8"])
        for r in table(results / "reorder/order_times.csv"):
            if r["time"] == "whole search":
                found[r["matrix"]]["order_us"] = float(r["us"])
        for r in table(results / "spmm/own_packing_few_launches.csv"):
            if r["case"] == "mosaic":
                found[r["matrix"]]["packing_us"] = float(r["pack_gpu_us"])
            if r["case"] == "CSR":  # 8 bytes a nonzero and a row
                found[r["matrix"]]["rows"] = float(r["footprint_bytes"]) / 8 - float(r["nnz"]) - 1
        for r in table(results / "reorder/matched_products.csv"):
            if r["kernel"] == "tessera_spmm":
                found[r["matrix"]]["product " + r["reorder"]] = float(r["time_us"])

        def column(name):
            return np.array([of[name] for of in found.values()])

        self.nonzeros, self.rows = column("nonzeros"), column("rows")
        self.filled = column("filled none")
        self.fetched, self.blocks = self.nonzeros / self.filled, self.nonzeros / column("of block none")
        self.factor = column("filled matched") / self.filled
        self.order_us, self.packing_us = column("order_us"), column("packing_us")
        self.file_us, self.ordered_us = column("product none"), column("product matched")


def fit_factor(filled, factor):
    """(c, e) of factor = c filled^e."""
    x = np.stack([np.ones_like(filled), np.log(filled)], axis=1)
    log_c, e = np.linalg.lstsq(x, np.log(factor), rcond=None)[0]
    return np.exp(log_c), e


def fit_time(x, us, start):
    """Positive factors of the columns of x with the least relative errors."""
    found = least_squares(lambda logs: np.log(x @ np.exp(logs) / us), np.log(start))
    return np.exp(found.x)


def order_terms(of):
    return np.stack([np.ones_like(of.rows), of.fetched, of.nonzeros * np.sqrt(of.nonzeros / of.rows)], axis=1)


def packing_terms(of):
    return np.stack([np.ones_like(of.rows), of.nonzeros, of.fetched], axis=1)


def error(predicted, measured):
    """The root mean square of relative errors, in logarithms."""
    return np.sqrt(np.mean(np.log(predicted / measured) ** 2))


def saved_us(of, factor):
    """What a product is expected to save."""
    megabytes = 4 * N / 1e6
    return (1 - 1 / factor) * (TILES["fetched"] * megabytes * of.fetched + TILES["blocks"] * of.blocks / 1e3)


def main():
    of = Orders(Path(sys.argv[1] if len(sys.argv) > 1 else "experiments/results"))
    c, e = fit_factor(of.filled, of.factor)
    order = fit_time(order_terms(of), of.order_us, (3000, 4e-3, 5e-4))
    packing = fit_time(packing_terms(of), of.packing_us, (45, 2e-5, 3e-5))
    print(f"kFilled {c:.4g}, kOfFilled {e:.4g}")
    print("kOrder {:.4g}, kOrderFetched {:.4g}, kOrderNonzero {:.4g}".format(*order))
    print("kPacking {:.4g}, kPackingNonzero {:.4g}, kPackingFetched {:.4g}".format(*packing))
    left_out = []
    for i in range(len(of.factor)):
        others = np.arange(len(of.factor)) != i
        of_others, exponent = fit_factor(of.filled[others], of.factor[others])
        left_out.append(of_others * of.filled[i] ** exponent)
    print(f"the factor, left out in turn: {error(np.array(left_out), of.factor):.3f}")
    order_us, packing_us = order_terms(of) @ order, packing_terms(of) @ packing
    print(f"the order: {error(order_us, of.order_us):.3f}, the least {np.min(order_us / of.order_us):.2f}")
    print(f"packing: {error(packing_us, of.packing_us):.3f}")

    saved = saved_us(of, np.maximum(1, c * of.filled**e))
    spent = of.order_us + of.packing_us
    for products in PRODUCTS:
        file_us = products * of.file_us
        # A plan keeps the order whose products are the faster ones.
        in_order_us = products * np.minimum(of.ordered_us, of.file_us) + spent

        def over_file(chosen, file_us=file_us, in_order_us=in_order_us):
            return np.where(chosen, in_order_us, file_us) / file_us

        def mean(ratios):
            return np.exp(np.mean(np.log(ratios)))

        chosen, best = products * saved > order_us + packing_us, in_order_us < file_us
        print(
            f"{products} products: {chosen.sum()} ordered, {best.sum()} would pay, {(chosen == best).sum()} of "
            f"{len(best)} decisions right; {mean(over_file(chosen)):.3f} of the file's time "
            f"({over_file(chosen).max():.3f} at most), best {mean(over_file(best)):.3f}, "
            f"always {mean(over_file(np.ones_like(chosen))):.3f}"
        )


if __name__ == "__main__":
    main()
