"""The JSON description of one figure, as `tessera figure` writes it, read and checked.

`tessera figure` has selected, reduced and normalised the numbers; this module does not change them.
Every fault is a FigureError that names the file and the key, e.g.
`speed.json: series[2].points[0].y: expected a number or null, found "fast"`.
"""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from safe_text import escaped

ORIGINS = ("measured", "counted", "modelled", "simulated", "emulated")


class FigureError(Exception):
    """The figure file is missing, is not JSON, or breaks the schema."""


def known_kinds(folder: Path = Path(__file__).parent) -> tuple[str, ...]:
    """The names of the figure kinds: the scripts of a folder that define KIND, sorted."""
    return tuple(sorted(
        script.stem for script in folder.glob("*.py")
        if re.search(r"^KIND = Kind\(", script.read_text(encoding="utf-8"), re.MULTILINE)))


@dataclass(frozen=True)
class Point:
    """One value; y is None where the record is missing. low and high enclose the spread; bound is
    the theoretical upper limit of y."""

    x: str | float
    y: float | None
    low: float | None = None
    high: float | None = None
    bound: float | None = None


@dataclass(frozen=True)
class Series:
    """The values of one name that share one origin."""

    name: str
    origin: str
    points: tuple[Point, ...]

    @property
    def predicted(self) -> bool:
        """True when the numbers were neither measured nor counted."""
        return self.origin not in ("measured", "counted")

    @property
    def label(self) -> str:
        """The legend text; the origin of a prediction is part of it."""
        is_complete = not self.predicted or self.name == self.origin
        return self.name if is_complete else f"{self.name} ({self.origin})"


@dataclass(frozen=True)
class Panel:
    """One set of axes."""

    title: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Axis:
    """Label and scale: category (x only), linear or log."""

    label: str
    scale: str


@dataclass(frozen=True)
class Missing:
    """A missing point and the reason."""

    series: str
    x: str | float
    reason: str


@dataclass(frozen=True)
class FigureData:
    """One figure, ready to draw."""

    id: str
    kind: str
    title: str
    caption: str  # words that nothing but a person knows
    facts: str  # what `tessera figure` derived from the data
    x: Axis
    y: Axis
    panels: tuple[Panel, ...]
    reference: tuple[float, str] | None
    provenance: str
    missing: tuple[Missing, ...]

    def categories(self) -> list[str | float]:
        """The distinct x values in the order of the series, also where some lack a value; numbers
        ascend."""
        return list(self._places)

    def place_of(self, x: str | float) -> int:
        """The place of x among them."""
        return self._places[x]

    @cached_property
    def _places(self) -> dict[str | float, int]:
        """The place of each category. Every mark of a figure asks for one."""
        distinct: list[str | float] = []
        for sequence in (*([p.x for p in s.points] for panel in self.panels for s in panel.series),
                         [m.x for m in self.missing]):
            if sequence == distinct:
                continue
            known, place = set(distinct), len(distinct)
            for x in reversed(sequence):
                if x in known:
                    place = distinct.index(x)
                else:
                    distinct.insert(place, x)
                    known.add(x)
        numbers = [as_number(x) for x in distinct]
        ordered = distinct if None in numbers else sorted(distinct, key=float)
        return {x: place for place, x in enumerate(ordered)}

    def in_categories(self) -> "FigureData":
        """The same figure with a category for every number on the x axis."""
        panels = tuple(replace(panel, series=tuple(
            replace(s, points=tuple(replace(p, x=f"{p.x:g}") for p in s.points))
            for s in panel.series)) for panel in self.panels)
        return replace(self, x=Axis(self.x.label, "category"), panels=panels,
                       missing=tuple(replace(m, x=f"{m.x:g}") for m in self.missing))

    def has_bounds(self) -> bool:
        """True when any point has a bound."""
        return any(p.bound is not None
                   for panel in self.panels for s in panel.series for p in s.points)

    def distinct_series(self) -> list[Series]:
        """The first series of each (name, origin), in order, over all panels."""
        first: dict[tuple[str, str], Series] = {}
        for panel in self.panels:
            for series in panel.series:
                first.setdefault((series.name, series.origin), series)
        return list(first.values())

    def origins(self) -> list[str]:
        """The origins that occur, measured first."""
        present = {s.origin for s in self.distinct_series()}
        return [origin for origin in ORIGINS if origin in present]


def as_number(x: str | float) -> float | None:
    """The number that a category is; None for any other name."""
    try:
        return float(x)
    except ValueError:
        return None


