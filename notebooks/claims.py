"""Judges the papers' claims from committed tables, and writes experiments/CLAIMS.md.

    python3 notebooks/claims.py [--check] [--collect OUT] [--root FOLDER] [--page FILE]

The claims, and the tables that they compare, are the TOML files of experiments/claims/; its
README.md describes them. `--collect` first copies the tables of runs, OUT/CONFIG/table.csv, to
experiments/results/published/. `--check` writes nothing, and fails when the page would differ.
"""

import argparse
import needs  # noqa: F401  looks for a Python that has what follows
import re
import shutil
import string
import sys
from pathlib import Path
from typing import Any, NamedTuple

import tomllib
from claim_tables import ClaimError, Found, Measures, NoData, Tables, refuse_unknown
from claim_verdicts import (
    NOT,
    OF_AIMS,
    PARTLY,
    REPRODUCED,
    RULES,
    TEXT,
    TOLERANCE,
    UNJUDGED,
    UNMEASURED,
    VERDICTS,
    overall,
    verdict,
)

ROOT = Path(__file__).resolve().parent.parent
SIDES = ("authors", "published", "best")
HEADS = {"authors": "authors' code", "published": "**as published**", "best": "our best"}
CLAIM_KEYS = ("id", "source", "gpu", "text", "unit", "rule", "tolerance", "judge", "cannot", "why",
              "note", "command", "values", "where", "only", "number", *SIDES)  # fmt: skip
NUMBER_KEYS = ("name", "paper", "shown", "rule", "tolerance", "where", "only", "predict", "fill",
               *SIDES)  # fmt: skip
EARLIER = " °"
STANDS_IN = (f", and \"{EARLIER.strip()}\" marks a number from an earlier table, which stands in for "
             "a run of the method as published")
# A result typed into a text; widths of B, shapes and versions are no results.
TYPED = re.compile(r"\d+\.\d+|\d+ (?:of|times|points|%)|\d+%")


class Cell(NamedTuple):
    """A side of a number: what was found, or a sentence that says how to find it."""

    found: Found | None
    missing: str  # empty where the side is not compared
    stands_in: bool = False  # found by a measure that is not the preferred one


class Judged(NamedTuple):
    """A number of a claim beside the paper's."""

    name: str
    paper: str
    cells: dict[str, Cell]
    verdict: str
    missing: str  # how to measure it; empty where it is


def short(value: float, unit: str = "") -> str:
    """Three significant digits, at most two after the point."""
    size = abs(value)
    digits = 0 if size >= 100 or value == int(value) and size >= 10 else 1 if size >= 10 else 2
    text = f"{value:.{digits}f}" if size >= 0.1 or value == 0 else f"{value:.2g}"
    return f"{text} {unit}".rstrip() if unit == "%" else text


def shown(found: Found, unit: str) -> str:
    """A number with the count of its keys in brackets, "9 of 15" for a share, and its origin."""
    if found.hits is not None:
        text = f"{found.hits} of {found.keys}"
    else:
        text = short(found.value, unit) + (f" ({found.keys})" if found.keys > 1 else "")
    return text if found.origin in ("measured", "counted") else f"*{text}, {found.origin}*"


def cell_text(cell: Cell, unit: str, side: str) -> str:
    """A cell of the page; EARLIER marks a published number that is not of the run made for it."""
    if cell.found is None:
        return ""
    mark = EARLIER if side == "published" and cell.stands_in else ""
    return shown(cell.found, unit) + mark


def paper_value(paper: Any) -> float:
    """The paper's number: a number, a share [14, 16], or a quotient of two of its numbers "a / b".
    """
    if isinstance(paper, str):
        above, below = paper.split("/")
        return float(above) / float(below)
    return paper[0] / paper[1] if isinstance(paper, list) else float(paper)


def paper_text(number: dict[str, Any], unit: str) -> str:
    """The paper's number as its claims file has it."""
    paper = number["paper"]
    if "shown" in number:
        return number["shown"]
    if isinstance(paper, str):
        return f"{short(paper_value(paper))} ({paper})"
    if isinstance(paper, list):
        return f"{paper[0]} of {paper[1]}"
    return f"{paper} %" if unit == "%" else str(paper)


