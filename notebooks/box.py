# %% [markdown]
# # Box
# The distribution of each series over the matrices: box = quartiles, whiskers = 5th and 95th
# percentile, and every value as a dot, since a handful of matrices is not a distribution.

# %%
"""Box: the distribution of each series over its x values."""

import sys

from matplotlib.axes import Axes

from figure import Kind, Looks, mark_missing, plain, run, turn_labels
from figure_data import FigureData, Panel


# %%
def draw_boxes(axes: Axes, data: FigureData, panel: Panel, looks: Looks) -> None:
    """Draw one panel; the number above each box counts its values."""
    labels = []
    for rank, series in enumerate(panel.series):
        look = looks[series.name, series.origin]
        values = [p.y for p in series.points if p.y is not None]
        origin = f"\n({series.origin})" if series.predicted else ""
        labels.append(plain(f"{series.name}{origin}"))
        # Panels share their labels but not their numbers of values.
        axes.annotate(f"n = {len(values)}", (rank, 1), (0, 1), ha="center", va="bottom", fontsize=6,
                      xycoords=("data", "axes fraction"), textcoords="offset points")
        if not values:
            mark_missing(axes, rank, look)
            continue
        axes.boxplot([values], positions=[rank], widths=0.55, whis=(5, 95), showfliers=False,
                     patch_artist=True, manage_ticks=False,
                     boxprops={"facecolor": look.face, "edgecolor": look.hatch_color,
                               "hatch": look.hatch},
                     medianprops={"color": "black", "linewidth": 1.4},
                     whiskerprops={"color": look.color}, capprops={"color": look.color})
        axes.plot([rank + 0.36] * len(values), values, linestyle="none", marker="o", markersize=2,
                  markeredgewidth=0.5, color=look.color,
                  markerfacecolor="white" if series.predicted else look.color)
    axes.set_title(axes.get_title(), pad=12)  # above the counts
    axes.set_xscale("linear")
    axes.grid(False, axis="x")
    axes.set_xlim(-0.6, len(labels) - 0.4)
    turn_labels(axes, labels, axes.get_position().width * axes.figure.get_figwidth())


# %%
KIND = Kind("box", draw_boxes, None, x_label=False)

if __name__ == "__main__":
    sys.exit(run(KIND))
