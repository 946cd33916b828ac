"""The shared parts of all figure kinds: style, looks by origin, layout, legend, footer, saving.

A kind is a function that draws one panel, and a few choices (see Kind). This module enforces that a
predicted number never looks measured: its bars are pale and hatched, its lines dashed, its markers
hollow, and the legend and the footer name its origin.
"""

import os
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from figure_data import FigureData, FigureError, Panel, Series, load

ONE_COLUMN = 3.4  # inches: the width of one column of a two-column paper
TWO_COLUMNS = 7.1  # inches: the width of its text
LABEL_HEIGHT = 0.35  # inches: the part of Kind.height for the names of categories
LONG_NAME = 16  # letters: a longer name is broken before its parameters
HATCHES = {"measured": "", "counted": "", "modelled": "//////", "simulated": "xxxxxx",
           "emulated": "......"}
DASHES = {"measured": "-", "counted": "-", "modelled": "--", "simulated": "-.", "emulated": ":"}
MARKERS = "osD^vPX"
BOUND_STYLE = {"linestyle": "-", "linewidth": 0.6, "alpha": 0.7, "zorder": 1.8}


@dataclass(frozen=True)
class Look:
    """The drawing style of one series. `hatch_color` is the colour of edges and hatches."""

    face: tuple[float, float, float]
    color: tuple[float, float, float]
    hatch_color: tuple[float, float, float]
    hatch: str
    dash: str
    marker: str


Looks = dict[tuple[str, str], Look]  # by (name, origin)


@dataclass(frozen=True)
class Kind:
    """A way to draw: the panel function, the legend handle (None: no legend), and the size."""

    name: str
    draw: Callable[[Axes, FigureData, Panel, Looks], None]
    handle: Callable[[Look], Artist] | None
    height: float = 2.0  # inches of one panel, labels included
    row_height: float = 0.0  # inches that a panel needs for every series, where each is a row
    looks: Callable[[FigureData], Looks] | None = None
    x_categories: bool = False  # the kind needs x.scale to be category
    x_label: bool = True  # the x axis shows the label of data.x
    y_axis: bool = True  # values lie along the y axis, and a reference is a line


def plain(text: str) -> str:
    """Text without formulas: a dollar sign is escaped."""
    return text.replace("$", r"\$")


def broken(name: str) -> str:
    """A long name on two lines: rmat(scale=14, edge_factor=8) breaks before its parameters."""
    return name.replace("(", "\n(", 1) if len(name) > LONG_NAME else name


def mix(color: Sequence[float], other: Sequence[float], share: float) -> tuple[float, ...]:
    """`color` with `share` of `other` in it."""
    return tuple((1 - share) * a + share * b for a, b in zip(color, other))


