# %% [markdown]
# # Quality against time
# The value of a reordering is the time that it saves in products, less its own. This figure shows
# both: the gain in nonzeros per TC block, and the cost in nanoseconds per nonzero. A point to the
# lower right of another one is inferior to it.

# %%
"""Gain in nonzeros per TC block against the time to find the order, one point per reordering.

    python3 notebooks/reorder_quality.py RECORDS [FOLDER]

RECORDS is a folder of records of the backend reorder, as `tessera run reorder_quality` leaves it.
Prints the geometric means over the matrices that every reordering has finished, separately for
shuffled matrices and those in the order of their files, and writes reorder_quality.csv and its
figure to FOLDER (default: out/reorder_quality/figures).
"""

import needs  # noqa: F401  looks for a Python that has what follows
import sys
from math import exp, log
from pathlib import Path

import pandas as pd
import scatter

from figure import arguments, build, save, use_style
from figure_data import FigureError, check
from records import environment, read_table


# %%
def geometric_mean(values: "pd.Series[float]") -> float:
    """The geometric mean of positive values."""
    return exp(sum(log(value) for value in values) / len(values))


def measured(folder: Path) -> pd.DataFrame:
    """The orders that were found, with all threads, and their tiles."""
    table = read_table(folder)
    table = table[(table["backend"] == "reorder") & (table["status"] == "ok")]
    if table.empty:
        raise FigureError(f"{folder}: no point of the backend reorder has run ok")
    # read_table has removed the parameters of a generator with a single matrix.
    return table.assign(shuffled=table["matrix"].str.match(r"shuffle(\(|$)"))


def in_common(table: pd.DataFrame) -> pd.DataFrame:
    """The matrices that every reordering has finished, so that all means are over the same ones."""
    counts = table.groupby("matrix")["reorder"].nunique()
    return table[table["matrix"].map(counts) == table["reorder"].nunique()]


def means(table: pd.DataFrame) -> pd.DataFrame:
    """Table of shuffled, reorder, gain, ns_per_nnz, bytes_per_nnz and matrices: geometric means by
    reordering, the median for bytes_per_nnz."""
    if table.duplicated(["matrix", "reorder"]).any():
        raise FigureError("a matrix has a reordering twice: parameters or threads differ")
    before = table[table["reorder"] == "none"].set_index("matrix")["mean_nnz_tc_8x8"]
    if before.empty:
        raise FigureError("there are no points with reorder = none to compare with")
    table = table.assign(gain=table["mean_nnz_tc_8x8"] / table["matrix"].map(before),
                         ns_per_nnz=1e3 * table["time_us"] / table["nnz"],
                         bytes_per_nnz=table["reorder_peak_bytes"] / table["nnz"])
    found = []
    for shuffled, of_kind in table.groupby("shuffled"):
        common = in_common(of_kind)
        for name, rows in common.groupby("reorder", sort=False):
            found.append({"shuffled": bool(shuffled), "reorder": name,
                          "gain": geometric_mean(rows["gain"]),
                          "ns_per_nnz": geometric_mean(rows["ns_per_nnz"]),
                          "bytes_per_nnz": rows["bytes_per_nnz"].median(), "matrices": len(rows)})
    if not found:
        raise FigureError("no matrix has an order by every reordering")
    return pd.DataFrame(found).sort_values(["shuffled", "gain"], ascending=False, kind="stable")


# %%
def draw(table: pd.DataFrame, where: str, folder: Path) -> None:
    """Draw a panel for shuffled matrices and one for the others."""
    panels = []
    for shuffled, rows in table.groupby("shuffled", sort=False):
        start = "shuffled" if shuffled else "in the order of the file"
        series = [{"name": row.reorder, "origin": "measured",
                   "points": [{"x": row.ns_per_nnz, "y": row.gain}]}
                  for row in rows.itertuples() if row.reorder != "none"]
        panels.append({"title": f"{rows['matrices'].iloc[0]} matrices, {start}", "series": series})
    description = {
        "schema": 1, "id": "reorder_quality", "kind": "scatter",
        "title": "Gain and cost of reorderings",
        "caption": "MeanNNZTC (8 x 8) after / before, and time to find the order; geometric means.",
        "x": {"label": "ns per nonzero", "scale": "log"},
        "y": {"label": "times as many nonzeros per TC block", "scale": "log"}, "panels": panels,
        "reference": {"y": 1.0, "label": "before"}, "provenance": where, "missing": []}
    use_style()
    print("wrote", *save(build(check(description, "reorder_quality"), scatter.KIND), folder,
                         "reorder_quality"))


def main() -> int:
    """The command line."""
    if len(arguments()) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    records = Path(arguments()[0])
    folder = Path(arguments()[1] if len(arguments()) == 2 else "out/reorder_quality/figures")
    try:
        table = means(measured(records))
    except (FigureError, KeyError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / "reorder_quality.csv", index=False, float_format="%.6g",
                 lineterminator="\n")
    print(table.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    draw(table, environment(records), folder)
    return 0


# %%
if __name__ == "__main__":
    sys.exit(main())