class Judge:
    """Computes the numbers of claims, and the verdicts."""

    def __init__(self, measures: Measures) -> None:
        self.measures = measures

    def alternatives(self, claim: dict[str, Any], number: dict[str, Any],
                     side: str) -> list[dict[str, Any]]:
        """The measures of a side, the preferred one first: the number's over the claim's."""
        own, shared = number.get(side, {}), claim.get(side, {})
        if own is False or (not own and not shared):
            return []
        options = shared if isinstance(shared, list) else [shared]
        measures = own if isinstance(own, list) else [one | own for one in options]
        return [self.completed(one, claim, number) for one in measures]

    @staticmethod
    def completed(measure: dict[str, Any], claim: dict[str, Any],
                  number: dict[str, Any]) -> dict[str, Any]:
        """A measure with the conditions of the claim and the number, and the number's names filled
        into those of series: of = "{approach}_before"."""
        full = dict(measure)
        for part in ("where", "only"):
            if any(part in place for place in (measure, claim, number)):
                full[part] = claim.get(part, {}) | measure.get(part, {}) | number.get(part, {})
        if "predict" in number:
            full["predict"] = number["predict"]
        fill = number.get("fill", {})
        for part in ("of", "over", "with"):
            if isinstance(full.get(part), str):
                full[part] = full[part].format(**fill)
        return full

    def cell(self, claim: dict[str, Any], number: dict[str, Any], side: str, place: str) -> Cell:
        """What the measures of a side find, or how to get it."""
        measures = self.alternatives(claim, number, side)
        if not measures:
            return Cell(None, "")
        try:
            found, index = self.first(measures, f"{place}, {side}")
        except NoData as error:
            return Cell(None, str(error))
        return Cell(found, "", index > 0)

    def first(self, measures: list[dict[str, Any]], place: str) -> tuple[Found, int]:
        """The first measure that has data, a prediction only where nothing else has, and its index.
        Raises NoData of the first, which is the preferred one, where none has."""
        predicted, missing = [], []
        for index, measure in enumerate(measures):
            try:
                found = self.measures.compute(measure, place)
            except NoData as error:
                missing.append(error)
                continue
            if not found.is_predicted:
                return found, index
            predicted.append((found, index))
        if predicted:
            return predicted[0]
        raise missing[0]

    def number(self, claim: dict[str, Any], number: dict[str, Any]) -> Judged:
        """A number beside the paper's, with its verdict."""
        place = f"claim {claim['id']}, number '{number.get('name', '')}'"
        refuse_unknown(number, NUMBER_KEYS, place)
        if "paper" not in number:
            raise ClaimError(f"{place}: it has no 'paper', the number of the paper")
        rule = number.get("rule", claim.get("rule", ""))
        if rule not in RULES:
            raise ClaimError(f"{place}: no rule '{rule}'; those are {', '.join(RULES)}")
        cells = {side: self.cell(claim, number, side, place) for side in SIDES}
        judged = claim.get("judge", "published")
        found = cells[judged].found
        unit = claim.get("unit", "")
        missing = cells[judged].missing
        if "command" in claim:
            missing = f"To measure it: `{claim['command']}`."
        told = UNMEASURED
        if "cannot" in claim:
            told, missing = UNJUDGED, ""
        elif found is not None and found.is_predicted:
            told, missing = UNJUDGED, "Predictions alone decide nothing."
        elif found is not None:
            tolerance = number.get("tolerance", claim.get("tolerance", TOLERANCE))
            told, missing = verdict(found.value, paper_value(number["paper"]), rule, tolerance,
                                    unit == "times"), ""
        return Judged(number.get("name", ""), paper_text(number, unit), cells, told, missing)

    def sentences(self, claim: dict[str, Any], part: str) -> list[str]:
        """The sentences of `why` or `note` whose placeholders have data."""
        place = f"claim {claim['id']}, {part}"
        told = []
        for sentence in claim.get(part, []):
            if TYPED.search(re.sub(r"{[^}]*}", "", sentence)):
                raise ClaimError(f"{place}: a result is typed by hand, not a placeholder: {sentence}")
            try:
                names = [name for _, name, _, _ in string.Formatter().parse(sentence) if name]
                told.append(sentence.format(**{name: self.value(claim, name, place)
                                               for name in names}))
            except NoData:
                continue
        return told

    def value(self, claim: dict[str, Any], name: str, place: str) -> str:
        """The text for a placeholder, from the first of its measures that has data."""
        if name not in claim.get("values", {}):
            raise ClaimError(f"{place}: [claim.values] has no '{name}'")
        measures = claim["values"][name]
        found, _ = self.first(measures if isinstance(measures, list) else [measures],
                              f"{place}, value {name}")  # fmt: skip
        text = short(found.value) if found.hits is None else f"{found.hits} of {found.keys}"
        return text if found.origin in ("measured", "counted") else f"{text} ({found.origin})"


