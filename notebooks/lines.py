# %% [markdown]
# # Lines
# One line per series; a missing value breaks the line. The bound of a series is a thin line of its
# colour, without markers.

# %%
"""Lines with markers: one per series."""

import needs  # noqa: F401  looks for a Python that has what follows
import sys
from math import nan

from matplotlib.axes import Axes

from figure import (
    BOUND_STYLE,
    Kind,
    Looks,
    line_handle,
    mark_missing,
    missing_xs,
    place,
    run,
    spread,
)
from figure_data import FigureData, Panel


# %%
def draw_lines(axes: Axes, data: FigureData, panel: Panel, looks: Looks) -> None:
    """Draw one panel; points are joined in order of x."""
    for series in panel.series:
        look = looks[series.name, series.origin]
        known = [p for p in series.points if p.y is not None]
        if known and spread(series) is not None:
            axes.errorbar([place(data, p.x) for p in known], [p.y for p in known],
                          yerr=spread(series), fmt="none", ecolor=look.color, elinewidth=0.6,
                          capsize=1.5)
        points = sorted(series.points, key=lambda p: place(data, p.x))
        axes.plot([place(data, p.x) for p in points],
                  [nan if p.y is None else p.y for p in points], color=look.color,
                  linestyle=look.dash, marker=look.marker, label=series.label,
                  markerfacecolor="white" if series.predicted else look.color)
        bounds = [p for p in points if p.bound is not None]
        if bounds:
            axes.plot([place(data, p.x) for p in bounds], [p.bound for p in bounds],
                      color=look.color, gid="bound", **BOUND_STYLE)
        for x in missing_xs(data, panel, series):
            mark_missing(axes, place(data, x), look)


# %%
KIND = Kind("lines", draw_lines, line_handle)

if __name__ == "__main__":
    sys.exit(run(KIND))
