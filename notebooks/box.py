# %% [markdown]
# # Box
# The distribution of each series over the matrices: box = quartiles, whiskers = 5th and 95th
# percentile, and every value as a dot, since a handful of matrices is not a distribution.

# %%
"""Box: the distribution of each series over its x values."""

import needs  # noqa: F401  looks for a Python that has what follows
import sys

from matplotlib.axes import Axes

from figure import Kind, Looks, contrast, mark_missing, run
from figure_data import FigureData, Panel
from layout import plain, turn_labels
from style import points


# %%
def draw_boxes(axes: Axes, data: FigureData, panel: Panel, looks: Looks) -> None:
    """Draw one panel; the number above each box counts its values. All panels have the same
    places."""
    found = {(s.name, s.origin): s for s in panel.series}
    places = data.distinct_series()
    for rank, place in enumerate(places):
        series = found.get((place.name, place.origin))
        look = looks[place.name, place.origin]
        values = [p.y for p in series.points if p.y is not None] if series else []
        axes.annotate(f"{len(values)}", (rank, 1), (0, 1), ha="center", va="bottom",
                      fontsize=points(6), gid="count",
                      xycoords=("data", "axes fraction"), textcoords="offset points")
        if not values:
            mark_missing(axes, rank, look)
            continue
        axes.boxplot([values], positions=[rank], widths=0.55, whis=(5, 95), showfliers=False,
                     patch_artist=True, manage_ticks=False,
                     boxprops={"facecolor": look.face, "edgecolor": look.hatch_color,
                               "hatch": look.hatch},
                     medianprops={"color": contrast(look.face), "linewidth": 1.4},
                     whiskerprops={"color": look.color}, capprops={"color": look.color})
        axes.plot([rank + 0.36] * len(values), values, linestyle="none", marker="o",
                  markersize=points(2), markeredgewidth=0.5, color=look.color,
                  markerfacecolor="white" if place.predicted else look.color)
    axes.set_title(axes.get_title(), pad=points(12))  # above the counts
    axes.set_xscale("linear")
    axes.grid(False, axis="x")
    axes.set_xlim(-0.6, len(places) - 0.4)
    turn_labels(axes, [plain(place.label) for place in places],
                axes.get_position().width * axes.figure.get_figwidth())


# %%
KIND = Kind("box", draw_boxes, None, x_axis=False,
            explains="Box: quartiles and median; whiskers: 5th and 95th percentile; dots: all "
                     "values, one for each {x}; above: how many.")

if __name__ == "__main__":
    sys.exit(run(KIND))
