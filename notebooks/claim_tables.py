"""The numbers that a claim compares, computed from committed tables (CSV).

A *table* is a file of measured, counted, emulated or predicted rows. A *series* is one of its
columns for the rows that `where` selects, with one value for every key (a matrix, if nothing else
is said). A *measure* is an aggregate over keys of the quotient of two series, or of one series.
experiments/claims/README.md lists the keys of each in the claims' TOML files.
"""

import csv
import dataclasses
import operator
from collections.abc import Callable, Iterable
from math import exp, inf, isclose, log, prod
from pathlib import Path
from typing import Any

PREDICTED = ("simulated", "modelled")  # these never carry a verdict
ORIGINS = ("measured", "counted", "emulated", *PREDICTED)
COMPARISONS: tuple[tuple[str, Callable[[float, float], bool]], ...] = (
    (">=", operator.ge), ("<=", operator.le), (">", operator.gt), ("<", operator.lt))
CHANGES = ("scale", "plus", "least")  # of the values of a series
Key = tuple[str, ...]
Row = dict[str, str]


class ClaimError(Exception):
    """A claims file, or a table that it names, is wrong."""


class NoData(Exception):  # noqa: N818  an answer, not an error
    """No committed table has these rows; the argument is a sentence that says how to get them."""


@dataclasses.dataclass(frozen=True)
class Found:
    """A computed number."""

    value: float
    keys: int  # that it is computed from
    origin: str
    hits: int | None = None  # of a share: how many of the keys

    @property
    def is_predicted(self) -> bool:
        """True where a prediction is among the values."""
        return self.origin in PREDICTED


@dataclasses.dataclass(frozen=True)
class Values:
    """A series: the value of every key as text, and the origins of its rows."""

    cells: dict[Key, str]
    origins: frozenset[str]
    scale: float = 1
    plus: float = 0
    least: float = -inf

    def numbers(self, place: str) -> dict[Key, float]:
        """The values as numbers: scaled, with `plus` added, and `least` where they are less."""
        try:
            return {key: max(self.scale * float(cell) + self.plus, self.least)
                    for key, cell in self.cells.items()}  # fmt: skip
        except ValueError as error:
            raise ClaimError(f"{place}: {error}") from error


def refuse_unknown(entry: dict[str, Any], known: Iterable[str], place: str) -> None:
    """Refuses a key that nothing reads."""
    for key in entry:
        if key not in known:
            raise ClaimError(f"{place}: unknown key '{key}'; those are {', '.join(sorted(known))}")


def holds(cell: str, wanted: Any, place: str) -> bool:
    """True when a cell is as a condition wants it: a value, one of a list, "> 5", or {not = ...}."""
    if isinstance(wanted, dict):
        return not holds(cell, wanted["not"], place)
    if isinstance(wanted, list):
        return any(holds(cell, one, place) for one in wanted)
    if isinstance(wanted, bool):
        return cell.lower() == str(wanted).lower()
    if isinstance(wanted, str):
        for sign, compare in COMPARISONS:
            if wanted.startswith(sign):
                return cell != "" and compare(float(cell), float(wanted[len(sign):]))
        return cell == wanted
    try:
        return cell != "" and isclose(float(cell), wanted, rel_tol=1e-6)
    except ValueError as error:
        raise ClaimError(f"{place}: {error}, where a number is wanted") from error