class Claim(NamedTuple):
    """A judged claim."""

    entry: dict[str, Any]
    numbers: list[Judged]
    verdict: str
    why: list[str]
    note: list[str]


def judge(entry: dict[str, Any], by: Judge) -> Claim:
    """The claim with the verdicts on its numbers."""
    for key in ("id", "source", "text", "number"):
        if not entry.get(key):
            raise ClaimError(f"claim {entry.get('id', entry)}: it has no '{key}'")
    refuse_unknown(entry, CLAIM_KEYS, f"claim {entry['id']}")
    numbers = [by.number(entry, number) for number in entry["number"]]
    told = overall([number.verdict for number in numbers])
    why = by.sentences(entry, "why")
    return Claim(entry, numbers, told, why if told in (PARTLY, NOT) else [],
                 by.sentences(entry, "note"))


class Paper(NamedTuple):
    """A file of claims."""

    entry: dict[str, Any]
    claims: list[Claim]


def read(root: Path) -> tuple[Tables, list[dict[str, Any]]]:
    """The tables, and the files of claims by their `place` on the page."""
    papers, tables, series = [], {}, {}
    for path in sorted((root / "experiments" / "claims").glob("*.toml")):
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ClaimError(f"{path}: {error}") from error
        refuse_unknown(content, ("schema", "table", "series", "paper", "claim"), str(path))
        if content.get("schema") != 1:
            raise ClaimError(f"{path}: schema = 1 is missing")
        for kind, known in (("table", tables), ("series", series)):
            for name, entry in content.get(kind, {}).items():
                if name in known:
                    raise ClaimError(f"{path}: {kind} {name} is declared twice")
                known[name] = entry
        if "claim" in content:
            papers.append(content)
    papers.sort(key=lambda content: content["paper"]["place"])
    ids = [entry["id"] for content in papers for entry in content["claim"]]
    for one in ids:
        if ids.count(one) > 1:
            raise ClaimError(f"claim {one}: two claims have this id")
    return Tables(root / "experiments" / "results", tables, series), papers


def judged_papers(root: Path) -> list[Paper]:
    """Every claim, judged from the tables below `root`."""
    tables, papers = read(root)
    by = Judge(Measures(tables))
    return [Paper(content["paper"], [judge(entry, by) for entry in content["claim"]])
            for content in papers]


def verdict_text(told: str, entry: dict[str, Any], paper: dict[str, Any]) -> str:
    """The verdict in the words for claims of papers, or for aims of ours."""
    return OF_AIMS.get(told, told) if paper.get("aims") else told


def lines_of(claim: Claim, paper: dict[str, Any]) -> list[str]:
    """The lines of a claim in its paper's table: one, or one more for each of several numbers."""
    entry, unit = claim.entry, claim.entry.get("unit", "")
    gpu = f", {entry['gpu']}" if entry.get("gpu") else ""
    head = f"{entry['text']} ({entry['source']}{gpu})"
    lines = []
    if len(claim.numbers) > 1:
        told = verdict_text(claim.verdict, entry, paper)
        judged = sum(number.verdict in (REPRODUCED, PARTLY, NOT) for number in claim.numbers)
        if 0 < judged < len(claim.numbers):
            told += f", on {judged} of {len(claim.numbers)} numbers"
        lines.append(f"| {head} | | | | | **{told}** |")
    for number in claim.numbers:
        cells = [cell_text(number.cells[side], unit, side) for side in SIDES]
        told = verdict_text(number.verdict, entry, paper)
        name = head if len(claim.numbers) == 1 else f"... {number.name}"
        told = f"**{told}**" if len(claim.numbers) == 1 else told
        lines.append(f"| {name} | {number.paper} | {' | '.join(cells)} | {told} |")
    return lines


