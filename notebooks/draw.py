"""Draws figure files, as `tessera figure` does.

    python3 notebooks/draw.py [--style acm] [--columns 2] [--format pdf,pgf] FILE.json...

Each picture goes beside its file and takes its id. --captions FILE writes what a picture in a paper
leaves to LaTeX: a JSON object of the captions by id.
"""

import argparse
import importlib
import json
import needs  # noqa: F401  looks for a Python that has what follows
import sys
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

from figure import FORMATS, arguments, build, save
from figure_data import FigureError, load
from style import STYLES, use_style


def format_list(text: str) -> list[str]:
    """The formats in a list like pdf,pgf."""
    formats = text.split(",")
    for name in formats:
        if name not in FORMATS:
            raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(FORMATS)}")
    return list(dict.fromkeys(formats))


def options(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="draw.py", description="Draws figure files.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.json")
    parser.add_argument("--style", choices=STYLES, default="screen")
    parser.add_argument("--columns", type=int, choices=(0, 1, 2), default=0,
                        help="columns of a paper that a figure takes; 0: as it needs")
    parser.add_argument("--format", dest="formats", type=format_list, default=["pdf", "png"],
                        help=f"some of {','.join(FORMATS)}")
    parser.add_argument("--captions", type=Path, help="where the captions go, as JSON")
    return parser.parse_args(words)


def main() -> int:
    """The command line; 0, or 2 with a message on stderr."""
    given = options(arguments())
    matplotlib.use("Agg")
    captions = {}
    try:
        for path in given.files:
            data = load(path)
            kind = importlib.import_module(data.kind).KIND
            for is_latex in (False, True):
                formats = [name for name in given.formats if (name == "pgf") == is_latex]
                if not formats:
                    continue
                use_style(given.style, is_latex)
                figure = build(data, kind, given.columns)
                captions[data.id] = figure.get_label()
                written = save(figure, path.parent, data.id, formats)
                if given.captions is None:  # else the caller says so
                    print("wrote", *written)
                plt.close(figure)
    except FigureError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.captions is not None:
        given.captions.write_text(json.dumps(captions), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
