# %% [markdown]
# # What the quickstart found
# The quickstart multiplies a few small matrices and writes one **record** per attempt, a line of
# JSON, to `out/quickstart/*.jsonl`. This notebook reads the records with pandas and draws from
# them. As a script: `python3 notebooks/story.py [FOLDER]`; the figures go to `FOLDER/figures`.

# %%
"""The quickstart from records to figures."""

import json
import sys
from pathlib import Path
from typing import Any, Optional

import matplotlib.pyplot as plt
import pandas as pd

import bars
import lines
from figure import Kind, arguments, build, save, use_style
from figure_data import ORIGINS, check


# %% [markdown]
# ## Where the records live
# One file per run or shard. Lines are only ever appended, so a run that was cut short may leave a
# last line that is half written: it is ignored. A broken line elsewhere is an error.

# %%
def records_folder() -> Optional[Path]:
    """The folder on the command line, else out/quickstart here or one level up."""
    named = [Path(name) for name in arguments()[:1]]
    candidates = named or [Path("out/quickstart"), Path("../out/quickstart")]
    return next((path for path in candidates if any(path.glob("*.jsonl"))), None)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of one file, without a truncated last line."""
    texts = path.read_text(encoding="utf-8").split("\n")
    records = []
    for number, text in enumerate(texts, start=1):
        try:
            records += [json.loads(text)] if text.strip() else []
        except ValueError as error:
            if number < len(texts):
                raise ValueError(f"{path}:{number}: not a record: {error}") from error
    return records


# %% [markdown]
# ## One record, one row
# A **point** is one resolved combination of matrix, reordering, format, kernel, width N and
# device; `point_id` is its hash, and running it again replaces its record. The **origin** says
# where the numbers come from: *measured* on a GPU, *modelled* by a formula, *simulated* access by
# access, or *emulated*: the CPU computes the same values as the kernel, and no time.
# The **check** compares C with the fp64 oracle.

# %%
def row(record: dict[str, Any]) -> dict[str, Any]:
    """The columns used below; the only place that knows the field names of a record."""
    params, matrix = record.get("params", {}), record.get("matrix", {})
    check_part, time = record.get("check") or {}, record.get("time") or {}
    if isinstance(matrix, str):
        matrix = {"name": matrix}
    return {
        "point": record["point_id"],
        "origin": record["origin"],
        "status": record["status"],
        "reason": record.get("reason") or "",
        "matrix": matrix.get("name"),
        "nnz": matrix.get("nnz"),
        "kernel": params.get("kernel"),
        "reorder": params.get("reorder"),
        "n": params.get("n"),
        "device": params.get("device"),
        "model": params.get("model"),
        "median_us": time.get("median_us"),
        "gflops": record.get("gflops"),
        "smape_pct": check_part.get("smape_pct"),
        "bound_ratio": check_part.get("bound_ratio"),
    }


def read_table(folder: Path) -> pd.DataFrame:
    """All records of a folder, the newest of each point and origin; `env` lines are skipped."""
    records = [r for path in sorted(folder.glob("*.jsonl")) for r in read_lines(path)]
    table = pd.DataFrame([row(r) for r in records if "point_id" in r],
                         columns=list(row({"point_id": "", "origin": "", "status": ""})))
    return table.drop_duplicates(["point", "origin"], keep="last").reset_index(drop=True)


# %% [markdown]
# ## From rows to a figure
# The figures of a paper come from `tessera figure`, which also reduces and normalises. Here the
# rows are drawn as they are, through the same checked figure description and the same style.

# %%
def points(group: pd.DataFrame, y: str) -> list[dict[str, Any]]:
    """One point per matrix; a value that is not there stays null."""
    best = group.dropna(subset=[y]).drop_duplicates("matrix")
    known = dict(zip(best["matrix"], best[y]))
    return [{"x": m, "y": float(known[m]) if m in known else None}
            for m in dict.fromkeys(group["matrix"])]


def describe(table: pd.DataFrame, name: str, kind: Kind, y: str, title: str, label: str,
             series: str, **more: Any) -> dict[str, Any]:
    """A figure description with one series per value of the column `series` and origin."""
    groups = table.groupby([series, "origin"], sort=False)
    return {
        "schema": 1, "id": name, "kind": kind.name, "title": title,
        "x": {"label": "matrix", "scale": "category"}, "y": {"label": label, "scale": "log"},
        "series": [{"name": str(key), "origin": origin, "points": points(group, y)}
                   for (key, origin), group in groups],
        "provenance": f"{len(table)} records of the quickstart", **more,
    }


def show(description: dict[str, Any], kind: Kind, folder: Path) -> None:
    """Draw one description into folder/figures, and on screen in a notebook."""
    target = folder / "figures"
    target.mkdir(exist_ok=True)
    figure = build(check(description, description["id"]), kind)
    print("wrote", *save(figure, target, description["id"]))
    if "ipykernel" in sys.modules:
        plt.show()
    plt.close(figure)


# %% [markdown]
# ## Is it right? The error against the bound
# `bound_ratio` is the largest error of an element divided by the bound derived for it (format,
# length of the sum, size of the summands). Above 1 the product is wrong, whatever SMAPE says;
# far below 1 the bound is loose, as rounding errors mostly cancel.

# %%
def show_errors(table: pd.DataFrame, folder: Path) -> None:
    """The bound ratio of each kernel and matrix, at one N and one reordering."""
    checked = table[(table["status"].isin(["ok", "wrong"])) & (table["bound_ratio"] > 0)]
    if checked.empty:
        print("no record has an error check above zero")
        return
    print(checked.groupby(["kernel", "origin"])[["smape_pct", "bound_ratio"]].max())
    show(describe(first_setting(checked), "story_error", lines.KIND, "bound_ratio",
                  "Largest error over its bound", "error / bound", "kernel",
                  reference={"y": 1.0, "label": "bound"}), lines.KIND, folder)


def first_setting(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that share the first row's N and reordering: a figure must not mix them."""
    first = table.iloc[0]
    same = pd.Series(True, index=table.index)
    for column in ("n", "reorder"):
        if pd.notna(first[column]):
            same &= table[column] == first[column]
    return table[same]


