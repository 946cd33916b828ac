"""Text that fits: names under an axis, titles, the numbers of a log axis, title and footer."""

import re
import textwrap

import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from style import is_latex, points

LONG_NAME = 16  # letters: a longer name may be broken before its parameters
GAP = 0.04  # inches between title, legend, panels and footer
SLOPE = 0.64  # sine of the angle of sloping names
# Matplotlib takes the backslash off \$ before LaTeX sees it.
LATEX = {"\\": r"\textbackslash{}", "$": r"\textdollar{}", "^": r"\textasciicircum{}",
         "~": r"\textasciitilde{}"}
# The digits with which a decade of a log axis is labelled, from few to many.
DIGITS = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))


def plain(text: str) -> str:
    """Text that is drawn letter by letter: without formulas, and for LaTeX without its commands. It
    is for text that is not plain yet."""
    if not is_latex():
        return text.replace("$", r"\$")
    return re.sub(r"[\\$_&#%{}^~]", lambda special: LATEX.get(special[0], "\\" + special[0]), text)


def broken(name: str, longest: int = LONG_NAME) -> str:
    """A long name on two lines: rmat(scale=14, edge_factor=8) breaks before its parameters, words
    break in the middle."""
    if len(name) <= longest:
        return name
    if "(" in name[1:]:
        return re.sub(r"(?<=.) ?\(", "\n(", name, count=1)
    spaces = [at for at, letter in enumerate(name) if letter == " "]
    middle = min(spaces, key=lambda at: abs(at - len(name) / 2), default=None)
    return name if middle is None else f"{name[:middle]}\n{name[middle + 1:]}"


def wrapped(text: str, width: float, size: float, letter: float = 0.57) -> str:
    """Break lines so that text of `size` points fits `width` inches; `letter` is the mean width of
    a letter, relative to the size."""
    letters = max(10, int(width * 72 / (letter * size)))
    return "\n".join(plain(textwrap.fill(line, letters)) for line in text.split("\n"))


def inches(figure: Figure, artist: Artist) -> tuple[float, float]:
    """The drawn width and height of an artist in inches."""
    box = artist.get_window_extent(figure.canvas.get_renderer())
    return box.width / figure.dpi, box.height / figure.dpi


def text_width(axes: Axes, text: str, size: float) -> float:
    """The width in points of the longest line of a text."""
    renderer = axes.figure.canvas.get_renderer()
    font = FontProperties(size=size, family=plt.rcParams["font.family"])
    return max(renderer.get_text_width_height_descent(line, font, False)[0]
               for line in text.split("\n")) * 72 / axes.figure.dpi


def turn_labels(axes: Axes, names: list[str], width: float) -> None:
    """Put the category names at 0, 1, ...; `width` is the width of the axes in inches. Names that
    would touch are broken, sloped, upright, smaller, and at last only some of them are there."""
    pitch = 72 * width / max(1, len(names))
    size = plt.rcParams["xtick.labelsize"]
    line = 1.2 * size
    two_lines = [broken(name) for name in names]
    axes.tick_params(axis="x", length=0)
    if max((text_width(axes, name, size) for name in two_lines), default=0) + 0.6 * size < pitch:
        axes.set_xticks(range(len(names)), two_lines, rotation=0, ha="center",
                        rotation_mode="default")
    elif SLOPE * pitch > line:
        fits = SLOPE * pitch > 2 * line
        axes.set_xticks(range(len(names)), two_lines if fits else names, rotation=40, ha="right",
                        rotation_mode="anchor")
    else:
        size = max(0.6 * size, min(size, pitch / 1.15))
        step = max(1, round(size * 1.15 / pitch + 0.49))
        axes.set_xticks(range(0, len(names), step), names[::step], rotation=90, ha="center",
                        rotation_mode="default", fontsize=size)


def number(value: float) -> str:
    """A number on an axis: plain, or with a power of ten where it would have many zeros."""
    if 1e-3 <= abs(value) < 1e6 or value == 0:
        return f"{value:g}"
    digits, exponent = f"{value:.3e}".split("e")
    return rf"${float(digits):g}\times10^{{{int(exponent)}}}$"


def label_log(axis: Axis) -> None:
    """Label a log axis that spans less than two decades with at least three plain numbers, so that
    it does not have a single power of ten, or none."""
    low, high = axis.get_view_interval()
    if axis.get_scale() != "log" or high >= 100 * low or low <= 0:
        return
    decades = [10.0 ** exponent for exponent in range(-30, 31)]
    at: list[float] = []
    for digits in DIGITS:
        at = [decade * digit for decade in decades for digit in digits
              if low <= decade * digit * (1 + 1e-9) and decade * digit <= high * (1 + 1e-9)]
        if len(at) >= 3:
            break
    else:
        at = list(MaxNLocator(4).tick_values(low, high))
    axis.set_major_locator(FixedLocator(at[::-(-len(at) // 8)]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axis.set_minor_formatter(NullFormatter())


def label_values(axis: Axis, values: list[float]) -> None:
    """Label a log axis with the few values that occur: 16, 32, 64 are no powers of ten."""
    axis.set_major_locator(FixedLocator(values))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axis.set_minor_locator(NullLocator())


def arrange(figure: Figure, title: str, footer: str, legend: Artist | None, body: float) -> None:
    """Stack title, legend, panels and footer. The figure grows until the axes of each panel are
    `body` inches high; its width stays."""
    width = figure.get_figwidth()
    head = figure.text(0.5, 1, wrapped(title, width, points(8), 0.66), size=points(8),
                       weight="bold", ha="center", va="top")
    foot = figure.text(0.01, 0, wrapped(footer, width, points(5.5)), size=points(5.5),
                       color="#444444", ha="left", va="bottom", linespacing=1.25)
    title_height = inches(figure, head)[1] + GAP if title else 0.0
    legend_height = inches(figure, legend)[1] + GAP if legend is not None else 0.0
    above = title_height + legend_height + GAP
    below = inches(figure, foot)[1] + 2 * GAP if footer else 0.0
    rows = figure.axes[0].get_subplotspec().get_gridspec().nrows
    height = rows * (body + 1.5) + above + below  # room for any labels at first
    for _ in range(4):  # what tick labels and titles take follows from the size itself
        figure.set_size_inches(width, height)
        figure.tight_layout(pad=0.3, rect=(0, below / height, 1, 1 - above / height))
        for axes in figure.axes:
            if axes.get_title():  # a colour bar has none
                axes.title.set_text(wrapped(axes.get_label().replace("\n", " "),
                                            axes.get_position().width * width, points(7)))
        lacking = body - figure.axes[0].get_position().height * height
        if abs(lacking) < 0.02:
            break
        height += rows * lacking
    figure.draw_without_rendering()  # the numbers on the axes are final now
    figure.tight_layout(pad=0.3, rect=(0, below / height, 1, 1 - above / height))
    head.set_y(1 - GAP / height)
    foot.set_y(GAP / height)
    if legend is not None:
        legend.set_bbox_to_anchor((0.5, 1 - (title_height + GAP) / height))
        legend.borderaxespad = 0
