"""Writes headline.csv beside a page of results: the numbers to reach, and those of today.

    python3 notebooks/headline.py [--check] [--root FOLDER]

Each experiments/headlines/NAME.toml lists figures with `must`, `aim` and a `measure` over committed
tables, in the terms of experiments/claims/README.md; larger is better. The result is
experiments/results/NAME/headline.csv, with the commits that its tables name.
"""

import argparse
import csv
import io
import sys
from pathlib import Path
from typing import Any

import tomllib
from claim_tables import ClaimError, Measures, NoData, Tables, holds, refuse_unknown
from claims import ROOT, read

COLUMNS = ("figure", "must", "aim", "measured", "commit")
FIGURE_KEYS = ("name", "must", "aim", "measure")


def names_of(series: str | list[str]) -> list[str]:
    """The names of one series or of several."""
    return [series] if isinstance(series, str) else series


def commits(tables: Tables, measure: dict[str, Any], place: str) -> str:
    """The commits of the rows that a measure reads, in their order; empty where none is named."""
    found: dict[str, None] = {}
    for part in ("of", "over"):
        for name in names_of(measure.get(part, [])):
            series = tables.series[name]
            conditions = series.get("where", {}) | measure.get("where", {})
            for row in tables.rows(series["table"]):
                if all(holds(row[column], wanted, place) for column, wanted in conditions.items()):
                    found[row.get("commit", "")] = None
    return " ".join(commit for commit in found if commit)


def headline(path: Path, root: Path) -> str:
    """The table of one file, as CSV."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    refuse_unknown(content, ("schema", "table", "series", "figure"), str(path))
    shared, _ = read(root)
    tables = Tables(root / "experiments" / "results", shared.tables | content.get("table", {}),
                    shared.series | content.get("series", {}))  # fmt: skip
    measures = Measures(tables)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for figure in content["figure"]:
        place = f"{path.name}, figure '{figure.get('name', '')}'"
        refuse_unknown(figure, FIGURE_KEYS, place)
        for key in ("name", "must", "aim"):
            if key not in figure:
                raise ClaimError(f"{place}: it has no '{key}'")
        measured, commit = "", ""
        if "measure" in figure:
            try:
                found = measures.compute(figure["measure"], place)
            except NoData as error:
                print(f"{place}: {error}", file=sys.stderr)
            else:
                if found.is_predicted:
                    raise ClaimError(f"{place}: it is {found.origin}, not measured")
                measured, commit = f"{found.value:.3f}", commits(tables, figure["measure"], place)
        writer.writerow([figure["name"], figure["must"], figure["aim"], measured, commit])
    return text.getvalue()


def main() -> int:
    """Writes the tables, or compares them."""
    parser = argparse.ArgumentParser(description="Writes headline.csv of the results' pages.")
    parser.add_argument("--check", action="store_true", help="compare the files, write nothing")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the project")
    options = parser.parse_args()
    try:
        for path in sorted((options.root / "experiments" / "headlines").glob("*.toml")):
            text = headline(path, options.root)
            to = options.root / "experiments" / "results" / path.stem / "headline.csv"
            if not options.check:
                to.write_text(text, encoding="utf-8")
                print(f"wrote {to}")
            elif not to.exists() or to.read_text(encoding="utf-8") != text:
                print(f"{to} differs from the tables; run notebooks/headline.py", file=sys.stderr)
                return 1
    except (ClaimError, OSError, tomllib.TOMLDecodeError) as error:
        print(f"headline.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
