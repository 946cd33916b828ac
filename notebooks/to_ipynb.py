"""Turns percent scripts (`# %%`, `# %% [markdown]`) into Jupyter notebooks.

python3 notebooks/to_ipynb.py [SCRIPT...] [--out DIR] [--execute]; without SCRIPT, every percent
script beside this file. --execute runs the cells (needs nbclient and a kernel) with the script's
own folder as the working directory. Cell ids are counted, so equal scripts give equal notebooks.
"""

import argparse
import needs  # noqa: F401  looks for a Python that has what follows
import os
import re
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

MARKER = re.compile(r"^# %%(?P<markdown>\s*\[markdown\])?.*$", re.MULTILINE)


def cells(text: str) -> list[NotebookNode]:
    """The cells of a percent script; text before the first marker is a code cell."""
    marks = list(MARKER.finditer(text))
    head = text[:marks[0].start()] if marks else text
    result = [new_code_cell(head.strip("\n"))] if head.strip() else []
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends):
        body = text[mark.end():end].strip("\n")
        if mark["markdown"]:
            result.append(new_markdown_cell(re.sub(r"^# ?", "", body, flags=re.MULTILINE)))
        else:
            result.append(new_code_cell(body))
    for number, cell in enumerate(result):
        cell["id"] = f"cell-{number}"
    return result


def convert(script: Path, execute: bool) -> NotebookNode:
    """One script as a validated notebook."""
    notebook = new_notebook(cells=cells(script.read_text(encoding="utf-8")))
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3",
                                       "language": "python"}
    if execute:
        from nbclient import NotebookClient  # only --execute needs it

        os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # else it warns of nothing
        resources = {"metadata": {"path": str(script.resolve().parent)}}
        NotebookClient(notebook, resources=resources).execute()
    nbformat.validate(notebook)
    return notebook


def percent_scripts(folder: Path) -> list[Path]:
    """The Python files of a folder that have at least one cell marker."""
    return [p for p in sorted(folder.glob("*.py")) if MARKER.search(p.read_text(encoding="utf-8"))]


def main(arguments: list[str] | None = None) -> int:
    """The command; prints the paths of the notebooks."""
    parser = argparse.ArgumentParser(description="Turn percent scripts into notebooks.")
    parser.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT")
    parser.add_argument("--out", type=Path, help="folder for the notebooks; default: beside each")
    parser.add_argument("--execute", action="store_true", help="run the cells, keep their output")
    options = parser.parse_args(arguments)
    for script in options.scripts or percent_scripts(Path(__file__).parent):
        if not script.is_file():
            parser.error(f"{script}: no such file")
        target = (options.out or script.parent) / f"{script.stem}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(convert(script, options.execute), target)
        print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