def series_looks(data: FigureData) -> Looks:
    """One hue and marker per name, from the style's cycle; the origin sets fill and dash."""
    cycle = [to_rgb(c) for c in plt.rcParams["axes.prop_cycle"].by_key()["color"]]
    names = list(dict.fromkeys(s.name for s in data.distinct_series()))
    result: Looks = {}
    for series in data.distinct_series():
        index = names.index(series.name)
        color = cycle[index % len(cycle)]
        if index >= len(cycle):  # a second round differs by lightness and marker
            color = mix(color, (1, 1, 1), 0.45)
        result[series.name, series.origin] = Look(
            face=mix(color, (1, 1, 1), 0.75) if series.predicted else color,
            color=color,
            hatch_color=color,
            hatch=HATCHES[series.origin],
            dash=DASHES[series.origin],
            marker=MARKERS[(index + index // len(cycle)) % len(MARKERS)],
        )
    return result


def patch_handle(look: Look) -> Artist:
    """The legend entry of a filled area."""
    return Patch(facecolor=look.face, edgecolor=look.hatch_color, hatch=look.hatch)


def line_handle(look: Look) -> Artist:
    """The legend entry of a line with markers."""
    return Line2D([], [], color=look.color, linestyle=look.dash, marker=look.marker,
                  markerfacecolor=look.color if look.dash == "-" else "white")


def marker_handle(look: Look) -> Artist:
    """The legend entry of markers alone."""
    return Line2D([], [], color=look.color, linestyle="none", marker=look.marker,
                  markerfacecolor=look.color if look.dash == "-" else "white")


def place(data: FigureData, x: str | float) -> float:
    """The coordinate of x on the axis: the rank of a category, the value of a number."""
    return float(data.categories().index(x)) if data.x.scale == "category" else float(x)


def spread(series: Series) -> list[list[float]] | None:
    """Whisker lengths [below, above] for the points that have a value; None without any."""
    points = [p for p in series.points if p.y is not None]
    if all(p.low is None and p.high is None for p in points):
        return None
    below = [p.y - p.low if p.low is not None else 0.0 for p in points]
    return [below, [p.high - p.y if p.high is not None else 0.0 for p in points]]


def missing_xs(data: FigureData, panel: Panel, series: Series) -> list[str | float]:
    """The x values of this series without a y: null points and, with one panel, `missing`."""
    nulls = [p.x for p in series.points if p.y is None]
    if len(data.panels) == 1:
        drawn = {p.x for p in series.points if p.y is not None}
        same_name = sum(s.name == series.name for s in panel.series)
        nulls += [m.x for m in data.missing
                  if m.series == series.name and same_name == 1 and m.x not in drawn]
    return list(dict.fromkeys(nulls))


def mark_missing(axes: Axes, x: float, look: Look) -> None:
    """Draw a small cross on the x axis, which marks a missing value as opposed to a zero."""
    axes.plot([x], [0.025], marker="x", markersize=2.6, markeredgewidth=0.7, color=look.color,
              linestyle="none", transform=axes.get_xaxis_transform(), gid="missing")


def columns_needed(data: FigureData, kind: Kind) -> float:
    """The width of the figure in inches: one column of a paper, or two when one is too narrow."""
    if kind.name == "box":
        slots = 4 * len(data.distinct_series())
    elif data.x.scale == "category":
        slots = len(data.categories()) * len(data.panels[0].series)
    else:
        slots = 1
    return TWO_COLUMNS if slots > 18 or len(data.panels) > 1 else ONE_COLUMN


def grid_shape(data: FigureData) -> tuple[int, int]:
    """Rows and columns of panels; panels with many categories are stacked."""
    count = len(data.panels)
    crowded = data.x.scale == "category" and (
        len(data.categories()) * len(data.panels[0].series) * min(count, 3) > 72)
    columns = 1 if crowded else min(count, 3)
    return -(-count // columns), columns


def panel_height(data: FigureData, kind: Kind) -> float:
    """The height of one panel in inches, labels included."""
    most_series = max(len(panel.series) for panel in data.panels)
    return max(kind.height, 2 * LABEL_HEIGHT + kind.row_height * most_series)


def set_scales(axes: Axes, data: FigureData, width: float) -> None:
    """Set the scales and, for categories, ticks whose labels are rotated when they would touch."""
    axes.set_yscale(data.y.scale)
    if data.x.scale != "category":
        axes.set_xscale(data.x.scale)
        axes.grid(True, axis="x")
        if data.x.scale == "log" and len(data.categories()) <= 10:  # 16, 32, 64: no powers of ten
            axes.set_xticks(data.categories(), [f"{x:g}" for x in data.categories()])
            axes.set_xticks([], minor=True)
        return
    names = [broken(plain(str(x))) for x in data.categories()]
    axes.set_xlim(-0.6, len(names) - 0.4)
    turn_labels(axes, names, width)


def label_short_log(axis: Axis) -> None:
    """Label 1, 2 and 5 of each decade where a log axis spans less than two."""
    low, high = axis.get_view_interval()
    if axis.get_scale() == "log" and high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def turn_labels(axes: Axes, names: list[str], width: float) -> None:
    """Put the category names at 0, 1, ...; `width` is the width of the axes in inches."""
    pitch = 72 * width / max(1, len(names))  # points between ticks
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    text_width = 0.6 * plt.rcParams["font.size"] * longest
    axes.tick_params(axis="x", length=0)
    if text_width < pitch:
        axes.set_xticks(range(len(names)), names, rotation=0, ha="center", rotation_mode="default")
    elif pitch > 11:
        axes.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")
    else:
        axes.set_xticks(range(len(names)), names, rotation=90, ha="center",
                        rotation_mode="default")


def draw_reference(axes: Axes, data: FigureData) -> None:
    """Draw the horizontal line for comparison; its label is in the legend."""
    if data.reference is not None:
        axes.axhline(data.reference[0], color="#555555", linewidth=0.8, zorder=1.5)


def footer_text(data: FigureData) -> str:
    """Caption, origin and provenance, and the missing values with their reasons."""
    origins = data.origins()
    origin = ", ".join(origins)
    if len(origins) == 1 and origin in ("measured", "counted"):
        origin = f"All values {origin}"
    elif "measured" in origins or "counted" in origins:
        origin = "Origin: " + origin + "; hatched, dashed or hollow = not measured"
    else:
        origin = "Not measured: all values " + origin
    parts = [data.caption, f"{origin}. {data.provenance}"]
    if data.missing:
        reasons = Counter(m.reason for m in data.missing)
        parts.append("Missing (x): " + ", ".join(f"{n} {r}" for r, n in reasons.items()))
    return "\n".join(part for part in parts if part)


def wrapped(text: str, width: float, size: float) -> str:
    """Break lines so that text of `size` points fits `width` inches."""
    letters = max(10, int(width * 72 / (0.57 * size)))
    lines = [textwrap.fill(plain(line), letters) for line in text.split("\n")]
    return "\n".join(lines)


def inches(figure: Figure, artist: Artist) -> tuple[float, float]:
    """The drawn width and height of an artist in inches."""
    box = artist.get_window_extent(figure.canvas.get_renderer())
    return box.width / figure.dpi, box.height / figure.dpi


def add_legend(figure: Figure, data: FigureData, kind: Kind, looks: Looks) -> Artist | None:
    """Add one legend above the panels, with as many columns as fit the width."""
    handles: list[Artist] = []
    labels: list[str] = []
    if kind.handle is not None:
        for series in data.distinct_series():
            handles.append(kind.handle(looks[series.name, series.origin]))
            labels.append(plain(series.label))
    if data.has_bounds():
        handles.append(Line2D([], [], color="#555555", **BOUND_STYLE))
        labels.append("bound, in the colour of its series")
    if data.reference is not None and kind.y_axis:
        handles.append(Line2D([], [], color="#555555", linewidth=0.8))
        labels.append(plain(data.reference[1]))
    for columns in range(len(handles), 0, -1):
        legend = figure.legend(handles, labels, ncol=columns, loc="upper center")
        if columns == 1 or inches(figure, legend)[0] < figure.get_figwidth():
            return legend
        legend.remove()
    return None


def label_overhang(figure: Figure) -> float:
    """The inches by which the tallest category name exceeds LABEL_HEIGHT."""
    labels = [label for axes in figure.axes for label in axes.get_xticklabels()]
    return max([0.0] + [inches(figure, label)[1] - LABEL_HEIGHT for label in labels])


def arrange(figure: Figure, data: FigureData, legend: Artist | None) -> None:
    """Stack title, legend, panels and footer; the figure grows, the panels keep their size."""
    width, body = figure.get_size_inches()
    body += label_overhang(figure)
    title = figure.text(0.5, 1, wrapped(data.title, width, 8), size=8, weight="bold",
                        ha="center", va="top")
    footer = figure.text(0.01, 0, wrapped(footer_text(data), width, 5.5), size=5.5,
                         color="#444444", ha="left", va="bottom", linespacing=1.25)
    gap = 0.04  # inches
    title_height, footer_height = inches(figure, title)[1], inches(figure, footer)[1]
    legend_height = inches(figure, legend)[1] if legend is not None else 0.0
    top = title_height + legend_height + 3 * gap
    height = body + top + footer_height + 2 * gap
    figure.set_size_inches(width, height)
    title.set_y(1 - gap / height)
    footer.set_y(gap / height)
    if legend is not None:
        legend.set_bbox_to_anchor((0.5, 1 - (title_height + 1.5 * gap) / height))
        legend.borderaxespad = 0
    figure.tight_layout(pad=0.3, rect=(0, (footer_height + 2 * gap) / height, 1, 1 - top / height))


def build(data: FigureData, kind: Kind) -> Figure:
    """Draw a figure in the style of all figures. The caller closes it."""
    if data.kind != kind.name:
        raise FigureError(f"{data.id}: kind: expected {kind.name}, found {data.kind}")
    if kind.x_categories and data.x.scale != "category":
        raise FigureError(f"{data.id}: x.scale: {kind.name} needs category, found {data.x.scale}")
    looks = (kind.looks or series_looks)(data)
    width = columns_needed(data, kind)
    rows, columns = grid_shape(data)
    figure, grid = plt.subplots(rows, columns, sharey=kind.y_axis, squeeze=False,
                                figsize=(width, panel_height(data, kind) * rows))
    cells = list(grid.flat)
    for axes, panel in zip(cells, data.panels):
        set_scales(axes, data, 0.85 * width / columns)
        axes.set_title(plain(panel.title))
        kind.draw(axes, data, panel, looks)
        axes.set_xlabel(plain(data.x.label) if kind.x_label else "")
        if kind.y_axis:
            draw_reference(axes, data)
        label_short_log(axes.yaxis)
    for axes in cells[len(data.panels):]:
        axes.remove()
    for axes in cells[:max(0, len(data.panels) - columns)]:  # the panel below has the labels
        axes.set_xlabel("")
        axes.tick_params(axis="x", labelbottom=False)
    for row in grid if kind.y_axis else ():  # there the colour bar has the label
        row[0].set_ylabel(plain(data.y.label))
    arrange(figure, data, add_legend(figure, data, kind, looks))
    return figure


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write NAME.pdf and NAME.png, each completely or not at all, without dates inside."""
    written = []
    for extension, metadata in (("pdf", {"CreationDate": None}), ("png", {})):
        target = folder / f"{name}.{extension}"
        partial = folder / f".{name}.{os.getpid()}.{extension}"
        try:
            figure.savefig(partial, format=extension, metadata=metadata)
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
        written.append(target)
    return written


def use_style() -> None:
    """Reset matplotlib to its defaults, so that a user's settings cannot change a figure."""
    matplotlib.rcdefaults()
    plt.style.use(Path(__file__).with_name("tessera.mplstyle"))


def arguments() -> list[str]:
    """The command-line arguments; empty inside a notebook."""
    return [] if "ipykernel" in sys.modules else sys.argv[1:]


def run(kind: Kind) -> int:
    """The command `python3 notebooks/KIND.py FILE.json`; 0, or 2 with a message on stderr."""
    names = arguments()
    if len(names) != 1:
        print(f"usage: {kind.name}.py FILE.json", file=sys.stderr)
        return 2
    matplotlib.use("Agg")
    use_style()
    path = Path(names[0])
    try:
        data = load(path)
        figure = build(data, kind)
        save(figure, path.parent, data.id)
        plt.close(figure)
    except FigureError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
