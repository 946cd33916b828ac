# %% [markdown]
# # When do tensor cores pay?
# Every kernel on tensor cores against the fastest kernel on scalar cores, matrix by matrix, over
# the number of nonzeros in a tile of 8 x 8. It reads committed results only and needs no GPU.

# %%
"""The first figure of the README, from the committed times of the baselines and of our own kernels.

    python3 notebooks/when_tensor_cores_pay.py [FOLDER]

Reads baselines/times.csv, spmm/own_spmm.csv and reorder/quality_table.csv of experiments/results/,
and the kernels that use no tensor cores from experiments/configs/baselines.toml. Prints how often, and by how much,
the fastest kernel on tensor cores is ahead, and writes when_tensor_cores_pay.png and .pdf to FOLDER
(default: out/when_tensor_cores_pay).
"""

import dataclasses
import needs  # noqa: F401  looks for a Python that has what follows
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import scatter
import tomllib
from matplotlib.axes import Axes

from figure import Look, Looks, arguments, build, save, series_looks, use_style
from figure_data import FigureData, FigureError, Panel, check

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "experiments" / "results"
CONFIG = ROOT / "experiments" / "configs" / "baselines.toml"
TF32 = ["Acc-SpMM", "FlashSparse TF32", "cuTeSpMM", "DTC-SpMM", "TC-GNN", "TCA-SpMM"]
OWN_TF32, OWN_SCALAR = "tessera_spmm", "rows_spmm"
FP16 = ["FlashSparse FP16", "Magicube FP16", "SMaT FP16"]
NAMES = {"SMaT": "SMaT FP16"}  # cases whose names do not state their precision
WIDTHS = (32, 128, 512)
FULL = 16  # nonzeros of a tile of 8 x 8 from which it counts as full: a quarter of its cells
FASTEST = "fastest in TF32"
OTHERS, HALF = "other kernels in TF32", "kernels in FP16"
ID = "when_tensor_cores_pay"


# %%
def scalar_cases() -> list[str]:
    """The cases of the experiment that run on scalar cores: its own definition of Best-SC."""
    config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    return next(reduce["where"]["case"] for reduce in config["reduce"]
                if reduce["name"] == "Best-SC")


def nonzeros_per_tile() -> pd.Series:
    """The mean number of nonzeros of a tile of 8 x 8 condensed columns in natural order, by matrix.
    """
    table = pd.read_csv(RESULTS / "reorder" / "quality_table.csv")
    natural = table[(table["reorder"] == "none") & ~table["shuffled"]]
    return natural.set_index("base")["mean_nnz_tc_8x8"]


def times(own: bool) -> pd.DataFrame:
    """A line per matrix, width and kernel of the baselines, and of our own two where `own`."""
    found = pd.read_csv(RESULTS / "baselines" / "times.csv")
    found = found[found["n"].isin(WIDTHS)].assign(case=found["case"].replace(NAMES))
    if not own:
        return found
    ours = pd.read_csv(RESULTS / "spmm" / "own_spmm.csv").rename(columns={"time_us": "median_us"})
    ours = ours[(ours["l2"] == "warm") & ours["case"].isin([OWN_TF32, OWN_SCALAR])]
    return pd.concat([found, ours[found.columns.intersection(ours.columns)]])


def speeds(own: bool = True) -> pd.DataFrame:
    """A line per matrix, width and kernel on tensor cores: its speed over the fastest on scalar
    cores, and the nonzeros of a tile. The fastest kernel in TF32 is there once more, under FASTEST.
    Without `own`, our own two kernels are left out.
    """
    of_kernels = times(own)
    is_scalar = of_kernels["case"].isin([*scalar_cases(), OWN_SCALAR])
    scalar = of_kernels[is_scalar].groupby(["matrix", "n"])["median_us"].min()
    fast = of_kernels[of_kernels["case"].isin([*TF32, OWN_TF32, *FP16])]
    fast = fast.join(scalar.rename("scalar_us"), ["matrix", "n"])
    fast = fast.assign(speed=fast["scalar_us"] / fast["median_us"]).reset_index(drop=True)
    of_tf32 = fast[fast["case"].isin([*TF32, OWN_TF32])]
    best = of_tf32.loc[of_tf32.groupby(["matrix", "n"])["speed"].idxmax()]
    best = best.assign(kernel=best["case"], case=FASTEST)
    table = pd.concat([fast, best])
    return table.assign(tile_nnz=table["matrix"].map(nonzeros_per_tile())).reset_index(drop=True)


def provenance(commits: dict[int, str]) -> str:
    """Device, driver and date from the page of the results, and the commits of the times."""
    page = (RESULTS / "baselines" / "README.md").read_text(encoding="utf-8")
    found = re.search(r"Measured on (\S+) on one ([^(]+?) \(driver ([\d.]+), CUDA ([\d.]+)", page)
    if found is None:
        raise FigureError("baselines/README.md: it does not say 'Measured on DATE on one GPU (...'")
    date, device, driver, cuda = found.groups()
    widths: dict[str, list[str]] = {}
    for n, commit in commits.items():
        widths.setdefault(commit, []).append(str(n))
    of_widths = "; ".join(f"N = {' and '.join(ns)}: commit {c}" for c, ns in widths.items())
    return f"{device}, driver {driver}, CUDA {cuda}, {date}; {of_widths}"


