# %% [markdown]
# # When a reordering pays
# Finding and applying an order takes time once; every product is then a little faster. This
# notebook computes the number of products after which the saved time exceeds that price: an
# inference model that runs a million times and a solver of fifty steps have different answers.

# %%
"""Products after which a reordering has saved the time it took.

    python3 notebooks/reorder_pays.py RECORDS [FOLDER]

RECORDS is a folder of records of `tessera run reorder_pays`: products of one kernel in several
orders, modelled or measured, one of them none. Writes reorder_pays.csv, a line per matrix,
reordering, N and origin, and a heat map per origin and N, to FOLDER (default:
out/reorder_pays/figures).

    price = reorder_s + apply_s, once          saved = time before - time after, every product

Packing is not part of the price, since A is packed in either order. `products_restored` is the
number of products when C is needed in the order of the file: restoring its rows (unpermute_us) is
then part of every product. An empty number means that the products are not faster.
"""

import needs  # noqa: F401  looks for a Python that has what follows
import sys
from pathlib import Path

import heatmap
import pandas as pd

from figure import arguments, build, save, use_style
from figure_data import FigureError, check
from records import environment, read_table

CASE = ["matrix", "n", "kernel", "precision", "device", "origin"]  # equal before and after


# %%
def products(folder: Path) -> pd.DataFrame:
    """The products that have a time."""
    table = read_table(folder)
    table = table[(table["status"] == "ok") & (table["kernel"] != "") & table["time_us"].notna()]
    if table.empty:
        raise FigureError(f"{folder}: no product with a time has run ok")
    if table.duplicated([*CASE, "reorder"]).any():
        raise FigureError("a product is there twice: something else than its order differs")
    return table


def count(price_us: pd.Series, saved_us: pd.Series) -> pd.Series:
    """The price in units of a product's saving; empty where a product saves nothing."""
    return (price_us / saved_us).where(saved_us > 0)


def payback(table: pd.DataFrame) -> pd.DataFrame:
    """A table with a line per matrix, reordering, N and origin."""
    before = table.loc[table["reorder"] == "none", [*CASE, "time_us"]]
    after = table[table["reorder"] != "none"]
    both = after.merge(before, on=CASE, suffixes=("", "_before"))
    if both.empty:
        raise FigureError("no product is there both reordered and with reorder = none")
    # Modelled products have no time for restoring rows.
    price_us = 1e6 * (both["reorder_s"] + both["apply_s"])
    saved_us = both["time_us_before"] - both["time_us"]
    both = both.assign(
        price_s=1e-6 * price_us, speedup=both["time_us_before"] / both["time_us"],
        price_in_products=price_us / both["time_us_before"], products=count(price_us, saved_us),
        products_restored=count(price_us, saved_us - both["unpermute_us"].astype(float)))
    columns = ["matrix", "nnz", "reorder", "n", "kernel", "origin", "device", "reorder_threads",
               "price_s", "time_us_before", "time_us", "unpermute_us", "speedup",
               "price_in_products", "products", "products_restored"]
    return both[columns].sort_values(["origin", "n", "nnz", "matrix"],
                                     ascending=[True, True, False, True], kind="stable")


# %%
def draw(table: pd.DataFrame, where: str, folder: Path) -> None:
    """Draw a heat map per origin and N, with a row per reordering and a column per matrix."""
    use_style()
    for (origin, n), rows in table.groupby(["origin", "n"]):
        if rows["products"].notna().sum() == 0:
            continue
        matrices = list(dict.fromkeys(rows["matrix"]))
        series = []
        for name, cells in rows.groupby("reorder", sort=False):
            paid = cells.dropna(subset=["products"]).set_index("matrix")["products"]
            series.append({"name": name, "origin": origin, "points": [
                {"x": m, "y": float(paid[m]) if m in paid.index else None} for m in matrices]})
        figure_id = f"reorder_pays_{origin}_n{n:.0f}"
        description = {
            "schema": 1, "id": figure_id, "kind": "heatmap",
            "title": f"Products after which a reordering has paid, N = {n:.0f}",
            "caption": "(time to find the order + to apply it) / (product before - after). "
                       f"Products {origin}, preparation measured on the CPU. x: products became "
                       "no faster.",
            "x": {"label": "matrix", "scale": "category"},
            "y": {"label": "products", "scale": "log"}, "series": series,
            "provenance": where, "missing": []}
        print("wrote", *save(build(check(description, figure_id), heatmap.KIND), folder,
                             figure_id))


def main() -> int:
    """The command line."""
    if len(arguments()) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    records = Path(arguments()[0])
    folder = Path(arguments()[1] if len(arguments()) == 2 else "out/reorder_pays/figures")
    try:
        table = payback(products(records))
    except (FigureError, KeyError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / "reorder_pays.csv", index=False, float_format="%.6g", lineterminator="\n")
    paid = table.groupby(["origin", "n", "reorder"]).agg(
        matrices=("matrix", "size"), paying=("products", "count"), median=("products", "median"),
        speedup=("speedup", "median"))
    print("median number of products, over the matrices where it pays at all:")
    print(paid.to_string(float_format=lambda value: f"{value:.4g}"))
    draw(table, environment(records), folder)
    return 0


# %%
if __name__ == "__main__":
    sys.exit(main())
