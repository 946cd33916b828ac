"""Collects the pages of the site in one folder: the project's Markdown at its own paths, the files
that it links to, and the reference.

    python3 docs/site/stage.py PROGRAM FOLDER

The README is the front page. Links stay as they are written, so that a page reads the same in the
site and in the checkout.
"""

import re
import shutil
import sys
from pathlib import Path

import reference

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)(#[\w-]+)?\)")
ANCHOR = re.compile(r'^(#+ .*?)\s*<a name="([\w-]+)"></a>$', re.MULTILINE)
CONTENTS = {
    "Tutorials": ["docs/tutorials/my_matrix", "docs/tutorials/my_kernel",
                  "docs/tutorials/my_papers_figure", "docs/tutorials/my_cluster"],
    "How to": ["docs/how-to/*"],
    "Reference": ["docs/glossary", "docs/papers", "experiments/config_reference"],
    "Interfaces in C++": [],
    "Results": ["experiments/CLAIMS", "experiments/claims/README", "experiments/results/**/*"],
    "Contributing": ["CONTRIBUTING", "experiments/adding", "SECURITY", "CHANGELOG"],
}  # fmt: skip


def slug(heading: str) -> str:
    """The anchor that Sphinx gives a heading, as code forges do."""
    return re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).strip().replace(" ", "-")


def anchors(text: str) -> dict[str, str]:
    """The slug of the heading of every named anchor of a page."""
    return {name: slug(heading) for heading, name in ANCHOR.findall(text)}


def staged(text: str, page: Path) -> str:
    """A page of the site from a page of the checkout: named anchors become those of their headings,
    and links to the README, links to the front page."""

    def link(found: re.Match[str]) -> str:
        path, name = found.group(1), found.group(2) or ""
        target = (page.parent / path).resolve()
        if name and target.suffix == ".md" and target.exists():  # Sphinx reports others
            known = anchors(target.read_text(encoding="utf-8"))
            name = "#" + known.get(name[1:], name[1:])
        if target == ROOT / "README.md":
            path = path.removesuffix("README.md") + "index.md"
        return f"]({path}{name})"

    return ANCHOR.sub(r"\1", LINK.sub(link, text))


def contents(folder: Path, generated: list[str]) -> str:
    """The contents of the site, for the end of the front page."""
    parts = []
    for caption, patterns in CONTENTS.items():
        names = []
        for pattern in patterns:
            found = [path.relative_to(folder).with_suffix("").as_posix()
                     for path in sorted(folder.glob(f"{pattern}.md"))]  # fmt: skip
            if not found:
                raise SystemExit(f"docs/site/stage.py: there is no page {pattern}.md")
            names += found
        if caption in ("Reference", "Interfaces in C++"):
            is_api = caption != "Reference"
            names += [f"reference/{name}" for name in generated
                      if name.startswith("api_") == is_api]  # fmt: skip
        pages = "\n".join(names)
        parts.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n")
    return "\n".join(parts)


def pages_of_the_project() -> list[Path]:
    """Every Markdown page outside of build folders and of the run folder."""
    return [path for path in sorted(ROOT.rglob("*.md"))
            if not path.relative_to(ROOT).parts[0].startswith((".", "build", "out"))]  # fmt: skip


def stage(program: reference.Program, folder: Path) -> None:
    """Writes all pages of the site, and the files that they link to, into a folder."""
    generated = reference.write(program, folder / "reference")
    pages = pages_of_the_project()
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for path, _ in LINK.findall(text):
            linked = (page.parent / path).resolve()
            if linked.is_file() and linked not in pages:
                target = folder / linked.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(linked, target)
        is_front = page == ROOT / "README.md"
        target = folder / ("index.md" if is_front else page.relative_to(ROOT))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(staged(text, page), encoding="utf-8")
    front = folder / "index.md"
    front.write_text(front.read_text(encoding="utf-8") + "\n" + contents(folder, generated),
                     encoding="utf-8")  # fmt: skip


if __name__ == "__main__":
    stage(reference.Program(Path(sys.argv[1])), Path(sys.argv[2]))
