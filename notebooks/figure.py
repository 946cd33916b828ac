"""The shared parts of all figure kinds: looks by origin, layout, legend, footer, saving.

A kind is a function that draws one panel, and a few choices (see Kind). This module enforces that a
predicted number never looks measured: its bars are pale and hatched, its lines dashed, its markers
hollow, and the legend and the footer name its origin. Series of one origin differ in colour, in its
lightness, and in marker or hatch, so that they are told apart in grey as well.
"""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from new_file import new_file

import style
from figure_data import FigureData, FigureError, Panel, Series, load
from layout import arrange, inches, label_log, label_values, plain, turn_labels, wrapped
from style import points, use_style

FORMATS = ("pdf", "png", "svg", "pgf")
# The kind of mark tells the origin, its variation the series.
HATCHES = {"measured": ("",), "counted": ("",),
           "modelled": ("//////", "\\\\\\\\\\\\", "///", "\\\\\\"),
           "simulated": ("xxxxxx", "++++++", "xxx", "+++"),
           "emulated": ("......", "oooo", "...", "oo")}
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
    height: float = 1.5  # inches of the axes of one panel
    row_height: float = 0.0  # inches that a panel needs for every series, where each is a row
    explains: str = ""  # what the caption says of the marks; {x} is the name of the x axis
    looks: Callable[[FigureData], Looks] | None = None
    x_categories: bool = False  # the kind groups by x: numbers are categories in ascending order
    x_axis: bool = True  # the kind has data.x along its axis
    y_axis: bool = True  # values lie along the y axis, and a reference is a line


def mix(color: Sequence[float], other: Sequence[float], share: float) -> tuple[float, ...]:
    """`color` with `share` of `other` in it."""
    return tuple((1 - share) * a + share * b for a, b in zip(color, other))


def contrast(face: Sequence[float]) -> str:
    """Black or white, which is visible on a face."""
    return "black" if 0.3 * face[0] + 0.59 * face[1] + 0.11 * face[2] > 0.4 else "white"


def hatch_of(origin: str, rank: int) -> str:
    """The hatch of the series of this rank; "" where its values are no predictions."""
    return HATCHES[origin][rank % len(HATCHES[origin])]


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
            hatch=hatch_of(series.origin, index),
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
    return float(data.place_of(x)) if data.x.scale == "category" else float(x)


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


def width_of(data: FigureData, kind: Kind, columns: int) -> float:
    """The width of the figure in inches: `columns` of a paper; for 0, two when one is too narrow."""
    if not kind.x_axis:
        slots = 4 * len(data.distinct_series())
    elif data.x.scale == "category":
        slots = len(data.categories()) * len(data.panels[0].series)
    else:
        slots = 1
    wide = columns == 2 if columns else (
        slots > 18 or len(data.panels) > 1 or len(data.distinct_series()) > 6)
    return style.current().two_columns if wide else style.current().one_column


