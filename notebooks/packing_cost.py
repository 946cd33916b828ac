# %% [markdown]
# # The cost of packing, in products
# A format pays when the products that it speeds up outweigh its packing. The unit is one product:
# the fastest SpMM that was measured for the matrix on the same GPU, right after packing.

# %%
"""Time to pack on a GPU, in units of the fastest SpMM of the same matrix.

    python3 notebooks/packing_cost.py PACKINGS PRODUCTS [FOLDER]

PACKINGS and PRODUCTS are folders of records: points of the backend pack_gpu, and points of the
backend gpu, of one width of B. Prints the geometric mean of every format over the matrices with at
least 400,000 nonzeros, and writes packing_cost.csv and its heat map to FOLDER (default:
out/packing_cost).
"""

import csv
import needs  # noqa: F401  looks for a Python that has what follows
import sys
from math import exp, log
from pathlib import Path

import heatmap
import pandas as pd

from figure import arguments, build, save, use_style
from figure_data import FigureError, check
from records import environment, read_table

LARGE = 400_000  # nonzeros from which launches no longer decide


# %%
def measured(folder: Path) -> pd.DataFrame:
    """The points that ran on a GPU and gave a correct result."""
    table = read_table(folder)
    return table[(table["origin"] == "measured") & (table["status"] == "ok")]


def packing_costs(packings: pd.DataFrame, products: pd.DataFrame) -> pd.DataFrame:
    """Table of matrix, nnz, format, pack_us, spmm_us, fastest kernel and spmms = pack_us / spmm_us;
    matrices without a product are omitted."""
    if products["n"].nunique() != 1:
        raise FigureError(f"the products have {products['n'].nunique()} widths of B, not one")
    fastest = products.loc[products.groupby("matrix")["time_us"].idxmin()]
    costs = packings.merge(fastest[["matrix", "time_us", "kernel"]], on="matrix",
                           suffixes=("", "_spmm"))
    costs = costs.rename(columns={"time_us": "pack_us", "time_us_spmm": "spmm_us",
                                  "kernel_spmm": "fastest"})
    costs["spmms"] = costs["pack_us"] / costs["spmm_us"]
    columns = ["matrix", "nnz", "format", "pack_us", "spmm_us", "fastest", "spmms"]
    return costs[columns].sort_values(["nnz", "matrix"], ascending=[False, True], kind="stable")


def geometric_mean(values: "pd.Series[float]") -> float:
    """The geometric mean of positive values."""
    return exp(sum(log(value) for value in values) / len(values))


def means(costs: pd.DataFrame) -> "pd.Series[float]":
    """The geometric mean of `spmms` over the large matrices by format, ascending."""
    large = costs[costs["nnz"] >= LARGE]
    return large.groupby("format")["spmms"].agg(geometric_mean).sort_values()


# %%
def draw(costs: pd.DataFrame, order: list[str], n: int, where: str, folder: Path) -> None:
    """Draw a heat map with a row per matrix and a column per format."""
    series = []
    for matrix, cells in costs.groupby("matrix", sort=False):
        spmms = dict(zip(cells["format"], cells["spmms"]))
        series.append({"name": matrix, "origin": "measured", "points":
                       [{"x": name, "y": spmms[name]} for name in order if name in spmms]})
    description = {
        "schema": 1, "id": "packing_cost", "kind": "heatmap",
        "title": "Packing on the GPU, in SpMMs",
        "caption": f"Time to pack / time of the fastest SpMM measured, N = {n}. A is in CSR on the "
                   "GPU; allocations from a warm pool included. Order of the file.",
        "x": {"label": "format", "scale": "category"},
        "y": {"label": "SpMMs", "scale": "log"}, "series": series,
        "provenance": where, "missing": []}
    use_style()
    print("wrote", *save(build(check(description, "packing_cost"), heatmap.KIND), folder,
                         "packing_cost"))


def main() -> int:
    """The command line."""
    if len(arguments()) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments()[2] if len(arguments()) == 3 else "out/packing_cost")
    folder.mkdir(parents=True, exist_ok=True)
    products = measured(Path(arguments()[1]))
    costs = packing_costs(measured(Path(arguments()[0])), products)
    with open(folder / "packing_cost.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(costs.columns)
        for row in costs.itertuples(index=False):
            writer.writerow(f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row)
    by_format = means(costs)
    print(f"geometric mean over the matrices with at least {LARGE:,} nonzeros, in SpMMs:")
    for name, mean in by_format.items():
        print(f"{name:>28} {mean:8.2f}")
    draw(costs, list(by_format.index), int(products["n"].iloc[0]),
         environment(Path(arguments()[0])), folder)
    return 0


# %%
if __name__ == "__main__":
    sys.exit(main())
