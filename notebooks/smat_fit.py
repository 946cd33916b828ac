# %% [markdown]
# # Time against blocks
# SMaT's model: the time of a product is a time per block of BCSR plus an initial time,
# T = T_e n_e + T_init. If it holds, measurements lie on a straight line, and a better kernel has a
# smaller slope. The figure states R^2 and the confidence intervals of both numbers.

# %%
"""SMaT's linear model fitted to records: time against n_e, the fit and its confidence band.

    python3 notebooks/smat_fit.py RECORDS [FOLDER]

RECORDS is a folder of records of `tessera run smat_fit`, or of any products of one N of which some
are predicted (these count the blocks). `tessera fit` makes the fits; the program is
$TESSERA_BINARY, else the newest tessera in build*/. Writes smat_fit.csv, a line per kernel, device,
N and origin, and a figure per N, to FOLDER (default: out/smat_fit/figures). The darker band is the
confidence interval of the line, the lighter one that of one more measurement; the figure states the
confidence. Modelled products count the blocks; their lines are drawn where nothing was measured or
simulated.
"""

import json
import needs  # noqa: F401  looks for a Python that has what follows
import sys
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from spy import SpyError, call_program

from figure import Kind, Looks, arguments, build, line_handle, save, use_style
from figure_data import FigureData, FigureError, Panel, check
from records import environment, short_names

Fit = dict[str, Any]  # one fit of `tessera fit --json`


# %%
def read_fits(folder: Path) -> list[Fit]:
    """The fits of a folder of records, each with the `name` of its series."""
    fits: list[Fit] = json.loads(call_program("fit", str(folder), "--json"))
    short = short_names(list(dict.fromkeys(fit["kernel"] for fit in fits)))
    for fit in fits:
        fit["name"] = short[fit["kernel"]]
    for fit in fits:
        same = [f for f in fits if all(f[k] == fit[k] for k in ("kernel", "n", "origin"))]
        if len(same) > 1:
            fit["name"] = f"{short[fit['kernel']]}, {fit['device']}"
    return fits


def table(fits: list[Fit]) -> pd.DataFrame:
    """A table with a line per fit: T_e in nanoseconds, T_init in microseconds, their intervals."""
    rows = []
    for fit in fits:
        row = {key: fit[key] for key in ("kernel", "device", "n", "origin")}
        row["points"] = len(fit["points"])
        for name, key, scale in (("t_e_ns", "time_per_block_us", 1e3), ("t_init_us", "init_us", 1)):
            for part in ("value", "low", "high") if key in fit else ():
                row[name + ("" if part == "value" else f"_{part}")] = scale * fit[key][part]
        row["r_squared"], row["reason"] = fit.get("r_squared"), fit.get("reason", "")
        rows.append(row)
    return pd.DataFrame(rows)


# %%
def drawn(fits: list[Fit]) -> list[Fit]:
    """The fits that a figure shows: modelled ones only where there are no others."""
    return [fit for fit in fits if fit["origin"] != "modelled"] or fits


def draw_fits(fits: dict[tuple[str, str], Fit], axes: Axes, _: FigureData, panel: Panel,
              looks: Looks) -> None:
    """Draw markers for the points, and the line and both bands of each fit."""
    for series in panel.series:
        look = looks[series.name, series.origin]
        axes.plot([p.x for p in series.points], [p.y for p in series.points], linestyle="none",
                  marker=look.marker, color=look.color,
                  markerfacecolor="white" if series.predicted else look.color)
        line = fits[series.name, series.origin].get("line")
        if line is None:
            continue
        blocks = [at["blocks"] for at in line]
        axes.plot(blocks, [at["time_us"] for at in line], color=look.color, linestyle=look.dash,
                  linewidth=0.8)
        for low, high, alpha in (("low", "high", 0.35), ("one_more_low", "one_more_high", 0.12)):
            axes.fill_between(blocks, [at[low] for at in line], [at[high] for at in line],
                              color=look.color, alpha=alpha, linewidth=0, gid=low)
    axes.set_ylim(bottom=0)


def draw(fits: list[Fit], n: int, where: str, folder: Path) -> None:
    """Draw the figure of one N."""
    figure_id = f"smat_fit_n{n}"
    series = [{"name": fit["name"], "origin": fit["origin"],
               "points": [{"x": p["blocks"], "y": p["time_us"]} for p in fit["points"]]}
              for fit in fits]
    sure = next((f["confidence"] for f in fits if "confidence" in f), None)
    fitted = "; ".join(
        f"{f['name']} {f['origin']}: T_e {1e3 * f['time_per_block_us']['value']:.3g} ns, "
        f"T_init {f['init_us']['value']:.2g} us, R^2 {f['r_squared']:.4f}"
        for f in fits if "line" in f)
    description = {
        "schema": 1, "id": figure_id, "kind": "scatter",
        "title": f"Time against blocks, N = {n}",
        "caption": fitted + (f". Bands hold the line (dark) and one more point (light) with "
                           f"{100 * sure:.3g} %." if sure else ""),
        "x": {"label": "nonempty 16 x 16 blocks, n_e", "scale": "linear"},
        "y": {"label": "time, us", "scale": "linear"}, "series": series, "provenance": where,
        "missing": []}
    kind = Kind("scatter", partial(draw_fits, {(f["name"], f["origin"]): f for f in fits}),
                line_handle, height=1.9)
    picture = build(check(description, figure_id), kind)
    print("wrote", *save(picture, folder, figure_id))
    plt.close(picture)


def main() -> int:
    """The command line."""
    if len(arguments()) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    records = Path(arguments()[0])
    folder = Path(arguments()[1] if len(arguments()) == 2 else "out/smat_fit/figures")
    try:
        fits = read_fits(records)
        found = table(fits)
    except (FigureError, SpyError, KeyError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    found.to_csv(folder / "smat_fit.csv", index=False, float_format="%.6g", lineterminator="\n")
    print(found.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    use_style()
    for n in sorted({fit["n"] for fit in fits}):
        draw(drawn([fit for fit in fits if fit["n"] == n]), n, environment(records), folder)
    return 0


# %%
if __name__ == "__main__":
    sys.exit(main())