class Node:
    """A JSON value with its file and key, which errors name."""

    def __init__(self, value: Any, file: str, key: str = "") -> None:
        self.value = value
        self.file = file
        self.key = key

    def fail(self, expected: str) -> FigureError:
        """The error for a value that is not what was expected."""
        found = json.dumps(self.value, default=str)
        found = found if len(found) <= 60 else found[:57] + "..."
        return FigureError(
            f"{self.file}: {self.key or 'top level'}: expected {expected}, found {found}"
        )

    def get(self, key: str, required: bool = True) -> Optional["Node"]:
        """The member of an object; None if it is absent and not required."""
        path = f"{self.key}.{key}" if self.key else key
        if not isinstance(self.value, dict):
            raise self.fail("an object")
        if key in self.value:
            return Node(self.value[key], self.file, path)
        if required:
            raise FigureError(f"{self.file}: {path}: this key is missing")
        return None

    def items(self) -> Iterable["Node"]:
        """The elements of a list."""
        if not isinstance(self.value, list):
            raise self.fail("a list")
        return [Node(v, self.file, f"{self.key}[{i}]") for i, v in enumerate(self.value)]

    def text(self) -> str:
        """A string, its control characters escaped but for the ends of lines."""
        if not isinstance(self.value, str):
            raise self.fail("a string")
        return escaped(self.value, kept="\n")

    def one_of(self, allowed: Iterable[str]) -> str:
        """One of a few strings."""
        if self.value not in list(allowed):
            raise self.fail("one of " + ", ".join(allowed))
        return self.value

    def number(self) -> float:
        """A finite number; true and false are not numbers."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise self.fail("a number")
        if not math.isfinite(self.value):
            raise self.fail("a finite number")
        return float(self.value)

    def optional_number(self, key: str, required: bool = False) -> float | None:
        """A member that is a number, null or (unless required) absent."""
        member = self.get(key, required)
        return None if member is None or member.value is None else member.number()

    def optional_text(self, key: str) -> str:
        """A member that is a string or absent."""
        member = self.get(key, required=False)
        return "" if member is None else member.text()


def read_x(node: Node, scale: str) -> str | float:
    """An x value: text for categories (a number is written out), else a number."""
    if scale == "category":
        return node.text() if isinstance(node.value, str) else f"{node.number():g}"
    value = node.number()
    if scale == "log" and value <= 0:
        raise node.fail("a positive number (x.scale is log)")
    return value


def read_point(node: Node, x_scale: str, y_scale: str) -> Point:
    """One point; its spread must enclose it and a log axis needs positive values."""
    y = node.optional_number("y", required=True)
    low, high = node.optional_number("low"), node.optional_number("high")
    bound = node.optional_number("bound")
    if y_scale == "log" and any(v is not None and v <= 0 for v in (y, low, bound)):
        raise node.fail("positive y, low and bound (y.scale is log)")
    if y is not None and ((low is not None and low > y) or (high is not None and high < y)):
        raise node.fail("low <= y <= high")
    return Point(read_x(node.get("x"), x_scale), y, low, high, bound)


def read_series(nodes: Node, x_scale: str, y_scale: str) -> tuple[Series, ...]:
    """A list of series; name and origin together must be unique."""
    result: list[Series] = []
    for node in nodes.items():
        name, origin = node.get("name").text(), node.get("origin").one_of(ORIGINS)
        if any((s.name, s.origin) == (name, origin) for s in result):
            raise node.get("name").fail(f"a name not yet used for a {origin} series")
        points = tuple(read_point(p, x_scale, y_scale) for p in node.get("points").items())
        xs = [p.x for p in points]
        if x_scale == "category" and len(set(xs)) != len(xs):
            raise node.get("points").fail("each x category at most once")
        result.append(Series(name, origin, points))
    if not result:
        raise nodes.fail("at least one series")
    return tuple(result)


def read_panels(root: Node, x_scale: str, y_scale: str) -> tuple[Panel, ...]:
    """The panels; a figure with plain `series` has one, without a title."""
    panels = root.get("panels", required=False)
    if panels is None:
        return (Panel("", read_series(root.get("series"), x_scale, y_scale)),)
    if root.get("series", required=False) is not None:
        raise FigureError(f"{root.file}: panels: expected either panels or series, found both")
    result = tuple(
        Panel(p.get("title").text(), read_series(p.get("series"), x_scale, y_scale))
        for p in panels.items()
    )
    if not result:
        raise panels.fail("at least one panel")
    return result


def read_reference(root: Node, y_scale: str) -> tuple[float, str] | None:
    """The reference line as (y, label), if there is one."""
    node = root.get("reference", required=False)
    if node is None or node.value is None:
        return None
    y = node.get("y").number()
    if y_scale == "log" and y <= 0:
        raise node.get("y").fail("a positive number (y.scale is log)")
    return y, node.get("label").text()


def read_missing(root: Node, x_scale: str) -> tuple[Missing, ...]:
    """The missing points, with the reason for each."""
    node = root.get("missing", required=False)
    if node is None:
        return ()
    return tuple(
        Missing(m.get("series").text(), read_x(m.get("x"), x_scale), m.get("reason").text())
        for m in node.items()
    )


def check(value: Any, file: str) -> FigureData:
    """Check a parsed JSON value against the schema; `file` is the name used in errors."""
    root = Node(value, file)
    schema = root.get("schema")
    if schema.number() != 1:
        raise schema.fail("schema 1")
    identity = root.get("id")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", identity.text()):
        raise identity.fail("a file name of letters, digits and _ . + -")
    x, y = root.get("x"), root.get("y")
    x_scale = x.get("scale").one_of(("category", "linear", "log"))
    y_scale = y.get("scale").one_of(("linear", "log"))
    return FigureData(
        id=identity.text(),
        kind=root.get("kind").one_of(known_kinds()),
        title=root.get("title").text(),
        caption=root.optional_text("caption"),
        facts=root.optional_text("facts"),
        x=Axis(x.get("label").text(), x_scale),
        y=Axis(y.get("label").text(), y_scale),
        panels=read_panels(root, x_scale, y_scale),
        reference=read_reference(root, y_scale),
        provenance=root.get("provenance").text(),
        missing=read_missing(root, x_scale),
    )


def load(path: Path) -> FigureData:
    """Read one figure file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FigureError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise FigureError(f"{path}: not JSON: {error}") from error
    return check(value, str(path))
