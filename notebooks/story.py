# %% [markdown]
# # What the quickstart found
# `experiments/quickstart` multiplies seven sparse matrices A with a dense B in four ways and writes
# one **record** per product, a line of JSON, to `out/quickstart/records.jsonl`. This notebook reads
# the records and explains what is in them. As a script it is
# `python3 notebooks/story.py [FOLDER]`; its figures go to `FOLDER/figures`.

# %%
"""The quickstart from records to figures."""

import json
import needs  # noqa: F401  looks for a Python that has what follows
import sys
from pathlib import Path
from typing import Any

import bars
import matplotlib.pyplot as plt
import pandas as pd

from figure import arguments, build, save, use_style
from figure_data import check
from records import environment, read_points, read_table


# %%
def records_folder() -> Path | None:
    """The folder on the command line, else out/quickstart here or one level up."""
    named = [Path(name) for name in arguments()[:1]]
    candidates = named or [Path("out/quickstart"), Path("../out/quickstart")]
    return next((path for path in candidates if any(path.glob("*.jsonl"))), None)


def draw(table: pd.DataFrame, name: str, title: str, y: str, label: str, series: str,
         origin: str = "", scale: str = "linear", **more: Any) -> None:
    """Bars of column y per matrix and value of column `series`, into FOLDER/figures.

    The figures of a paper come from `tessera figure`, which selects, reduces and normalises. Here
    rows are drawn as they are, through the same checked description and the same style.
    """
    target = folder / "figures"
    target.mkdir(exist_ok=True)
    count = table["matrix"].nunique()
    ns = [f"{n:g}" for n in sorted(table["n"].dropna().unique())]
    description = {
        "schema": 1, "id": name, "kind": "bars", "title": title,
        "x": {"label": "matrix", "scale": "category"}, "y": {"label": label, "scale": scale},
        "series": [{"name": str(key), "origin": origin or group["origin"].iloc[0],
                    "points": [{"x": x, "y": value} for x, value in zip(group["matrix"], group[y])]}
                   for key, group in table.groupby(series, sort=False)],
        "facts": f"{count} {'matrix' if count == 1 else 'matrices'}, N = {', '.join(ns)}.",
        "provenance": environment(folder), **more,
    }
    figure = build(check(description, name), bars.KIND)
    print("wrote", *save(figure, target, name))
    if "ipykernel" in sys.modules:
        plt.show()
    plt.close(figure)


use_style()
pd.set_option("display.width", 120, "display.max_columns", 20, "display.precision", 4)
folder = records_folder()
if folder is None:
    print(f"{(arguments() or ['out/quickstart'])[0]}: no records (*.jsonl) here. Write them with\n"
          "  build/tessera run quickstart", file=sys.stderr)
    sys.exit(2)

# %% [markdown]
# ## One record
# A **point** is one combination of matrix, order, format, kernel, width N of B and device. Its
# record holds the parameters with every default filled in (`params`), what A is (`matrix`), and
# what was found. `point_id` is the hash of all that can change the result: a second run finds the
# id and skips the point. This is the first one:

# %%
points = read_points(folder)
print(json.dumps(points[0], indent=1)[:1800], "...")

# %% [markdown]
# ## Where the numbers come from
# Every record names its **origin**. *emulated*: the CPU computed the same bits as the GPU kernel
# would, so C and its errors are real, but there is no time. *modelled*: a formula predicted the
# time from the work of the kernel and the description of a device, and nothing was computed. Only
# records of the `gpu` backend are *measured*. `status` is `ok`, or says what went wrong.

# %%
table = read_table(folder)
print(table.groupby(["origin", "status"]).size())
for _, bad in table[table["status"] != "ok"].iterrows():
    print(f"{bad['status']}: {bad['matrix']} with {bad['kernel']}: {bad['reason']}")

device = table["device"].iloc[0]
here = table[(table["status"] == "ok") & (table["device"] == device)]
table_of_matrices = here.drop_duplicates("matrix")[["matrix", "rows", "nnz"]]
print(table_of_matrices.to_string(index=False))