class Tables:
    """The tables and series of a claims folder, read when they are first used."""

    TABLE_KEYS = ("file", "config", "missing", "origin", "columns", "quotients")
    SERIES_KEYS = ("table", "value", "where", "pick", "key", *CHANGES)

    def __init__(self, results: Path, tables: dict[str, Any], series: dict[str, Any]) -> None:
        self.results, self.tables, self.series = results, tables, series
        self.rows_of: dict[str, list[Row]] = {}
        for name, table in tables.items():
            refuse_unknown(table, self.TABLE_KEYS, f"table {name}")
            if "file" not in table or ("config" in table) == ("missing" in table):
                raise ClaimError(f"table {name}: it needs 'file', and 'config' or 'missing'")
        for name, entry in series.items():
            refuse_unknown(entry, self.SERIES_KEYS, f"series {name}")
            if entry.get("table") not in tables:
                raise ClaimError(f"series {name}: no table '{entry.get('table')}' is declared")

    def missing(self, table: str) -> str:
        """The sentence that says how to get the rows of a table."""
        entry = self.tables[table]
        return entry.get("missing") or f"To measure it: `tessera run {entry['config']}`."

    def rows(self, table: str) -> list[Row]:
        """All rows of a table. Raises NoData where the file is not there."""
        if table not in self.rows_of:
            entry = self.tables[table]
            path = self.results / entry["file"]
            if not path.exists():
                raise NoData(self.missing(table))
            with path.open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            constants = {name: str(value) for name, value in entry.get("columns", {}).items()}
            origin = {"origin": entry.get("origin", "")}
            self.rows_of[table] = [origin | row | constants for row in rows]
            for name, (above, below) in entry.get("quotients", {}).items():
                for row in self.rows_of[table]:
                    row[name] = str(float(row[above]) / float(row[below]))
        return self.rows_of[table]

    def values(self, name: str, where: dict[str, Any], key: list[str] | None = None) -> Values:
        """The values of a series under additional conditions."""
        if name not in self.series:
            raise ClaimError(f"no series '{name}' is declared")
        entry = self.series[name]
        rows = self.rows(entry["table"])
        conditions = entry.get("where", {}) | where
        place = f"series {name} of {self.tables[entry['table']]['file']}"
        keys = key or entry.get("key", ["matrix"])
        for column in (*conditions, *keys, entry["value"]):
            if rows and column not in rows[0]:
                raise ClaimError(f"{place}: there is no column '{column}'")
        found: dict[Key, list[Row]] = {}
        for row in rows:
            if row[entry["value"]] and all(holds(row[column], wanted, place)
                                           for column, wanted in conditions.items()):
                found.setdefault(tuple(row[column] for column in keys), []).append(row)
        if not found:
            raise NoData(self.missing(entry["table"]))
        picked = [self.picked(rows, entry, place) for rows in found.values()]
        origins = frozenset(row["origin"] for row in picked)
        for origin in origins:
            if origin not in ORIGINS:
                raise ClaimError(f"{place}: '{origin}' is no origin; those are {', '.join(ORIGINS)}")
        cells = dict(zip(found, (row[entry["value"]] for row in picked)))
        return Values(cells, origins, **{name: entry[name] for name in CHANGES if name in entry})

    @staticmethod
    def picked(rows: list[Row], entry: dict[str, Any], place: str) -> Row:
        """The row of a key that counts."""
        pick = entry.get("pick")
        if len(rows) == 1:
            return rows[0]
        if pick not in ("min", "max"):
            raise ClaimError(f"{place}: {len(rows)} rows of one key; add a condition, or pick = "
                             "\"min\" or \"max\"")  # fmt: skip
        return (min if pick == "min" else max)(rows, key=lambda row: float(row[entry["value"]]))