# %% [markdown]
# ## The answer in numbers
# Matrices are split at a quarter of a tile's 64 cells; none has between 13 and 17 nonzeros a tile.

# %%
def summary(table: pd.DataFrame) -> pd.DataFrame:
    """For each width and side of FULL: the matrices, how many of them the fastest kernel in TF32
    multiplies faster than scalar cores, and its speed over theirs (geometric mean, least, most)."""
    best = table[table["case"] == FASTEST]
    sides = np.where(best["tile_nnz"] >= FULL, f"{FULL} and more", f"fewer than {FULL}")
    groups = best.groupby([best["n"].rename("N"), pd.Series(sides, best.index, name="nonzeros")])
    return groups["speed"].agg(matrices="count", faster=lambda speed: int((speed > 1).sum()),
                               mean=lambda speed: float(np.exp(np.log(speed).mean())),
                               least="min", most="max").reset_index()


def description(table: pd.DataFrame) -> dict:
    """The figure, as `tessera figure` would describe it. The fastest kernel in TF32
    of each matrix stands under its name, and all others under their precision."""
    best = table[table["case"] == FASTEST].set_index(["matrix", "n"])["kernel"]
    kernels = table[table["case"] != FASTEST].join(best.rename("best"), ["matrix", "n"])
    others = kernels["case"].map(lambda case: HALF if case in FP16 else OTHERS)
    is_best = kernels["case"] == kernels["best"]
    kernels = kernels.assign(series=kernels["case"].where(is_best, others))

    def panel(n: int) -> dict:
        of_width = kernels[kernels["n"] == n]
        names = [*(name for name in [OWN_TF32, *TF32] if name in best.values), OTHERS, HALF]
        groups = [(name, of_width[of_width["series"] == name]) for name in names]
        return {"title": f"N = {n} columns of B",
                "series": [{"name": name, "origin": "measured",
                            "points": [{"x": float(x), "y": float(y)} for x, y in
                                       zip(lines["tile_nnz"], lines["speed"])]}
                           for name, lines in groups]}

    is_own = kernels["case"] == OWN_TF32
    commits = {n: kernels[(kernels["n"] == n) & ~is_own]["commit"].iloc[0] for n in WIDTHS}
    own_commit = kernels[is_own]["commit"].iloc[0]
    return {
        "schema": 1, "id": ID, "kind": "scatter",
        "title": "Tensor cores against scalar cores, matrix by matrix",
        "caption": f"C = AB, B dense; {len(TF32) + 1} kernels in TF32 and {len(FP16)} in FP16 on "
                   f"{kernels['matrix'].nunique()} matrices in natural order, warm L2, medians. "
                   "Coloured: the fastest kernel in TF32 of each matrix. Tiles: 8 rows by 8 "
                   "columns, after the columns that are empty in these rows have been left out.",
        "x": {"label": "nonzeros per tile of 8 x 8", "scale": "log"},
        "y": {"label": "times the fastest on scalar cores", "scale": "log"},
        "panels": [panel(n) for n in WIDTHS],
        "provenance": f"{provenance(commits)}; {OWN_TF32} and {OWN_SCALAR}: commit {own_commit}",
        "missing": [],
        "reference": {"y": 1,
                      "label": f"fastest of {len(scalar_cases()) + 1} kernels on scalar cores"}}


def looks(data: FigureData) -> Looks:
    """Colours for the fastest kernels, grey for all others."""
    grey = {OTHERS: (".", 0.55), HALF: ("d", 0.75)}
    named = dataclasses.replace(data, panels=tuple(
        dataclasses.replace(panel, series=tuple(s for s in panel.series if s.name not in grey))
        for panel in data.panels))
    result = series_looks(named)
    for name, (marker, shade) in grey.items():
        color = (shade, shade, shade)
        result[name, "measured"] = Look(color, color, color, "", "-", marker)
    return result


def draw(axes: Axes, data: FigureData, panel: Panel, of_series: Looks) -> None:
    """Draw a panel of the scatter, grey below colours, with ticks at powers of two."""
    greys_first = dataclasses.replace(panel, series=panel.series[::-1])
    scatter.draw_points(axes, data, greys_first, of_series)
    axes.set_xticks([8, 16, 32], ["8", "16", "32"])
    axes.set_xticks([], minor=True)


def main() -> int:
    """The command line."""
    if len(arguments()) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments()[0] if arguments() else f"out/{ID}")
    try:
        table = speeds()
        data = check(description(table), ID)
    except (FigureError, OSError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(summary(table).to_string(index=False, float_format=lambda value: f"{value:.2f}"))
    use_style()
    folder.mkdir(parents=True, exist_ok=True)
    kind = dataclasses.replace(scatter.KIND, draw=draw, looks=looks, height=2.4)
    print("wrote", *save(build(data, kind), folder, ID))
    return 0


# %%
if __name__ == "__main__":
    sys.exit(main())
