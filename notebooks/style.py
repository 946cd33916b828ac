"""Where a figure is to stand: the width of a column, the size and the family of its text.

The look itself is in tessera.mplstyle, in sizes for the screen; a style scales it. In a paper, LaTeX
sets title and caption, so the styles of papers draw neither.
"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib import font_manager


@dataclass(frozen=True)
class Style:
    """Widths in inches, the size of the text in points, and its families by preference."""

    one_column: float
    two_columns: float
    text: float = 7
    families: tuple[str, ...] = ("DejaVu Sans",)
    in_paper: bool = False  # LaTeX sets title and caption
    line: float = 1  # factor of the widths of lines


# Widths of \columnwidth and \textwidth: acmart (sigconf) 241.147 pt and 506.295 pt, IEEEtran 252 pt
# and 516 pt, 72.27 pt an inch. Families: those of acmart and IEEEtran, then STIX (it resembles
# Times), which comes with matplotlib. A slide is 13.33 in wide.
STYLES = {
    "screen": Style(3.4, 7.1),
    "acm": Style(3.336, 7.005, 7, ("Linux Libertine O", "Libertinus Serif", "STIXGeneral"), True),
    "ieee": Style(3.487, 7.140, 8, ("Times New Roman", "Liberation Serif", "STIXGeneral"), True),
    "slides": Style(6.2, 12.6, 14, line=2),
}
TWO_COLUMNS = STYLES["screen"].two_columns
SHEET = Path(__file__).with_name("tessera.mplstyle")

_current = STYLES["screen"]
_is_latex = False


def current() -> Style:
    """The style in use."""
    return _current


def is_latex() -> bool:
    """True when LaTeX sets the text, in the fonts of its document."""
    return _is_latex


def points(size: float) -> float:
    """A size of text in the style in use, from the size on the screen, where labels have 7 points."""
    return size * _current.text / STYLES["screen"].text


def use_style(name: str = "screen", latex: bool = False) -> None:
    """Take a style, with LaTeX's text where that is wanted. Matplotlib is reset first, so that a
    user's settings cannot change a figure."""
    global _current, _is_latex
    _current, _is_latex = STYLES[name], latex
    matplotlib.rcdefaults()
    plt.style.use(SHEET)
    sheet = matplotlib.rc_params_from_file(SHEET, use_default_template=False)
    for key, value in sheet.items():
        if key.endswith(("titlesize", "labelsize", "fontsize", "font.size")):
            plt.rcParams[key] = points(value)
        elif key.endswith(("linewidth", "major.width", "minor.width", "major.size", "minor.size",
                           "markersize")):
            plt.rcParams[key] = value * _current.line
    if latex:
        plt.rcParams["font.family"] = ["serif" if _current.in_paper else "sans-serif"]
        return
    # Only TrueType outlines can be embedded as such (fonttype 42).
    known = {font.name for font in font_manager.fontManager.ttflist
             if font.fname.lower().endswith(".ttf")}
    plt.rcParams["font.family"] = [name for name in _current.families if name in known]
    plt.rcParams["mathtext.fontset"] = "stix" if _current.in_paper else "dejavusans"
