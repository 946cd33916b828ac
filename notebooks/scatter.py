# %% [markdown]
# # Scatter
# One marker per point; filled where measured, hollow where predicted.

# %%
"""Scatter: one marker per point, one shape and colour per series."""

import needs  # noqa: F401  looks for a Python that has what follows
import sys

from matplotlib.axes import Axes

from figure import Kind, Looks, mark_missing, marker_handle, missing_xs, place, run, spread
from figure_data import FigureData, Panel


# %%
def draw_points(axes: Axes, data: FigureData, panel: Panel, looks: Looks) -> None:
    """Draw one panel."""
    for series in panel.series:
        look = looks[series.name, series.origin]
        points = [p for p in series.points if p.y is not None]
        xs, ys = [place(data, p.x) for p in points], [p.y for p in points]
        if points and spread(series) is not None:
            axes.errorbar(xs, ys, yerr=spread(series), fmt="none", ecolor=look.color,
                          elinewidth=0.5)
        axes.scatter(xs, ys, s=14, marker=look.marker, edgecolors=[look.color], linewidths=0.8,
                     facecolors="none" if series.predicted else [look.color],
                     label=series.label)
        for x in missing_xs(data, panel, series):
            mark_missing(axes, place(data, x), look)


# %%
KIND = Kind("scatter", draw_points, marker_handle)

if __name__ == "__main__":
    sys.exit(run(KIND))
