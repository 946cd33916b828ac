# %% [markdown]
# # What a kernel waits for
# Two figures of one simulated product. The first shows the warps of a thread block: their
# computations, their waits and their reads in flight, so that pipeline bubbles are visible as in
# Acc-SpMM's Fig. 5. The second shows all thread blocks on their SMs and their running times: the
# balance of Acc-SpMM's Fig. 6.

# %%
"""Timelines of simulated products, from the folders that `tessera timeline` writes.

    python3 notebooks/timeline.py FOLDER [OUT]
    python3 notebooks/timeline.py FOLDER FOLDER [OUT]         # one above the other, same time axis
    python3 notebooks/timeline.py FOLDER --us 4 --skip 10     # other 4 us of the thread block

Writes timeline_pipeline and timeline_balance, .pdf and .png, to OUT (default: the first FOLDER).
A folder is one that holds a timeline.jsonl. The pipeline figure shows the first --us microseconds
of the watched thread block (default 3), after --skip.
"""

import argparse
import needs  # noqa: F401  looks for a Python that has what follows
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from figure import arguments, save, use_style
from layout import inches, wrapped
from records import environment, read_lines
from style import TWO_COLUMNS

# The operations and the colour of each kind of bar. Reads lie above a warp's other bars; of those,
# the tensor core's are on top and have an edge, since an MMA is narrower than a dot.
READS = {"load in flight": (("load",), "#E69F00"),
         "asynchronous copy in flight": (("async_copy",), "#56B4E9")}
BUSY = {"waits for data": (("wait",), "#D0D0D0"),
        "waits at a barrier": (("barrier",), "#CC79A7"),
        "other instructions": (("issue", "pause", "shared"), "#007E5C"),
        "stores": (("store", "atomic", "exchange", "fence"), "#000000"),
        "tensor core": (("mma", "async_mma", "wait_mma"), "#0072B2")}
EDGES = {"tensor core": 0.7}  # points
BUSY_HEIGHT, READS_HEIGHT = 0.38, 0.48  # of a warp's row
BINS = 500  # of the time axis of the SMs
FILES = {"thread_blocks": ["launch", "thread_block", "sm", "start_us", "end_us"],
         "operations": ["launch", "warp", "operation", "start_us", "end_us"],
         "balance": ["low_us", "high_us", "thread_blocks"]}


class TimelineError(Exception):
    """A message for the user."""


@dataclass(frozen=True)
class Timeline:
    """One folder."""

    about: dict[str, Any]
    where: str  # machine, date and commit
    tables: dict[str, pd.DataFrame]

    @property
    def name(self) -> str:
        """The kernel and what it multiplies."""
        params = self.about["params"]
        order = params["reorder"]["name"]
        return (f"{params['kernel']['name']}, {self.about['matrix']}, N = {params['n']}"
                + ("" if order == "none" else f", order {order}"))

    def thread_blocks(self) -> pd.DataFrame:
        """The thread blocks of the launch that takes longest."""
        table = self.tables["thread_blocks"]
        return table[table["launch"] == self.about["launch"]]

    def operations(self) -> pd.DataFrame:
        """The operations of the watched thread block, with times since its start."""
        table = self.tables["operations"]
        since = self.about["thread_block_start_us"]
        return table.assign(start=table["start_us"] - since, end=table["end_us"] - since)


def read_folder(folder: Path) -> Timeline:
    """Checks that the value is one that `tessera timeline` writes."""
    lines = [r for r in read_lines(folder / "timeline.jsonl") if r.get("type") == "timeline"]
    if len(lines) != 1:
        raise TimelineError(f"{folder}/timeline.jsonl: expected one timeline, found {len(lines)}")
    tables = {}
    for name, columns in FILES.items():
        table = tables[name] = pd.read_csv(folder / f"{name}.csv")
        if list(table.columns) != columns:
            raise TimelineError(f"{folder}/{name}.csv: expected the columns {', '.join(columns)}, "
                                f"found {', '.join(table.columns)}")
    return Timeline(lines[0], environment(folder), tables)