def remarks_of(claim: Claim) -> list[str]:
    """The paragraph of a claim below the table: why not, and how to measure what is not."""
    told = [*claim.why, *claim.note]
    if claim.entry.get("cannot"):
        told.insert(0, claim.entry["cannot"])
    told += sorted({number.missing for number in claim.numbers if number.missing})
    return [f"* **{claim.entry['text']}**: {' '.join(told)}"] if told else []


def counts(papers: list[Paper]) -> list[str]:
    """The table of how many claims of each paper have which verdict."""
    lines = [f"| claims of | {' | '.join(VERDICTS)} |", "|---" * (len(VERDICTS) + 1) + "|"]
    of_papers = [paper for paper in papers if not paper.entry.get("aims")]
    for title, claims in (*((paper.entry["title"], paper.claims) for paper in of_papers),
                          ("all papers", [one for paper in of_papers for one in paper.claims])):
        numbers = [sum(claim.verdict == told for claim in claims) for told in VERDICTS]
        lines.append(f"| {title} | {' | '.join(map(str, numbers))} |")
    return lines


def stands_in(papers: list[Paper]) -> bool:
    """True where a published number is not of the run made for it."""
    return any(number.cells["published"].stands_in
               for paper in papers for claim in paper.claims for number in claim.numbers)


def page(papers: list[Paper]) -> str:
    """CLAIMS.md."""
    lines = [
        "# What the papers claim, and what was found here", "",
        "<!-- Written by `python3 notebooks/claims.py` from experiments/claims/ and the tables of",
        "     experiments/results/; a test compares. Edit those, not this page. -->", "",
        "A verdict rests on the column **as published**: the method with every choice of its "
        "paper, built anew here (`tessera list kernels` prints the choices and where we part "
        "from them). \"Our best\" is the same system with our choices. \"Authors' code\" is the "
        "released code on the same kind of GPU, where it was run and its table is committed. "
        "Everything measured is from one NVIDIA H200, while the papers used the GPUs named; in "
        "brackets stands the number of matrices, or of matrices and widths. *Italic* numbers are "
        f"not measured{STANDS_IN if stands_in(papers) else ''}. "
        "[experiments/claims](claims/README.md) describes the files behind this page.",
        "", *counts(papers), "", "## The rule", "", TEXT]
    for paper in papers:
        head = paper.entry["title"]
        columns = ["claim", "aim" if paper.entry.get("aims") else "paper",
                   *(HEADS[side] for side in SIDES), "verdict"]
        lines += ["", f"## {head}", "", *paper.entry.get("intro", []),
                  *([""] if paper.entry.get("intro") else []),
                  f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
        for claim in paper.claims:
            lines += lines_of(claim, paper.entry)
        remarks = [line for claim in paper.claims for line in remarks_of(claim)]
        lines += ["", *remarks] if remarks else []
    return "\n".join(lines) + "\n"


def collect(root: Path, out: Path) -> list[str]:
    """Copies the tables of runs to results/published/, and to no other folder, since their pages
    describe the tables of those; the names, sorted."""
    tables, _ = read(root)
    copied = []
    for entry in tables.tables.values():
        source = out / entry.get("config", "") / "table.csv"
        if not entry["file"].startswith("published/") or not source.exists():
            continue
        target = tables.results / entry["file"]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        copied.append(entry["file"])
    return sorted(copied)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare the page, write nothing")
    parser.add_argument("--collect", type=Path, metavar="OUT", help="folder of runs (out/)")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the project")
    parser.add_argument("--page", type=Path, help="the page (default: experiments/CLAIMS.md)")
    given = parser.parse_args()
    path = given.page or given.root / "experiments" / "CLAIMS.md"
    try:
        if given.collect:
            print("collected", *collect(given.root, given.collect) or ["nothing"])
        papers = judged_papers(given.root)
        text = page(papers)
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if given.check:
            print(f"{path}: {'as the tables have it' if text == old else 'differs from the tables'}")
            return 0 if text == old else 1
        path.write_text(text, encoding="utf-8")
    except (ClaimError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    told = [claim.verdict for paper in papers for claim in paper.claims]
    print(f"wrote {path}: {len(told)} claims and aims, "
          f"{told.count(REPRODUCED)} {REPRODUCED}, {told.count(PARTLY)} {PARTLY}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