def grid_shape(data: FigureData, kind: Kind, width: float) -> tuple[int, int]:
    """Rows and columns of panels; panels with many categories or names of rows are stacked."""
    count = len(data.panels)
    most = 3 if width > style.current().one_column else 1
    crowded = data.x.scale == "category" and (
        len(data.categories()) * len(data.panels[0].series) * min(count, 3) > 72)
    columns = 1 if crowded or not kind.y_axis else min(count, most)
    return -(-count // columns), columns


def panel_height(data: FigureData, kind: Kind) -> float:
    """The height of the axes of one panel in inches."""
    most_series = max(len(panel.series) for panel in data.panels)
    scale = style.current().one_column / style.STYLES["screen"].one_column
    return max(kind.height, kind.row_height * most_series) * scale


def set_scales(axes: Axes, data: FigureData, width: float) -> None:
    """Set the scales and, for categories, their names."""
    axes.set_yscale(data.y.scale)
    if data.x.scale != "category":
        axes.set_xscale(data.x.scale)
        axes.grid(True, axis="x")
        return
    names = [plain(str(x)) for x in data.categories()]
    axes.set_xlim(-0.6, len(names) - 0.4)
    turn_labels(axes, names, width)


def number_axes(axes: Axes, data: FigureData) -> None:
    """Number log axes by values that people read."""
    label_log(axes.yaxis)
    if data.x.scale != "log":
        return
    if len(data.categories()) <= 10:
        label_values(axes.xaxis, [float(x) for x in data.categories()])
    else:
        label_log(axes.xaxis)


def draw_reference(axes: Axes, data: FigureData) -> None:
    """Draw the horizontal line for comparison; its label is in the legend."""
    if data.reference is not None:
        axes.axhline(data.reference[0], color="#555555", linewidth=0.8, zorder=1.5)


def footer_text(data: FigureData, kind: Kind) -> str:
    """Caption, origin and provenance, and the missing values with their reasons."""
    origins = data.origins()
    origin = ", ".join(origins)
    if len(origins) == 1 and origin in ("measured", "counted"):
        origin = f"All values {origin}"
    elif "measured" in origins or "counted" in origins:
        origin = "Origin: " + origin + "; hatched, dashed or hollow = not measured"
    else:
        origin = "Not measured: all values " + origin
    explained = kind.explains.format(x=data.x.label)
    caption = data.caption if not data.caption or data.caption[-1] in ".!?" else data.caption + "."
    parts = [" ".join(part for part in (caption, data.facts, explained) if part),
             f"{origin}. {data.provenance}"]
    if data.missing:
        reasons = Counter(m.reason for m in data.missing)
        parts.append("Missing (x): " + ", ".join(f"{n} {r}" for r, n in reasons.items()))
    return "\n".join(part for part in parts if part)


def add_legend(figure: Figure, data: FigureData, kind: Kind, looks: Looks) -> Artist | None:
    """Add one legend above the panels, with as many columns as fit the width."""
    handles: list[Artist] = []
    labels: list[str] = []
    if kind.handle is not None:
        for series in data.distinct_series():
            handles.append(kind.handle(looks[series.name, series.origin]))
            labels.append(wrapped(series.label, 0.8 * figure.get_figwidth(), points(6.5)))
    if not kind.y_axis:  # colours and numbers have no axis that names them
        reference = f"; {data.reference[1]}" if data.reference is not None else ""
        handles.append(Line2D([], [], linestyle="none"))
        labels.append(wrapped("colours and numbers: " + data.y.label + reference,
                              0.8 * figure.get_figwidth(), points(6.5)))
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


def build(data: FigureData, kind: Kind, columns: int = 0) -> Figure:
    """Draw a figure in the style in use, `columns` of a paper wide (0: as it needs). The label of
    the figure is its caption. The caller closes it."""
    if data.kind != kind.name:
        raise FigureError(f"{data.id}: kind: expected {kind.name}, found {data.kind}")
    if kind.x_categories and data.x.scale != "category":
        data = data.in_categories()
    looks = (kind.looks or series_looks)(data)
    width, body = width_of(data, kind, columns), panel_height(data, kind)
    rows, columns = grid_shape(data, kind, width)
    numbers = kind.x_axis and data.x.scale != "category"
    figure, grid = plt.subplots(rows, columns, sharey=kind.y_axis, sharex=numbers, squeeze=False,
                                figsize=(width, body * rows))
    cells = list(grid.flat)
    for axes, panel in zip(cells, data.panels):
        set_scales(axes, data, 0.85 * width / columns)
        axes.set_label(panel.title)  # from which layout.arrange sets the title
        axes.set_title(wrapped(panel.title, 0.8 * width / columns, points(7)))
        kind.draw(axes, data, panel, looks)
        x_label = wrapped(data.x.label, 0.85 * width / columns, points(7)) if kind.x_axis else ""
        axes.set_xlabel(x_label)
        if kind.y_axis:
            draw_reference(axes, data)
        number_axes(axes, data)
    for axes in cells[len(data.panels):]:
        axes.remove()
    for axes in cells[:max(0, len(data.panels) - columns)]:  # the panel below has the labels
        axes.set_xlabel("")
        axes.tick_params(axis="x", labelbottom=False)
    for axes in cells[max(0, len(data.panels) - columns):len(data.panels)]:
        axes.tick_params(axis="x", labelbottom=True)
    for row in grid if kind.y_axis else ():  # there the colour bar has the label
        row[0].set_ylabel(wrapped(data.y.label, max(1.2, 1.1 * body), points(7)))
    caption = footer_text(data, kind)
    figure.set_label(f"{data.title}. {caption}" if data.title else caption)
    in_paper = style.current().in_paper
    arrange(figure, "" if in_paper else data.title, "" if in_paper else caption,
            add_legend(figure, data, kind, looks), body)
    return figure


def tex_system() -> str:
    """The LaTeX that measures the text of PGF."""
    for name in ("pdflatex", "lualatex", "xelatex"):
        if shutil.which(name):
            return name
    raise FigureError("pgf: LaTeX measures its text, and there is no pdflatex, lualatex or xelatex "
                      "(Debian, Ubuntu: apt-get install texlive-latex-recommended "
                      "texlive-pictures); pdf, png and svg need none")


def save(figure: Figure, folder: Path, name: str,
         formats: Sequence[str] = ("pdf", "png")) -> list[Path]:
    """Write NAME.FORMAT for every format, each completely or not at all, without dates inside. pgf
    takes a figure that was built for LaTeX."""
    metadata = {"pdf": {"CreationDate": None, "Subject": figure.get_label()},
                "png": {"Description": figure.get_label()},
                "svg": {"Date": None, "Description": figure.get_label()}}
    settings = {"svg.hashsalt": name, "pgf.rcfonts": False}
    if "pgf" in formats:
        settings["pgf.texsystem"] = tex_system()
    written = []
    for extension in formats:
        target = folder / f"{name}.{extension}"
        with new_file(target) as partial, plt.rc_context(settings):
            figure.savefig(partial, format=extension, **(
                {"metadata": metadata[extension]} if extension in metadata else {}))
        written.append(target)
    return written


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
        print("wrote", *save(figure, path.parent, data.id))
        plt.close(figure)
    except FigureError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