# %% [markdown]
# ## Is it right? The error and its bound
# C is compared with a product in fp64. SMAPE is the mean relative error in percent: about 1e-5 for
# FP32 on CUDA cores, a few hundredths for TF32 on tensor cores, which keep 10 of 23 fraction bits.
# Truncating the inputs (`tf32_raw`) instead of rounding them (`tf32`) increases it by a quarter or
# more.
#
# SMAPE cannot say whether a product is *right*. `bound_ratio` can: it is the largest error of an
# element divided by the bound that follows from the kernel's arithmetic (how operands are rounded,
# how many terms a row sums). Above 1 the product is wrong. Where one term decides a sum, the bound
# is nearly reached: rmat has rows of one nonzero, Trefethen a large diagonal. In long rows of
# similar terms most rounding errors cancel.

# %%
emulated = here[(here["origin"] == "emulated") & (here["reorder"] == "none")].copy()
emulated["way"] = (emulated["kernel"] + " " + emulated["precision"]).str.strip()
if not emulated.empty:
    print(emulated.groupby("way", sort=False)[["smape_pct", "bound_ratio"]].max())
    draw(emulated, "story_error", f"Largest error over its bound, {device}", "bound_ratio",
         "error / bound", "way", reference={"y": 1.0, "label": "bound"})

# %% [markdown]
# ## The work of tensor cores: nonzeros per TC block
# `acc_spmm` cuts A into windows of eight rows, drops the columns that are empty in a window, and
# multiplies the rest in 8 x 8 tiles, TC blocks. A tile costs the same for any number of nonzeros,
# so the order of the rows matters: shuffled, the elasticity matrix has a quarter of its nonzeros
# per tile. Reverse Cuthill-McKee (`rcm`) finds an order nearly as good as the original one, without
# having seen it. These numbers are counted, not predicted.

# %%
predicted = here[here["origin"] == "modelled"]
tiled = predicted[predicted["mean_nnz_tc"].notna() & (predicted["precision"] != "tf32_raw")]
if not tiled.empty:
    print(tiled.pivot(index="matrix", columns="reorder", values="mean_nnz_tc"))
    draw(tiled, "story_tiles", "Nonzeros per TC block", "mean_nnz_tc", "nonzeros per TC block",
         "reorder", origin="counted")

# %% [markdown]
# ## How fast may it be? The roofline
# The roofline predicts the time of the slowest part: moving each operand through device memory once
# (nothing, when all of it fits in the L2 cache), serving the requests of the thread blocks from L2,
# computing, or launching. The parts of one prediction, each with its reason:

# %%
for record in points:
    if record["origin"] == "modelled" and record["params"]["kernel"]["name"] == "acc_spmm":
        print(record["params"]["matrix"], "on", record["params"]["device"])
        for part in record["prediction"]["parts"]:
            print(f"  {part['name']:14} {part['time_us']:8.2f} us   {part['reason']}")
        break

# %% [markdown]
# GFLOP/s are 2 nnz N divided by that time: padding is no work. These values are not measured, so
# the bars are hatched and the legend says *modelled*. They are the limits of the device; a real
# kernel is slower, and a measurement on a GPU shows by how much.

# %%
speed = predicted[(predicted["precision"] != "tf32_raw") & predicted["gflops"].notna()].copy()
if not speed.empty:
    by_hand = 2 * speed["nnz"] * speed["n"] / (1e3 * speed["time_us"])
    assert (abs(by_hand / speed["gflops"] - 1) < 1e-9).all(), "GFLOP/s are not 2 nnz N / time"
    speed["way"] = speed["kernel"] + ", order " + speed["reorder"]
    print(speed.pivot(index="matrix", columns="way", values="gflops").round())
    draw(speed, "story_roofline", f"Roofline on {device}", "gflops", "GFLOP/s", "way")

# %% [markdown]
# ## From here
# `build/tessera list kernels` (or formats, reorderings, models, devices) lists the variants;
# `experiments/configs/quickstart.toml` is the experiment to copy and change;
# `experiments/adding.md` shows how to add a variant of your own. On a machine with a GPU,
# `build/tessera run quickstart --backend gpu` adds measured records to the same folder.
