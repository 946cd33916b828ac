"""Committed results as the tables and figures of a page: CSV files, and the configs they come from.

`tessera figure` writes a CSV file with the columns panel, series, origin, x, y beside each picture.
Such a file is drawn again, as the [[figure]] of a shipped config says that has its name and columns,
or as its numbers suggest. Every other CSV file is a table.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomllib

FIGURE_COLUMNS = ["panel", "series", "origin"]
INFINITE = 1e300  # how records write infinity
DRAWING = ("kind", "x_scale", "y_scale", "x_label", "y_label")  # keys of a [[figure]]
MANY_SERIES = 8  # from here on bars would be too thin to compare


def value(text: str) -> Any:
    """A cell as JSON: a number, true or false, text, or None for an empty one."""
    if text in ("", "true", "false"):
        return {"": None, "true": True, "false": False}[text]
    for kind in (int, float):
        try:
            found = kind(text)
        except ValueError:
            continue
        return found if abs(found) <= INFINITE else text  # "nan" and "inf" stay text
    return text


def read_csv(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """The header and the rows of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        rows = [{name: value(cell or "") for name, cell in row.items() if name is not None}
                for row in reader]
        return list(reader.fieldnames or []), rows


def is_figure(header: list[str]) -> bool:
    """True for the data of a figure."""
    return header[:3] == FIGURE_COLUMNS and len(header) >= 5


def shipped_figures(configs: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every [[figure]] of the configs in a folder, with the names its file may have."""
    for path in sorted(configs.glob("*.toml")):
        config = tomllib.loads(path.read_text(encoding="utf-8"))
        for figure in config.get("figure", []):
            yield path.stem, figure


def find_figure(configs: Path, name: str, x: str, y: str) -> dict[str, Any]:
    """What the configs say of a CSV file called `name`. One that is named after its config is that
    config's figure. Of a name that several configs may have given, only the way to draw it is taken,
    and only where they agree: a title or a caption would be a guess."""
    fitting = [(config, figure) for config, figure in shipped_figures(configs)
               if (figure.get("x"), figure.get("y")) == (x, y)]
    for config, figure in fitting:
        if name in (config, f"{config}_{figure.get('id', figure['kind'])}"):
            return figure
    alike = [figure for _, figure in fitting if figure.get("id", figure["kind"]) == name]
    drawing = {key: alike[0].get(key) for key in DRAWING} if alike else {}
    agreed = all(figure.get(key) == drawing[key] for figure in alike for key in DRAWING)
    return {key: found for key, found in drawing.items() if found is not None} if agreed else {}


def spans(numbers: list[float], times: float) -> bool:
    """True when positive numbers lie so far apart that a linear axis would hide most of them."""
    return bool(numbers) and min(numbers) > 0 and max(numbers) > times * min(numbers)


def scale_of(xs: list[Any], kind: str) -> str:
    """The scale of an x axis whose config has none, as `tessera figure` chooses it."""
    if kind not in ("lines", "scatter") or not all(isinstance(x, (int, float)) for x in xs):
        return "category"
    return "log" if spans(xs, 16) else "linear"


def suggested(rows: list[dict[str, Any]], x: str, y: str) -> dict[str, Any]:
    """A kind and scales for a figure that no config describes."""
    xs, ys = [row[x] for row in rows], [row[y] for row in rows if row[y] is not None]
    if all(isinstance(at, (int, float)) for at in xs):
        few = len(set(xs)) <= 24 and len(set(xs)) < len(xs)
        return {"kind": "lines" if few else "scatter",
                "y_scale": "log" if spans(ys, 50) else "linear"}
    many = len({row["series"] for row in rows}) >= MANY_SERIES
    return {"kind": "heatmap" if many else "bars", "y_scale": "log" if spans(ys, 200) else "linear"}


def has_place(y: Any, scale: str) -> bool:
    """True for a number that the axis can show."""
    return isinstance(y, (int, float)) and abs(y) < INFINITE and (scale != "log" or y > 0)


def point(row: dict[str, Any], x: str, y: str, category: bool, scale: str) -> dict[str, Any]:
    """One value of a figure, as in the JSON of `tessera figure`."""
    at = row[x]
    made = {"x": str(at) if category else at, "y": row[y] if has_place(row[y], scale) else None}
    for name in ("low", "high", "bound"):
        if has_place(row.get(name), scale) and (name == "bound" or has_place(row.get("high"), scale)):
            made[name] = row[name]
    return made


def figure(path: Path, configs: Path, caption: str) -> dict[str, Any]:
    """A figure's CSV file as the figure; `caption` stands for a title where no config has one."""
    header, rows = read_csv(path)
    x, y = header[3], header[4]
    rows = [row for row in rows if row[x] is not None]
    known = find_figure(configs, path.stem, x, y) or suggested(rows, x, y)
    x_scale = known.get("x_scale") or scale_of([row[x] for row in rows], known["kind"])
    y_scale = known.get("y_scale", "linear")
    panels: dict[str, dict[tuple[str, str], list[dict[str, Any]]]] = {}
    for row in rows:
        series = panels.setdefault(str(row["panel"] or ""), {})
        series.setdefault((str(row["series"]), str(row["origin"] or "")), []).append(
            point(row, x, y, x_scale == "category", y_scale))
    made = {
        "id": path.stem, "kind": known["kind"], "title": known.get("title") or caption or path.stem,
        "caption": known.get("caption", ""), "provenance": path.name,
        "x": {"label": known.get("x_label", x), "scale": x_scale},
        "y": {"label": known.get("y_label", y), "scale": y_scale},
        "panels": [{"title": title, "series": [
            {"name": name, "origin": origin, "points": points}
            for (name, origin), points in series.items()]} for title, series in panels.items()],
    }
    if "normalise" in known:
        made["reference"] = {"y": 1, "label": f"{known['normalise']} = 1"}
    elif "reference" in known:
        made["reference"] = {"y": known["reference"], "label": known.get("reference_label", "")}
    return made
