# %% [markdown]
# # Grouped bars
# One group per x category, one bar per series, whiskers where a point has low and high.
# `python3 notebooks/bars.py FILE.json` writes the PDF and the PNG beside the file.

# %%
"""Grouped bars: one group per category, one bar per series."""

import needs  # noqa: F401  looks for a Python that has what follows
import sys

from matplotlib.axes import Axes

from figure import Kind, Looks, mark_missing, missing_xs, patch_handle, place, run, spread
from figure_data import FigureData, Panel


# %%
def draw_groups(axes: Axes, data: FigureData, panel: Panel, looks: Looks) -> None:
    """Draw one panel; a missing value leaves its slot empty but for a cross."""
    bar = 0.8 / len(panel.series)
    for rank, series in enumerate(panel.series):
        look = looks[series.name, series.origin]
        offset = (rank - (len(panel.series) - 1) / 2) * bar
        points = [p for p in series.points if p.y is not None]
        axes.bar([place(data, p.x) + offset for p in points], [p.y for p in points], bar,
                 yerr=spread(series), color=look.face, edgecolor=look.hatch_color,
                 hatch=look.hatch, linewidth=0.4, label=series.label,
                 error_kw={"elinewidth": 0.6, "capsize": min(2, 8 * bar), "capthick": 0.6})
        for x in missing_xs(data, panel, series):
            mark_missing(axes, place(data, x) + offset, look)
    values = [p.y for s in panel.series for p in s.points if p.y is not None]
    if data.y.scale == "log" and values:
        # A bar on a log axis has no natural foot, so it is half the smallest value of all panels.
        # The top is set as well: the bars' foot of zero would put it many decades up.
        tips = [q.high if q.high is not None else q.y for other in data.panels
                for s in other.series for q in s.points if q.y is not None]
        feet = [q.y for other in data.panels for s in other.series for q in s.points
                if q.y is not None]
        axes.set_ylim(0.5 * min(feet), 2 * max(tips))


# %%
KIND = Kind("bars", draw_groups, patch_handle, x_categories=True)

if __name__ == "__main__":
    sys.exit(run(KIND))