# %%
def lanes(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The lane of each interval, the first free one; intervals are sorted by start."""
    free: list[float] = []  # when each lane is free again
    chosen = np.empty(len(starts), dtype=int)
    for i, (start, end) in enumerate(zip(starts, ends)):
        lane = next((k for k, since in enumerate(free) if since <= start), len(free))
        if lane == len(free):
            free.append(end)
        free[lane] = end
        chosen[i] = lane
    return chosen


def add_bars(axes: Axes, table: pd.DataFrame, low: np.ndarray, height: float, color: str,
             edge: float = 0) -> None:
    """Draws a rectangle per operation, with its lower edge at `low` and its upper edge `height`
    above; rows grow downwards."""
    left, right = table["start"].to_numpy(), table["end"].to_numpy()
    corners = [[(a, y), (b, y), (b, y - height), (a, y - height)]
               for a, b, y in zip(left, right, low)]
    axes.add_collection(PolyCollection(corners, facecolor=color, linewidth=edge,
                                       edgecolor=color if edge else "none"))


def draw_operations(axes: Axes, timeline: Timeline, skip: float, us: float) -> None:
    """Draws one row per warp, with reads in flight as thin bars above its other operations."""
    table = timeline.operations()
    warps = sorted(table["warp"].unique())
    table = table[(table["end"] > skip) & (table["start"] < skip + us)].sort_values("start")
    reads = table[table["operation"].isin([op for ops, _ in READS.values() for op in ops])]
    lane = pd.Series(0, index=reads.index)
    for _, rows in reads.groupby("warp"):
        lane[rows.index] = lanes(rows["start"].to_numpy(), rows["end"].to_numpy())
    thickness = READS_HEIGHT / max(1, int(lane.max() + 1) if len(lane) else 1)
    place = {warp: row for row, warp in enumerate(warps)}
    for operations, color in READS.values():
        rows = reads[reads["operation"].isin(operations)]
        low = rows["warp"].map(place) - lane[rows.index] * thickness
        add_bars(axes, rows, low.to_numpy(), 0.8 * thickness, color)
    for label, (operations, color) in BUSY.items():
        rows = table[table["operation"].isin(operations)]
        low = rows["warp"].map(place) + 0.04 + BUSY_HEIGHT
        add_bars(axes, rows, low.to_numpy(), BUSY_HEIGHT, color, EDGES.get(label, 0))
    end = timeline.about["thread_block_end_us"] - timeline.about["thread_block_start_us"]
    if skip < end < skip + us:
        axes.axvline(end, color="#555555", linewidth=0.8)
    axes.set_xlim(skip, skip + us)
    axes.set_ylim(len(warps) - 0.5, -0.55)
    axes.set_yticks(range(len(warps)), [f"{warp}" for warp in warps])
    axes.tick_params(axis="y", length=0)
    axes.grid(False)
    axes.set_ylabel("warp")
    waiting = timeline.operations().query("operation == 'wait'")
    share = (waiting["end"] - waiting["start"]).sum() / (len(warps) * end)
    about = (f"thread block {timeline.about['thread_block']}, {end:.3g} us in all, "
             f"{100 * share:.0f} % of them its warps wait for data")
    axes.set_title(wrapped(f"{timeline.name}\n{about}", 0.9 * TWO_COLUMNS, 7), loc="left")


def pipeline(timelines: list[Timeline], skip: float, us: float) -> Figure:
    """Draws the operations of the watched thread blocks, one above the other."""
    rows = [max(1, t.tables["operations"]["warp"].nunique()) for t in timelines]
    figure, axes = plt.subplots(len(timelines), 1, sharex=True, squeeze=False,
                                height_ratios=rows,
                                figsize=(TWO_COLUMNS, sum(0.42 * r + 0.5 for r in rows) + 0.2))
    for panel, timeline in zip(axes[:, 0], timelines):
        draw_operations(panel, timeline, skip, us)
    axes[-1, 0].set_xlabel("time since the thread block's start, us")
    seen = {op for t in timelines for op in t.tables["operations"]["operation"]}
    handles = [Patch(facecolor=color, label=label) for label, (ops, color)
               in {**READS, **BUSY}.items() if seen & set(ops)]
    figure.legend(handles=handles, ncol=min(4, len(handles)), loc="upper center")
    finish(figure, "Operations of one thread block (simulated)",
           "A thin bar is one line of memory on its way to the SM. White between a warp's bars: it "
           "issues reads. Bars of the tensor core are widened to be seen.",
           timelines, -(-len(handles) // 4))
    return figure


# %%
def occupancy(table: pd.DataFrame, edges: np.ndarray) -> np.ndarray:
    """The mean number of thread blocks on each SM, [SMs x bins], the SM that ends last first."""
    rows = []
    for _, blocks in sorted(table.groupby("sm"), key=lambda group: -group[1]["end_us"].max()):
        # Time spent on thread blocks up to every edge, then its differences.
        spent = sum(np.clip(edges[:, None] - at[None, :], 0, None).sum(axis=1) * sign
                    for at, sign in ((blocks["start_us"].to_numpy(), 1),
                                     (blocks["end_us"].to_numpy(), -1)))
        rows.append(np.diff(spent) / np.diff(edges))
    return np.round(rows, 6)  # differences of sums: none are 1e-12


def draw_balance(axes: tuple[Axes, Axes], timeline: Timeline, us: float, longest: float) -> Any:
    """Draws the thread blocks on SMs and, beside it, the distribution of their running times."""
    where, beside = axes
    resident, sms = timeline.about["resident_thread_blocks"], timeline.about["sms"]
    table = timeline.thread_blocks()
    picture = occupancy(table, np.linspace(0, us, BINS + 1)) / resident
    picture = np.vstack([picture, np.zeros((sms - len(picture), BINS))])
    image = where.imshow(picture, aspect="auto", cmap="cividis_r", vmin=0, vmax=1,
                         interpolation="nearest", extent=(0, us, sms, 0))
    image.set_data(np.where(picture > 0, picture, np.nan))  # white: no thread block
    where.grid(False)
    where.set_ylabel("SMs, last to end first")
    about = (f"{len(table)} thread blocks in {table['end_us'].max():.4g} us; the mean SM has some "
             f"for {100 * timeline.about['sm_balance']:.0f} % of that")
    where.set_title(wrapped(f"{timeline.name}\n{about}", 0.68 * TWO_COLUMNS, 7), loc="left")
    bins = timeline.tables["balance"]
    beside.bar(bins["low_us"], bins["thread_blocks"], width=bins["high_us"] - bins["low_us"],
               align="edge", facecolor="#BFDBEB", edgecolor="#0072B2", hatch="xxxxxx")
    beside.set_yscale("log")
    beside.set_ylim(bottom=0.5)
    beside.set_xlim(0, 1.02 * longest)
    beside.set_ylabel("thread blocks")
    return image


def balance(timelines: list[Timeline]) -> Figure:
    """Draws all thread blocks of the products, one above the other."""
    us = max(t.thread_blocks()["end_us"].max() for t in timelines)
    longest = max(t.tables["balance"]["high_us"].max() for t in timelines)
    figure, axes = plt.subplots(len(timelines), 2, sharex="col", squeeze=False, width_ratios=(3, 1),
                                figsize=(TWO_COLUMNS, 1.85 * len(timelines) + 0.4))
    for panels, timeline in zip(axes, timelines):
        image = draw_balance(panels, timeline, us, longest)
    axes[-1, 0].set_xlabel("time since the launch's start, us")
    axes[-1, 1].set_xlabel("time of a thread block, us")
    bar = figure.colorbar(image, ax=axes[:, 0].tolist(), pad=0.02, aspect=30)
    bar.set_label("thread blocks, of what an SM holds")
    bar.outline.set_visible(False)
    finish(figure, "Thread blocks on SMs (simulated)",
           "White: the SM has no thread block.", timelines, 0)
    return figure


def finish(figure: Figure, title: str, caption: str, timelines: list[Timeline],
           legend_rows: int) -> None:
    """Adds the title and the footer with origin and provenance, and makes room for both."""
    devices = ", ".join(dict.fromkeys(t.about["params"]["device"] for t in timelines))
    where = "; ".join(dict.fromkeys(t.where for t in timelines))
    text = f"{caption}\nNot measured: all values simulated, on a described {devices}. {where}"
    width, height = figure.get_size_inches()
    footer = figure.text(0.01, 0.01, wrapped(text, width, 5.5), size=5.5, color="#444444",
                         va="bottom", linespacing=1.25)
    below, above = inches(figure, footer)[1] + 0.05, 0.2 + 0.14 * legend_rows
    height += below + above
    figure.set_size_inches(width, height)
    footer.set_y(0.02 / height)
    figure.text(0.5, 1 - 0.03 / height, title, size=8, weight="bold", ha="center", va="top")
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0.5, 1 - 0.16 / height))
    figure.set_layout_engine("constrained", rect=(0, below / height, 1,
                                                  1 - (below + above) / height))


# %%
def options(words: list[str]) -> argparse.Namespace:
    """The command line: folders of timelines, and optionally the folder of the figures."""
    parser = argparse.ArgumentParser(prog="timeline.py", description="Timelines of products.")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER",
                        help="one or two, as `tessera timeline --out` writes them; then OUT")
    parser.add_argument("--us", type=float, default=3.0, help="of the thread block that are drawn")
    parser.add_argument("--skip", type=float, default=0.0, help="us before them")
    given = parser.parse_args(words)
    last = given.folders[-1]
    has_out = len(given.folders) > 1 and not (last / "timeline.jsonl").exists()
    given.to = given.folders.pop() if has_out else given.folders[0]
    if len(given.folders) > 2:
        parser.error("one or two folders of timelines, and one for the figures")
    if not (given.us > 0 and given.skip >= 0):
        parser.error(f"--us {given.us:g} --skip {given.skip:g}: expected a stretch of time")
    return given


def main() -> int:
    """The command line; 0, or 2 with a message on stderr."""
    given = options(arguments())
    matplotlib.use("Agg")
    use_style()
    try:
        timelines = [read_folder(folder) for folder in given.folders]
    except (TimelineError, OSError, KeyError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    given.to.mkdir(parents=True, exist_ok=True)
    for name, drawn in (("timeline_pipeline", pipeline(timelines, given.skip, given.us)),
                        ("timeline_balance", balance(timelines))):
        print("wrote", *save(drawn, given.to, name))
        plt.close(drawn)
    return 0


# %%
if __name__ == "__main__":
    sys.exit(main())