# %% [markdown]
# ## How fast should it be? The roofline per device
# The roofline divides the work by the slower of two rates of the device: bytes by its memory
# bandwidth, operations by its arithmetic peak. It is a prediction: the bars are hatched and the
# legend says *modelled*.

# %%
def show_roofline(table: pd.DataFrame, folder: Path) -> None:
    """Predicted GFLOP/s per matrix, one series per device, one figure per kernel."""
    predicted = table[(table["origin"] == "modelled") & (table["gflops"] > 0)
                      & (table["model"].isna() | (table["model"] == "roofline"))
                      & table["device"].notna()]
    for kernel, group in predicted.groupby("kernel", sort=False):
        show(describe(first_setting(group), f"story_roofline_{kernel}", bars.KIND, "gflops",
                      f"Roofline of {kernel}", "GFLOP/s", "device"), bars.KIND, folder)
    if predicted.empty:
        print("no modelled record has a device and GFLOP/s")


# %% [markdown]
# ## The walk
# How many points there are, what became of them, and the two kinds of figure.

# %%
def main() -> int:
    """Tell the story of one folder; 2 when there is none."""
    folder = records_folder()
    if folder is None:
        where = (arguments() or ["out/quickstart"])[0]
        print(f"{where}: no records (*.jsonl) here. Write them with\n"
              f"  build/tessera run experiments/configs/quickstart.toml --out {where}",
              file=sys.stderr)
        return 2
    use_style()
    table = read_table(folder)
    order = [origin for origin in ORIGINS if origin in set(table["origin"])]
    print(table.groupby(["origin", "status"]).size().unstack(fill_value=0).reindex(order))
    for _, bad in table[table["status"] != "ok"].iterrows():
        print(f"{bad['status']}: {bad['matrix']} with {bad['kernel']}: {bad['reason']}")
    show_errors(table, folder)
    show_roofline(table, folder)
    return 0


# %%
if __name__ == "__main__":
    code = main()
    if code != 0:
        sys.exit(code)
