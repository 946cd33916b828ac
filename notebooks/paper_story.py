"""What the stories of the papers share: matrices as tiles, runs of the program, claims.

A story is notebooks/story_PAPER.py. It takes a folder for records and figures, out/story_PAPER
when none is given, and needs neither a GPU nor files of matrices.
"""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from claims import HEADS, ROOT, SIDES, Claim, cell_text, judged_papers
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from spy import (
    Pattern,
    SpyError,
    call_program,
    moved,
    program,
    provenance,
    read_matrix,
    read_order,
)

from figure import arguments, save, use_style
from layout import wrapped
from style import TWO_COLUMNS

COLOURS = "cividis_r"
RAN = 0, 6, 7  # exit codes of a run: also where a paper's number was not met, or could not be judged


class Story:
    """One story: its folder, and the program's answers in it."""

    def __init__(self, name: str) -> None:
        use_style()
        self.name = name
        self.folder = Path((arguments() or [f"out/{name}"])[0])
        self.folder.mkdir(parents=True, exist_ok=True)

    def tessera(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """The program's output; the command is printed as one would type it."""
        print("$ tessera", *(f"'{word}'" if re.search(r"[^\w=@.,:/-]", word) else word
                             for word in words), flush=True)
        done = subprocess.run([program(), *words], capture_output=True, text=True, check=False)
        if done.returncode not in codes:
            raise SpyError(f"tessera {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def matrix(self, spec: str) -> Pattern:
        """The nonzeros of a matrix by formula."""
        return read_matrix(spec, self.folder)

    def reordered(self, spec: str, order: str, *settings: str) -> Pattern:
        """The matrix in another order of its rows and, where that moves them, its columns."""
        rows, cols = self.folder / "rows.npy", self.folder / "cols.npy"
        words = ["reorder", spec, "--with", order, "--out", str(rows)]
        words += [word for setting in settings for word in ("--set", setting)]
        facts = json.loads(call_program(*words, "--json"))
        if facts["moves_columns"]:
            call_program(*words, "--out-cols", str(cols))
        before = self.matrix(spec)
        new_cols = before.cols
        if facts["moves_columns"]:
            new_cols = moved(before.cols, read_order(cols, before.shape[1]))
        return Pattern(before.shape, moved(before.rows, read_order(rows, before.shape[0])), new_cols)

    def product(self, spec: str, kernel: str, *words: str) -> None:
        """One product: emulated and checked, then simulated on an H200."""
        print(self.tessera("multiply", spec, "--kernel", kernel, *words))
        simulated = self.tessera("multiply", spec, "--kernel", kernel, *words, "--backend",
                                 "simulate")
        print("\n".join(line for line in simulated.splitlines()
                        if line.startswith(("origin", "predicted", "limit", "GFLOP"))))

    def paper_figure(self, config: str, only: str, *sets: str) -> None:
        """Runs a config on this machine, draws one of its figures and shows it."""
        folder = self.folder / config
        words = [word for one in sets for word in ("--set", one)]
        self.tessera("run", config, "--out", str(folder), *words, codes=RAN)
        self.tessera("figure", config, "--out", str(folder), "--only", only, *words)
        self.show_file(folder / f"{only}.png")

    def show_file(self, path: Path) -> None:
        """Shows a picture in a notebook; a script says where it is."""
        print("wrote", path)
        if "ipykernel" in sys.modules:
            from IPython.display import Image, display

            display(Image(filename=str(path)))

    def show(self, figure: Figure, name: str, origin: str = "counted") -> None:
        """Saves a figure of the story's own, which says where its values come from."""
        figure.supxlabel(wrapped(f"All values {origin}. {provenance()}", TWO_COLUMNS, 5.5),
                         size=5.5, color="#444444", x=0.01, ha="left")
        print("wrote", *save(figure, self.folder, name))
        if "ipykernel" in sys.modules:
            plt.show()
        plt.close(figure)


# --- tiles ------------------------------------------------------------------------------------------


def condensed(pattern: Pattern, height: int) -> Pattern:
    """Every row window's active columns, packed to the left: the column becomes its rank among
    those of the window."""
    window = pattern.rows.astype(np.int64) // height
    pairs, rank = np.unique(window * pattern.shape[1] + pattern.cols, return_inverse=True)
    first = np.searchsorted(pairs, np.arange(window.max() + 1) * pattern.shape[1])
    return Pattern(pattern.shape, pattern.rows, rank - first[window])


def tile_counts(pattern: Pattern, height: int, width: int) -> np.ndarray:
    """The nonzeros of every tile, [tiles down, tiles across]."""
    down, across = (-(-size // step) for size, step in zip(pattern.shape, (height, width)))
    counts = np.zeros((down, across), dtype=np.int64)
    np.add.at(counts, (pattern.rows // height, pattern.cols // width), 1)
    return counts


def draw_tiles(axes: Axes, pattern: Pattern, height: int, width: int, title: str) -> np.ndarray:
    """A small matrix: its nonzeros as dots, each nonempty tile coloured by how full it is. Returns
    the nonzeros of the nonempty tiles."""
    counts = tile_counts(pattern, height, width)
    area = height * width
    down, across = counts.shape
    axes.imshow(np.where(counts > 0, counts / area, np.nan), cmap=COLOURS, norm=Normalize(0, 1),
                extent=(0, across * width, down * height, 0), interpolation="nearest",
                aspect="equal", alpha=0.75)
    axes.plot(pattern.cols + 0.5, pattern.rows + 0.5, ".", color="black", markersize=1,
              linestyle="none")
    axes.set_xticks(np.arange(across + 1) * width, minor=True)
    axes.set_yticks(np.arange(down + 1) * height, minor=True)
    axes.grid(False)
    axes.grid(which="minor", color="#bbbbbb", linewidth=0.3)
    axes.tick_params(which="minor", length=0)
    full = counts[counts > 0]
    axes.set_title(f"{title}\n{len(full)} tiles of {height} x {width}, {full.mean():.1f} nonzeros each")
    axes.set_xlabel("column")
    axes.set_ylabel("row")
    return full


def side_by_side(count: int = 2, height: float = 3.6) -> tuple[Figure, list[Axes]]:
    """A figure of two columns' width with that many pictures."""
    figure, axes = plt.subplots(1, count, figsize=(TWO_COLUMNS, height), layout="constrained")
    return figure, list(axes)


# --- claims -----------------------------------------------------------------------------------------


def tell_claims(paper: str) -> None:
    """Prints the claims of a paper and their verdicts, judged from the committed tables."""
    for claim in claims_of(paper):
        unit = claim.entry.get("unit", "")
        lines = [f"* {claim.entry['text']} ({claim.entry['source']}): {claim.verdict}"]
        for number in claim.numbers:
            cells = {HEADS[side].strip("*"): cell_text(number.cells[side], unit, side)
                     for side in SIDES}  # fmt: skip
            told = [f"{name} {text}" for name, text in {"paper": number.paper, **cells}.items()
                    if text]
            lines.append(f"    {number.name}: {', '.join(told)}".replace("    : ", "    "))
        for line in (*lines, *(f"    {why}" for why in claim.why)):
            indent = " " * (len(line) - len(line.lstrip(" ")) + 2)
            print(textwrap.fill(line, 100, subsequent_indent=indent))


def claims_of(paper: str) -> list[Claim]:
    """The judged claims of a paper, by the name at the head of its claims file."""
    return [claim for one in judged_papers(ROOT) if one.entry["title"] == paper
            for claim in one.claims]  # fmt: skip
