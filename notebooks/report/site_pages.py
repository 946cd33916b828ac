"""A static site of all committed results: an index, and a page for each folder with a README.

    python3 notebooks/report/site_pages.py DOCUMENT.json experiments/results DIR

Every page is self-contained, as those of page.py. The text of a README stands as it is; a picture
whose data lie beside it becomes a figure whose points can be read, every other CSV file a table, and
records become a section with their points. DOCUMENT.json is what `tessera report --site` writes: the
records by their paths, and the meanings of the columns.
"""

import base64
import html
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from committed import figure, is_figure, read_csv
from frame import frame
from libraries import MissingLibraryError
from page import rounded_figure, section, used_columns, write

INLINE_IMAGE = re.compile(r'<img src="([^":]+)\.png" alt="([^"]*)" ?/?>')
IMAGE = re.compile(f"<p>{INLINE_IMAGE.pattern}</p>")
HEADING = re.compile(r"<(h[2-6])>(.*?)</\1>")
LINK = re.compile(r'<a href="([^"]*)">(.*?)</a>', re.DOTALL)
CODE = re.compile(r"<code>([\w.-]+)\.csv</code>")


def page_name(folder: Path) -> str:
    """The file of a results folder, given relative to the results: h200_calibration.html."""
    return "_".join(folder.parts) + ".html"


def to_html(text: str) -> str:
    """CommonMark with tables as HTML. Headings get ids, by which other pages link to them."""
    from markdown_it import MarkdownIt  # only here: pages of records do without it
    made = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return HEADING.sub(lambda found: f'<{found[1]} id="{slug(found[2])}">{found[2]}</{found[1]}>',
                       made)


def slug(heading: str) -> str:
    """The id of a heading, as forges make it: "Simulated and measured" has simulated-and-measured."""
    words = re.sub(r"<[^>]*>|[^\w\s-]", "", html.unescape(heading))
    return re.sub(r"\s+", "-", words.strip().lower())


def data_url(path: Path) -> str:
    """A picture as text."""
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")


class Folder:
    """One folder of results: its README, figures, tables and remaining pictures."""

    def __init__(self, results: Path, readme: Path) -> None:
        self.results = results
        self.folder = readme.parent
        self.relative = self.folder.relative_to(results) if self.folder != results.parent else None
        self.text = readme.read_text(encoding="utf-8")
        self.title = re.sub(r"^#+ *", "", self.text.split("\n", 1)[0])
        self.alt = {stem: alt for alt, stem in
                        re.findall(r"!\[([^\]]*)\]\(([^)]+)\.png\)", self.text)}
        self.figures: list[dict[str, Any]] = []
        self.tables: list[dict[str, Any]] = []
        self.used: set[str] = set()  # pictures that the text shows
        if self.relative is not None:
            self.read_data()

    @property
    def name(self) -> str:
        """The file of the page."""
        return page_name(self.relative) if self.relative is not None else "claims.html"

    def read_data(self) -> None:
        """Figures and tables from the CSV files."""
        configs = self.results.parent / "configs"
        for path in sorted(self.folder.glob("*.csv")):
            header, rows = read_csv(path)
            if is_figure(header):
                made = figure(path, configs, self.alt.get(path.stem, ""))
                self.figures.append(rounded_figure(made) | {"anchor": f"f-{path.stem}"})
            elif rows:
                self.tables.append({"id": path.stem, "title": path.name, "columns": header,
                                    "explore": True, "frame": frame(rows)})

    def image(self, match: re.Match[str]) -> str:
        """A picture of the text: a place for its figure, or the picture itself."""
        stem = match.group(1)
        if any(made["id"] == stem for made in self.figures):
            return f'<div data-figure="{html.escape(stem)}"></div>'
        return f"<p>{self.inline_image(match)}</p>"

    def inline_image(self, match: re.Match[str]) -> str:
        """A picture within a sentence: a link to its figure, or the picture itself."""
        stem, alt = match.groups()
        if any(made["id"] == stem for made in self.figures):
            return f'<a href="#f-{html.escape(stem)}">figure: {alt}</a>'
        self.used.add(stem)
        return f'<img alt="{alt}" src="{data_url(self.folder / (stem + ".png"))}">'

    def link(self, match: re.Match[str]) -> str:
        """A link of the text: to another page, or no link where the site has no such file."""
        target, text = match.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in target:
            return match.group(0)
        file = (self.folder / path).resolve()
        if file.name == "README.md" and file.is_relative_to(self.results):
            page = page_name(file.parent.relative_to(self.results))
        elif file.name == "CLAIMS.md":
            page = "claims.html"
        else:
            return text
        return f'<a href="{page}{"#" + anchor if anchor else ""}">{text}</a>'

    def file_link(self, match: re.Match[str]) -> str:
        """The name of a CSV file, with a link to where the page shows it."""
        stem = match.group(1)
        if any(made["id"] == stem for made in self.figures):
            return f'<a href="#f-{stem}">{match.group(0)}</a>'
        if any(table["id"] == stem for table in self.tables):
            return f'<a href="#s0-{stem}">{match.group(0)}</a>'
        return match.group(0)

    def section(self) -> dict[str, Any]:
        """The page's first section."""
        text = LINK.sub(self.link, to_html(self.text))
        text = INLINE_IMAGE.sub(self.inline_image, IMAGE.sub(self.image, text))
        text = CODE.sub(self.file_link, text)
        drawn = {made["id"] for made in self.figures} | self.used
        pictures = [] if self.relative is None else [
            {"title": path.stem, "url": data_url(path)}
            for path in sorted(self.folder.glob("*.png")) if path.stem not in drawn]
        return {"id": self.title, "title": self.title, "html": text, "figures": self.figures,
                "tables": self.tables, "pictures": pictures, "environments": {}}


