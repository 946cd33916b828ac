"""Simulated products as they ran: what `tessera timeline` has written, for a page."""

import csv
import json
from pathlib import Path
from typing import Any

from frame import frame

MOST_SPANS = 20_000  # of thread blocks or operations; further ones are left out, which the page says


def spans(path: Path, launch: str) -> list[dict[str, Any]]:
    """The rows of one launch, their times as numbers."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.pop("launch") == launch]
    texts = {"operation"}
    return [{name: cell if name in texts else json.loads(cell) for name, cell in row.items()}
            for row in rows]


def read_timeline(folder: Path) -> dict[str, Any]:
    """A folder of `tessera timeline`. Raises OSError for one that is none."""
    lines = [json.loads(line) for line in
             (folder / "timeline.jsonl").read_text(encoding="utf-8").splitlines()]
    about = next(line for line in lines if line.get("type") == "timeline")
    made = {"about": about, "environment": next((line for line in lines if line is not about), {})}
    for name in ("thread_blocks", "operations"):
        rows = spans(folder / f"{name}.csv", about["launch"])
        made[name] = frame(rows[:MOST_SPANS])
        made[f"{name}_left"] = max(0, len(rows) - MOST_SPANS)
    return made
