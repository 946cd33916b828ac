# %% [markdown]
# # Heat map
# A row per series, a column per category, the value in each cell. Cividis (Nunez, Anderton and
# Renslow 2018) looks the same with and without colour-deficient sight.

# %%
"""Heat map: series by category, values printed in the cells."""

import needs  # noqa: F401  looks for a Python that has what follows
import sys

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patches import Rectangle

from figure import Kind, Looks, hatch_of, run
from figure_data import FigureData, Panel
from layout import label_log, plain
from style import points

SMALLEST = 2.5  # points: smaller numbers are left out, the colour remains


# %%
def short(value: float) -> str:
    """The value in at most four characters and a sign: three digits, or thousands as k, M, G."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * limit:
            scaled = value / limit
            return f"{scaled:.1f}{unit}" if abs(scaled) < 9.95 else f"{scaled:.0f}{unit}"
    if abs(value) >= 99.95 or value == 0:
        return f"{value:.0f}"
    if abs(value) >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.01 else f"{value:.0e}"


def text_size(axes: Axes, columns: int) -> float:
    """The largest font size, in points, at which four characters fit a cell."""
    width = 72 * axes.get_position().width * axes.figure.get_figwidth()
    return min(points(5.5), 0.8 * width / max(1, columns) / (4 * 0.6))


def color_scale(data: FigureData) -> Normalize:
    """One colour scale for all panels, logarithmic if y is."""
    values = [p.y for panel in data.panels for s in panel.series for p in s.points
              if p.y is not None] or [1.0]
    scale = LogNorm if data.y.scale == "log" else Normalize
    return scale(min(values), max(values))


# %%
def draw_cells(axes: Axes, data: FigureData, panel: Panel, looks: Looks) -> None:
    """Draw one panel: predicted cells are hatched, empty ones hold a cross."""
    del looks  # the colour says the value, so it cannot say the series
    norm, colors = color_scale(data), plt.get_cmap("cividis")
    columns = data.categories()
    size = text_size(axes, len(columns))
    numbers = size >= SMALLEST
    axes.set_yscale("linear")
    axes.grid(False)
    for row, series in enumerate(panel.series):
        values = {p.x: p.y for p in series.points}
        for column, x in enumerate(columns):
            value = values.get(x)
            face = "white" if value is None else colors(float(norm(value)))
            dark = value is not None and norm(value) < 0.55
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=face,
                                     edgecolor="#DDDDDD" if dark else "#777777", linewidth=0,
                                     hatch=hatch_of(series.origin, 0) if value is not None else ""))
            if not numbers and value is not None:
                continue
            axes.text(column, row, "x" if value is None else plain(short(value)), size=size,
                      ha="center", va="center", color="white" if dark else "black",
                      bbox={"facecolor": face, "edgecolor": "none", "pad": 0.6})
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(panel.series) - 0.5, -0.5)
    axes.set_yticks(range(len(panel.series)), [plain(s.label) for s in panel.series])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(plt.cm.ScalarMappable(norm, colors), ax=axes, pad=0.02, aspect=12)
    label_log(bar.ax.yaxis)
    bar.outline.set_visible(False)
    bar.solids.set_rasterized(False)  # a vector file holds no picture
    bar.solids.set_edgecolor("face")


# %%
KIND = Kind("heatmap", draw_cells, None, height=0.7, row_height=0.13, x_categories=True,
            y_axis=False, explains="k, M, G: 10^3, 10^6, 10^9; x: no value.")

if __name__ == "__main__":
    sys.exit(run(KIND))