def question(text: str) -> str:
    """The question that a README asks, as HTML."""
    found = re.search(r"\*\*Question\.?\*\*\s*(.*?)\n\n", text, re.DOTALL)
    return to_html(" ".join(found.group(1).split())) if found else ""


def measured(text: str) -> str:
    """The sentence of a README that says where and when it was measured, as HTML."""
    found = re.search(r"^(Measured|Counted|Found|Emulated|Simulated) [^\n]*?\d{4}-\d\d-\d\d.*?(?=[:.;](\s|$))",
                      text, re.DOTALL | re.MULTILINE)
    return to_html(" ".join(found.group(0).split())) if found else ""


def index_section(folders: list[Folder]) -> dict[str, Any]:
    """The first page: every folder with its question."""
    rows = "".join(
        f'<tr><td><a href="{folder.name}">{html.escape(folder.title)}</a></td>'
        f"<td>{question(folder.text)}</td><td>{measured(folder.text)}</td>"
        f"<td>{len(folder.figures)}</td><td>{len(folder.tables)}</td></tr>"
        for folder in folders)
    text = ("<h1>tessera: all committed results</h1>"
            "<p>Every figure can be read point by point, every table sorted and filtered. Only "
            "measured and counted numbers are drawn solid.</p>"
            "<table class=\"index\"><thead><tr><th>Results</th><th>Question</th><th>Where and when"
            f"</th><th>Figures</th><th>Tables</th></tr></thead><tbody>{rows}</tbody></table>")
    return {"id": "index", "title": "All committed results", "html": text, "figures": [],
            "tables": [], "pictures": [], "environments": {}}


def make_site(document: dict[str, Any], results: Path, out: Path) -> None:
    """Writes all pages."""
    folders = [Folder(results, readme) for readme in sorted(results.rglob("README.md"))]
    claims = results.parent / "CLAIMS.md"
    if claims.exists():
        folders.insert(0, Folder(results, claims))
    pages = [("index.html", "index", [index_section(folders)])]
    for folder in folders:
        sections = [folder.section()]
        for experiment in document["experiments"]:
            records = Path(experiment["id"])
            if folder.relative == records.parent:
                sections.append(section(experiment | {"title": f"Records: {records.name}",
                                                      "folder": str(Path("experiments/results") / records)}))
        short = " ".join(folder.relative.parts) if folder.relative is not None else "claims"
        pages.append((folder.name, short, sections))
    for name, _, sections in pages:
        links = [{"href": other, "text": short, "here": other == name} for other, short, _ in pages]
        title = "tessera: all committed results" if name == "index.html" else sections[0]["title"]
        columns = used_columns(document) | {
            column: document["columns"][column] for table in sections[0]["tables"]
            for column in table["columns"] if column in document["columns"]}
        write(out / name, {"title": title, "made": document["made"], "columns": columns,
                           "sections": sections, "links": links, "timelines": []})


def start_again(module: str) -> int:
    """Starts this script with a Python that has the module; 5 where there is none."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import needs
    try:
        other = needs.find([module])
    except SystemExit:
        return 5
    os.execv(other, [other, "-B", *sys.argv])


def main(arguments: list[str]) -> int:
    """The command; 0, 2 for a wrong call, 5 for a missing package."""
    if len(arguments) != 3:
        print("usage: site_pages.py DOCUMENT.json RESULTS DIR", file=sys.stderr)
        return 2
    document = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    try:
        make_site(document, Path(arguments[1]).resolve(), Path(arguments[2]))
    except MissingLibraryError as error:
        print(f"error: {error}", file=sys.stderr)
        return 5
    except ModuleNotFoundError as error:
        return start_again(error.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