def geomean(values: list[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def median(values: list[float]) -> float:
    """The median; the mean of the two in the middle of an even number."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def ranks(values: list[float]) -> list[float]:
    """The rank of every value; equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def correlation(x: list[float], y: list[float]) -> float:
    """Pearson's correlation; 0 where one side does not vary."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    both = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y))
    apart = sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y)
    return both / apart ** 0.5 if apart else 0.0


def crossing(by_key: dict[Key, float]) -> float:
    """The least key, a number, from which on all values are above 1."""
    least = float("nan")
    for key in sorted(by_key, key=lambda key: float(key[0]), reverse=True):
        if by_key[key] <= 1:
            break
        least = float(key[0])
    return least


def growth(by_key: dict[Key, float]) -> float:
    """The value of the greatest key, a number, over that of the least one."""
    ordered = sorted(by_key, key=lambda key: float(key[0]))
    return by_key[ordered[-1]] / by_key[ordered[0]]


SIMPLE: dict[str, Callable[[list[float]], float]] = {
    "geomean": geomean, "mean": lambda values: sum(values) / len(values), "median": median,
    "min": min, "max": max, "sum": sum}
BY_KEY: dict[str, Callable[[dict[Key, float]], float]] = {"crossing": crossing, "growth": growth}
SHARES = ("share", "recall")
AGGREGATES = (*SIMPLE, *BY_KEY, *SHARES, "one", "rank_correlation", "correlation")
MEASURE_KEYS = ("aggregate", "of", "over", "with", "where", "only", "key", "root", "predict",
                "above")  # fmt: skip


class Measures:
    """Computes measures from tables."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def product(self, names: str | list[str], measure: dict[str, Any],
                place: str) -> tuple[dict[Key, float], frozenset[str]]:
        """The product of several series, for the keys that all of them have."""
        wanted = [names] if isinstance(names, str) else names
        series = [self.tables.values(name, measure.get("where", {}), measure.get("key"))
                  for name in wanted]
        numbers = [values.numbers(place) for values in series]
        shared = [key for key in numbers[0] if all(key in other for other in numbers)]
        origins = frozenset().union(*(values.origins for values in series))
        return {key: prod(values[key] for values in numbers) for key in shared}, origins

    def fitting(self, keys: Iterable[Key], conditions: dict[str, Any], place: str) -> set[Key]:
        """The keys whose values in other series are as wanted; a key that one lacks is out."""
        left = set(keys)
        for name, wanted in conditions.items():
            cells = self.tables.values(name, {}).cells
            left = {key for key in left
                    if key[:1] in cells and holds(cells[key[:1]], wanted, place)}
        return left

    def quotients(self, measure: dict[str, Any],
                  place: str) -> tuple[dict[Key, float], frozenset[str]]:
        """`of` over `over`, or its `root`, for the keys that both have and `only` admits."""
        above, origins = self.product(measure["of"], measure, place)
        if "over" in measure:
            below, more = self.product(measure["over"], measure, place)
            above = {key: value / below[key] for key, value in above.items() if key in below}
            origins |= more
        admitted = self.fitting(above, measure.get("only", {}), place)
        root = 1 / measure.get("root", 1)
        left = {key: value ** root for key, value in above.items() if key in admitted}
        if not left:
            raise NoData("No matrix is in all of its tables.")
        return left, origins

    def compute(self, measure: dict[str, Any], place: str) -> Found:
        """The number. Raises NoData where a table or its rows are missing."""
        refuse_unknown(measure, MEASURE_KEYS, place)
        aggregate = measure.get("aggregate", "")
        if aggregate not in AGGREGATES:
            raise ClaimError(f"{place}: no aggregate '{aggregate}'; those are "
                             f"{', '.join(AGGREGATES)}")  # fmt: skip
        by_key, origins = self.quotients(measure, place)
        origin = max(origins, key=ORIGINS.index)
        values = list(by_key.values())
        if aggregate in SHARES:
            return self.share(by_key, measure, origin, place)
        if aggregate in BY_KEY:
            value = BY_KEY[aggregate](by_key)
        elif aggregate == "one":
            if len(values) != 1:
                raise ClaimError(f"{place}: {len(values)} values where one is wanted")
            value = values[0]
        elif aggregate.endswith("correlation"):
            other, more = self.product(measure["with"], {"key": measure.get("key")}, place)
            keys = [key for key in by_key if key in other]
            if not keys:
                raise NoData("No matrix is in all of its tables.")
            x, y = [by_key[key] for key in keys], [other[key] for key in keys]
            is_ranked = aggregate.startswith("rank")
            value = correlation(ranks(x), ranks(y)) if is_ranked else correlation(x, y)
            return Found(value, len(keys), max(origins | more, key=ORIGINS.index))
        else:
            value = SIMPLE[aggregate](values)
        if value != value:
            raise NoData("None of the rows fits.")
        return Found(value, len(values), origin)

    def share(self, by_key: dict[Key, float], measure: dict[str, Any], origin: str,
              place: str) -> Found:
        """The share of keys above a value (1); recall: of these, the share that `predict` fits."""
        limit = measure.get("above", 1)
        hits = {key for key, value in by_key.items() if value > limit}
        if measure["aggregate"] == "share":
            return Found(len(hits) / len(by_key), len(by_key), origin, len(hits))
        if not hits:
            raise NoData("None of the rows fits.")
        both = self.fitting(hits, measure["predict"], place)
        return Found(len(both) / len(hits), len(hits), origin, len(both))
