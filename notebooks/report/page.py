"""One self-contained HTML page of the document that `tessera report` writes.

    python3 notebooks/report/page.py DOCUMENT.json PAGE.html

The page holds everything it shows: style, scripts, libraries and data. Its content security policy
forbids it any request. The data is JSON inside a script element, where no text can end the element;
the scripts put it on the page as text, never as HTML.
"""

import html
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import tomllib
from frame import flat, frame, rounded
from libraries import MissingLibraryError, scripts
from timelines import read_timeline

HERE = Path(__file__).parent
STYLES = ("page.css", "point.css")
SCRIPTS = ("format.js", "charts.js", "heatmap.js", "figures.js", "tables.js", "explorer.js",
           "timeline.js", "point.js", "page.js")
POLICY = ("default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
          "img-src data:; base-uri 'none'; form-action 'none'")
USUAL_COLUMNS = ("matrix", "nnz", "n", "right", "case", "step", "reorder", "format", "kernel",
                 "model", "device", "origin", "time_us", "gflops", "bound_by", "smape_pct",
                 "bound_ratio", "mean_nnz_tc", "reorder_s", "pack_s", "status")
LONGEST_LIST = 64  # elements of a list in a record that the page keeps


def embedded(data: Any) -> str:
    """JSON that can stand in a script element: it holds no "<", so nothing in it ends the element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")


def palette() -> list[str]:
    """The colours of all figures, in their order."""
    sheet = (HERE.parent / "tessera.mplstyle").read_text(encoding="utf-8")
    colors = re.search(r"^axes\.prop_cycle: cycler\('color', \[(.*)\]\)", sheet, re.MULTILINE)
    return ["#" + color for color in re.findall(r"'(\w{6})'", colors[1])]


def render(data: dict[str, Any]) -> str:
    """The page as text."""
    def read(name: str) -> str:
        return (HERE / name).read_text(encoding="utf-8")

    code = "\n".join(f"<script>\n{script}\n</script>" for script in
                     [*scripts(), *(read(name) for name in SCRIPTS)])
    return read("page.html").format(
        title=html.escape(data["title"]), policy=POLICY, data=embedded(data | {"palette": palette()}),
        scripts=code,
        style="\n".join(read(name) for name in STYLES))


def write(path: Path, data: dict[str, Any]) -> None:
    """Writes a page completely or not at all."""
    sys.path.append(str(HERE.parent))
    from new_file import new_file

    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as partial:
        partial.write_text(render(data), encoding="utf-8")


def rounded_figure(figure: dict[str, Any]) -> dict[str, Any]:
    """A figure whose points have shorter numbers."""
    for panel in figure.get("panels", [figure]):
        for series in panel["series"]:
            series["points"] = [{key: rounded(value) for key, value in point.items()}
                                for point in series["points"]]
    return figure


def kept(value: Any) -> Any:
    """A leaf of a record; of a list that is too long, its length."""
    if isinstance(value, list) and len(value) > LONGEST_LIST:
        return f"{len(value)} values"
    return value


def records_frame(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Records with every leaf in a column of its own, named by its JSON pointer."""
    return frame([{path: kept(value) for path, value in flat(record).items()}
                  for record in records], digits=False)


def reasons(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How many points failed, by status and reason, the most frequent first."""
    counts = Counter((r.get("status", ""), r.get("reason", "")) for r in records
                     if r.get("status") not in ("ok", "skipped"))
    return [{"status": status, "reason": reason, "count": count}
            for (status, reason), count in counts.most_common()]


def points_table(experiment: dict[str, Any]) -> dict[str, Any]:
    """The table of all points, and what the figure above it shows first."""
    present = {name for row in experiment["rows"] for name in row}
    varying = [name for name in USUAL_COLUMNS if name in present]
    return {"id": "points", "title": "All points", "columns": varying, "explore": True}


def asked(config: str) -> dict[str, str]:
    """The question that a config answers, and the paper with its figure, as far as it says so."""
    table = tomllib.loads(config).get("experiment", {})
    source = [table[key] for key in ("paper", "figure") if table.get(key)]
    return {"question": table.get("question", ""), "paper": ", ".join(source)}


def section(experiment: dict[str, Any]) -> dict[str, Any]:
    """One experiment as a section of the page."""
    records = experiment["records"]
    tables = [points_table(experiment)]
    if "table" in experiment:
        tables.insert(0, {"id": "table", "title": "Table", **experiment["table"]})
    return {
        "id": experiment["id"],
        "title": experiment.get("title") or experiment["id"],
        **asked(experiment.get("config", "")),
        "path": Path(experiment["path"]).name if "path" in experiment else "",
        "hash": experiment.get("hash", ""),
        "config": experiment.get("config", ""),
        "folder": experiment["folder"],
        "planned": experiment.get("planned"),
        "environments": experiment["environments"],
        "statuses": Counter(r.get("status", "") for r in records),
        "origins_count": Counter(r["origin"] for r in records if r.get("origin")),
        "skips": experiment["skips"],
        "reasons": reasons(records),
        "verdicts": experiment.get("expectations", []),
        "figures": [rounded_figure(figure) for figure in experiment.get("figures", [])],
        "empty_figures": experiment.get("empty_figures", []),
        "rows": frame(experiment["rows"]),
        "groups": experiment["groups"],
        "origins": experiment["origins"],
        "tables": tables,
        "records": records_frame(records),
    }


def used_columns(document: dict[str, Any]) -> dict[str, str]:
    """The meanings of the columns that occur."""
    used = {name for experiment in document["experiments"] for row in experiment["rows"]
            for name in row}
    return {name: text for name, text in document["columns"].items() if name in used}


def page_of(document: dict[str, Any]) -> dict[str, Any]:
    """The data of a page of all experiments in the document."""
    sections = [section(experiment) for experiment in document["experiments"]]
    return {"title": ", ".join(s["title"] for s in sections), "made": document["made"],
            "columns": used_columns(document), "sections": sections, "links": [],
            "timelines": [read_timeline(Path(folder)) for folder in document["timelines"]]}


def main(arguments: list[str]) -> int:
    """The command; 0, 2 for a wrong call, 5 without the libraries."""
    if len(arguments) != 2:
        print("usage: page.py DOCUMENT.json PAGE.html", file=sys.stderr)
        return 2
    document = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    try:
        write(Path(arguments[1]), page_of(document))
    except MissingLibraryError as error:
        print(f"error: {error}", file=sys.stderr)
        return 5
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
