#!/usr/bin/env python3
"""The table of the five papers' figures and tables in docs/papers.md, from the configs themselves.

    docs/papers_items.py            writes it; --check says whether it is as written

A config says in `paper` and `figure` which items it makes ("Figures 9 and 10, Tables 3 and 4");
experiments/papers_items.toml lists the items and how the configs differ from them. The committed
tables of an item are those of experiments/claims/tables.toml that its configs make: those of the
methods as published, else those of earlier kernels. A config of one of the papers that makes no item
of the list stands in a second table.
"""

import re
import sys
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "papers.md"
BEGIN, END = "<!-- docs/papers_items.py writes this -->", "<!-- end of the items -->"
NUMBERED = re.compile(r"(Figure|Table|Equation)s? (\d+(?:(?:, | and | to )\d+)*)(?!\d)")
SAME = "from one command"


def items_of(text: str) -> list[str]:
    """The items that a key `figure` names: "Figures 7 to 9" are three, other words are one."""
    items = []
    for kind, numbers in NUMBERED.findall(text):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", numbers):
            items += [f"{kind} {number}" for number in range(int(first), int(last or first) + 1)]
    return items or [text]


def claims_of(experiment: dict[str, Any]) -> list[tuple[str, str]]:
    """(paper, item) of a config. Of several papers each has its part of `figure`, in order, where
    there are as many parts, else all of it."""
    papers = experiment.get("paper", "").split(", ")
    figure = experiment.get("figure", "")
    parts = figure.split(", ")
    if len(papers) == 1 or len(parts) != len(papers):
        parts = [figure] * len(papers)
    return [(paper, item) for paper, part in zip(papers, parts) for item in items_of(part)]


def experiments(folder: Path) -> list[dict[str, Any]]:
    """The [experiment] of every config of a folder."""
    found = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.toml"))]
    return [config["experiment"] for config in found if "experiment" in config]


def state_of(item: dict[str, str], makers: list[dict[str, Any]]) -> str:
    """In how far the item comes from one command."""
    if not makers:
        return "not"
    needs_gpu = all("gpu_only" in maker for maker in makers)
    return ("partly" if "differs" in item else SAME) + (", on a GPU only" if needs_gpu else "")


def tables_of(root: Path) -> dict[str, list[str]]:
    """The committed tables of each config, as files of experiments/results."""
    tables = tomllib.loads((root / "experiments/claims/tables.toml").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for table in tables["table"].values():
        if "config" in table and (root / "experiments/results" / table["file"]).exists():
            found.setdefault(table["config"], []).append(table["file"])
    return found


def links(files: list[str]) -> str:
    """Links to the tables of the methods as published, or to all where there is none of these."""
    published = [file for file in files if file.startswith("published/")]
    return ", ".join(f"[{Path(file).name}](../experiments/results/{file})"
                     for file in published or files)


def rows(items: list[dict[str, str]], configs: list[dict[str, Any]],
         tables: dict[str, list[str]]) -> list[list[str]]:
    """A row an item: paper, item, commands, state, committed tables, difference."""
    claims = [(config, claims_of(config)) for config in configs]
    table = []
    for item in items:
        prefix = item["paper"].lower().replace("-", "_")
        makers = [config for config, claimed in sorted(
            claims, key=lambda one: (len(one[1]), not one[0]["id"].startswith(prefix), one[0]["id"]))
            if (item["paper"], item["name"]) in claimed]
        commands = ", ".join(f"`tessera run {maker['id']}`" for maker in makers)
        measuring = [maker["id"] for maker in makers] + item.get("also_measured_by", "").split()
        committed = links([file for config in measuring for file in tables.get(config, [])])
        table.append([item["paper"], f"{item['name']}: {item['shows']}", commands,
                      state_of(item, makers), committed, item.get("differs", "")])
    return table


def others(items: list[dict[str, str]], configs: list[dict[str, Any]]) -> list[list[str]]:
    """The configs of these papers that make none of the items."""
    papers = {item["paper"] for item in items}
    known = {(item["paper"], item["name"]) for item in items}
    return [[config["paper"], config["figure"], f"`tessera run {config['id']}`"]
            for config in configs
            if {paper for paper, _ in claims_of(config)} & papers
            and not set(claims_of(config)) & known]


def markdown(header: list[str], table: list[list[str]]) -> str:
    """The table in Markdown."""
    lines = [header, ["---"] * len(header), *table]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def section(items: list[dict[str, str]], configs: list[dict[str, Any]],
            tables: dict[str, list[str]]) -> str:
    """All that stands between the two marks of the page."""
    table = rows(items, configs, tables)
    states = [row[3] for row in table]
    whole, partly = (sum(state.startswith(word) for state in states) for word in (SAME, "partly"))
    published = sum("results/published/" in row[4] for row in table)
    other = sum(row[4] != "" for row in table) - published
    return (f"Of {len(table)} items {whole} come from one command, {partly} partly and "
            f"{states.count('not')} not. Tables of the methods as published are committed for {published}, "
            f"and other tables, of formats, orders and earlier kernels, for {other} more.\n\n"
            + markdown(["paper", "item", "command", "state", "committed tables", "what differs"], table)
            + "\nConfigs of these papers beyond the list:\n\n"
            + markdown(["paper", "about", "command"], others(items, configs)))


def page_with(page: str, text: str) -> str:
    """The page with the text between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE}: it has no lines '{BEGIN}' and '{END}'")
    return f"{before}{begin}\n\n{text}\n{end}{after}"


def written(page: str) -> str:
    """The page as it should be."""
    items = tomllib.loads((ROOT / "experiments/papers_items.toml").read_text(encoding="utf-8"))
    return page_with(page, section(items["item"], experiments(ROOT / "experiments/configs"),
                                   tables_of(ROOT)))


def main() -> int:
    """The command."""
    page = PAGE.read_text(encoding="utf-8")
    new = written(page)
    if sys.argv[1:] == ["--check"]:
        return 0 if new == page else 1
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
