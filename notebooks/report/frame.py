"""Tables as compact JSON: a column at a time, each in the shortest of three forms.

{"c": v}             every row has v
{"d": [..], "i": [..]}  distinct values, and for each row the place of its own; -1 where it has none
{"v": [..]}          a value for each row, null where it has none
"""

import json
from typing import Any

DIGITS = 8  # significant digits of the numbers in tables and figures; records keep all


def rounded(value: Any) -> Any:
    """A number with DIGITS significant digits, anything else as it is."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def column(values: list[Any]) -> dict[str, Any]:
    """One column; None stands for a value that a row does not have."""
    keys = [json.dumps(value) for value in values]
    distinct = list(dict.fromkeys(key for key in keys if key != "null"))
    if len(distinct) == 1 and "null" not in keys:
        return {"c": values[0]}
    if sum(map(len, distinct)) + 4 * len(keys) < sum(map(len, keys)):
        place = {key: index for index, key in enumerate(distinct)}
        return {"d": [json.loads(key) for key in distinct],
                "i": [place.get(key, -1) for key in keys]}
    return {"v": values}


def frame(rows: list[dict[str, Any]], digits: bool = True) -> dict[str, Any]:
    """The rows as columns, in the order in which they first appear."""
    names = dict.fromkeys(name for row in rows for name in row)
    shown = rounded if digits else (lambda value: value)
    return {"length": len(rows),
            "columns": {name: column([shown(row.get(name)) for row in rows]) for name in names}}


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """The leaves of nested objects by their JSON pointers; lists are leaves."""
    if not isinstance(value, dict) or not value:
        return {path: value}
    leaves: dict[str, Any] = {}
    for key, member in value.items():
        leaves |= flat(member, f"{path}/{key.replace('~', '~0').replace('/', '~1')}")
    return leaves
