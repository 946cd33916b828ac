"""The reference pages, written from what the program prints, so that they cannot drift from it.

    python3 docs/site/reference.py PROGRAM PAGE.md    writes the table of experiments into a page

A verb, a kind of `tessera list`, a name, a parameter or an exit code that is new in the program is on
its page at the next build of the site.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# What callers of the library and authors of new variants include, by room.
HEADERS = {
    "Matrices and registration": [
        "formats/base/matrix.hpp", "formats/base/permutation.hpp", "formats/base/registry.hpp",
        "formats/base/params.hpp", "formats/base/check.hpp"],
    "Formats, generators and values": [
        "formats/format.hpp", "formats/condense.hpp", "formats/io/matrix_file.hpp",
        "formats/generators/generator.hpp", "formats/values/value_family.hpp"],
    "Reorderings": ["reorder/reordering.hpp", "reorder/watch.hpp"],
    "Kernels": [
        "kernels/spmm_kernel.hpp", "kernels/spgemm_kernel.hpp", "kernels/sddmm_kernel.hpp",
        "kernels/gpu_spmm.hpp", "kernels/gpu_spgemm.hpp", "kernels/gpu_sddmm.hpp",
        "kernels/work.hpp", "kernels/warp_trace.hpp",
        "kernels/tensor_core/tensor_core.hpp"],
    "The library": ["kernels/spmm/plan/spmm_plan.hpp", "kernels/sddmm/plan/sddmm_plan.hpp",
                    "kernels/scaling.hpp"],
    "Models": ["model/model.hpp", "model/device.hpp", "model/advisor.hpp",
               "model/simulator/simulator.hpp"],
    "Errors and bounds": ["oracle/spmm_oracle.hpp", "oracle/sddmm_oracle.hpp",
                          "oracle/product_errors.hpp", "oracle/error_bounds.hpp"],
}  # fmt: skip
BEGIN, END = "<!-- The program prints this table", "<!-- end of the table -->"
NOTE = "This page is printed by the program at every build of the site.\n"


class Program:
    """The program, and what it says about itself."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def says(self, *arguments: str) -> str:
        """What it prints; an error when it fails."""
        done = subprocess.run([self.path, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{self.path} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def subcommands(self, *verb: str) -> list[str]:
        """The names under `Commands:` of the --help of the program, or of a verb of it."""
        _, _, listed = self.says(*verb, "--help").partition("\nCommands:\n")
        return re.findall(r"^  (\w[\w-]*)  ", listed.split("\n\n")[0] + "\n", re.MULTILINE)

    def kinds(self) -> list[str]:
        """What `tessera list` lists."""
        offered = self.says("complete", "words", "--", "list", "")
        return [line.partition("\t")[0] for line in offered.splitlines()]

    def listed(self, kind: str) -> list[dict[str, Any]]:
        """The entries of a kind."""
        return json.loads(self.says("list", kind, "--json"))

    def exit_codes(self) -> dict[str, str]:
        """The meaning of every exit code, from the end of --help."""
        text = " ".join(self.says("--help").rpartition("Exit codes:")[2].split())
        return dict(re.findall(r"(\d+) ([^;.]+)", text))


def cell(value: Any) -> str:
    """A value as the text of a table's cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, list):
        return ", ".join(map(cell, value))
    return re.sub(r"([\\`*_{}\[\]<>|#$])", r"\\\1", str(value)).replace("\n", " ")


def table(rows: Iterable[dict[str, Any]],
          code: tuple[str, ...] = ("name", "default", "choices")) -> str:
    """A Markdown table with a column for every key; values of the keys in `code` are set as code."""
    rows = list(rows)
    keys = list(dict.fromkeys(key for row in rows for key in row))

    def text(key: str, value: Any) -> str:
        values = value if isinstance(value, list) else [value]
        is_code = key in code and value not in (None, "")
        return ", ".join(f"`{v}`" for v in values) if is_code else cell(value)

    lines = [keys, ["---"] * len(keys)]
    lines += [[text(key, row.get(key)) for key in keys] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def is_flat(value: Any) -> bool:
    """True for what fits a cell."""
    if isinstance(value, list):
        return all(not isinstance(item, (dict, list)) for item in value)
    return not isinstance(value, dict)


def flattened(value: Any, names: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """A list or a tree of objects as rows; the keys on the way to an object become its name."""
    first = ("name", "default", "choices", "help", "value", "unit", "source")
    if isinstance(value, list):
        return [{key: row.get(key, "") for key in (*first, *row) if key in row or key == "choices"}
                for row in value]
    if all(is_flat(member) for member in value.values()):
        return [{"name": " ".join(names), **{k: value[k] for k in (*first, *value) if k in value}}]
    return [row for key, member in value.items() for row in flattened(member, (*names, key))]


def kind_page(kind: str, entries: list[dict[str, Any]]) -> str:
    """One page: a table of all entries, then what does not fit a row of it, entry by entry."""
    nested = {key for entry in entries for key, value in entry.items() if not is_flat(value)}
    rows = [{key: entry[key] for key in ("name", "summary", *entry)
             if key in entry and key not in nested}
            for entry in entries]  # fmt: skip
    parts = [f"# {kind.capitalize()}\n", f"{NOTE}On the command line: `tessera list {kind}`.\n",
             table(rows)]
    for entry in entries:
        details = [entry[key] for key in sorted(nested) if entry.get(key)]
        if details:
            parts += [f"## {entry['name']}\n", cell(entry["summary"]) + "\n"]
            parts += [table(flattened(value)) for value in details]
    return "\n".join(parts)


def verbs_page(program: Program) -> str:
    """The --help of the program and of every verb."""
    parts = ["# Verbs\n", NOTE]

    def add(level: int, *verb: str) -> None:
        text = program.says(*verb, "--help").partition("\nExit codes:")[0].strip()
        title = " ".join(["tessera", *verb])
        parts.append(f"{'#' * level} {title}\n\n```\n{text}\n```\n")
        for name in program.subcommands(*verb):
            add(min(level + 1, 4), *verb, name)

    add(2)
    return "\n".join(parts)


def exit_codes_page(program: Program) -> str:
    """The exit codes."""
    rows = [{"code": code, "meaning": text} for code, text in program.exit_codes().items()]
    return f"# Exit codes\n\n{NOTE}Every verb uses the same ones.\n\n{table(rows, ('code',))}"


def api_page(title: str, headers: list[str]) -> str:
    """The docstrings of some headers."""
    parts = [f"# {title}\n", "Everything is in the namespace `tessera`.\n"]
    for header in headers:
        parts.append(f"## {header}\n\n```{{eval-rst}}\n.. doxygenfile:: {header}\n```\n")
    return "\n".join(parts)


def experiments(program: Program) -> list[dict[str, Any]]:
    """The shipped experiments, with what helps to choose one."""
    return [{"name": entry["name"], "question": entry["question"],
             "paper": ", ".join(filter(None, (entry["paper"], entry["figure"]))),
             "needs": entry["needs"], "minutes": entry["minutes"]}
            for entry in program.listed("experiments")]  # fmt: skip


def with_experiments(page: str, program: Program) -> str:
    """A page whose table of experiments is the program's; an error when it has no place for one."""
    before, begin, rest = page.partition(BEGIN)
    head, newline, rest = rest.partition("\n")
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"the page has no lines '{BEGIN} ...' and '{END}'")
    return f"{before}{begin}{head}{newline}\n{table(experiments(program))}\n{end}{after}"


def write(program: Program, folder: Path) -> list[str]:
    """Writes every page into a folder; the names of the pages in the order of the contents."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"verbs": verbs_page(program), "exit_codes": exit_codes_page(program)}
    for kind in program.kinds():
        entries = experiments(program) if kind == "experiments" else program.listed(kind)
        pages[kind] = kind_page(kind, entries)
    for title, headers in HEADERS.items():
        name = "api_" + re.sub(r"\W+", "_", title.lower())
        pages[name] = api_page(title, headers)
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return list(pages)


if __name__ == "__main__":
    target = Path(sys.argv[2])
    filled = with_experiments(target.read_text(encoding="utf-8"), Program(Path(sys.argv[1])))
    target.write_text(filled, encoding="utf-8")
