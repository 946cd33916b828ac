"""Every path that a Markdown page names exists.

A path is the target of a link, which is a file, since the site has no pages of folders; or a word that
begins with a folder of this project. The listings of the contributor's guide name files that the reader
makes, and are left out. The check is first tried on a page with dead paths.
"""

import pathlib
import re
import sys
import tempfile
import unittest

from layers_test import ROOT

FOLDERS = "docs|formats|reorder|kernels|model|oracle|experiments|tests|notebooks"
LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)")
CODE = re.compile(rf"(?<![\w./-])((?:{FOLDERS})/[\w./*-]*[\w/*])")
GUIDE = "experiments/adding.md"


def pages(root):
    """All Markdown pages that are not in a build folder."""
    for path in sorted(root.rglob("*.md")):
        top = path.relative_to(root).parts[0]
        if not top.startswith((".", "build", "out")):
            yield path


def dead_paths(root, page, made_by_reader=()):
    """One line for each path named in the page that does not exist: `page:line: path`."""
    found, is_listing = [], False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        is_listing ^= line.startswith("```")
        for name in () if is_listing else LINK.findall(line):
            if not (page.parent / name).is_file():
                found.append(f"{page.relative_to(root)}:{number}: {name}")
        for name in CODE.findall(line):
            name = name.rstrip(".")
            if name in made_by_reader or any(word in name for word in ("NAME", "...", ".ipynb")):
                continue
            if not any(root.glob(name.rstrip("/"))):
                found.append(f"{page.relative_to(root)}:{number}: {name}")
    return found


class Markdown(unittest.TestCase):
    def test_every_path_exists(self):
        listed = re.findall(r"^`([^`\n]+)`:$", (ROOT / GUIDE).read_text(encoding="utf-8"), re.M)
        listed += [name.replace(".cpp", ".cu") for name in listed]
        found = [line for page in pages(ROOT) for line in dead_paths(ROOT, page, listed)]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_a_dead_path_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text("[here](page.md) [gone](gone.md) [folder](.) `kernels/gone.hpp` https://a/kernels/b\n")
            self.assertEqual(len(dead_paths(pathlib.Path(folder), page)), 3)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
