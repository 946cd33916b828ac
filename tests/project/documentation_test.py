"""The README and the generated reference say what the program says."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from layers_test import ROOT

from program import BINARY

sys.path.insert(0, str(ROOT / "docs" / "site"))
import doxygen_filter
import reference
import stage
from reference import Program

README = (ROOT / "README.md").read_text(encoding="utf-8")


def fake_program(folder: str) -> Program:
    """A program with one verb, one kind of list and two exit codes."""
    listed = [{"name": "fast", "summary": "a <b> | c", "n": 2, "params": [
                 {"name": "size", "default": "4", "help": "rows", "choices": ["4", "8"]}]},
              {"name": "plain", "summary": "none", "n": 1, "params": []}]  # fmt: skip
    texts = {"--help": "Usage: x\n\nCommands:\n  list                        lists\n\n"
                       "Exit codes: 0 ok; 2 usage, config or\ninput error; 130 interrupted.",
             "list --help": "lists\n\nExit codes: 0 ok.",
             "complete words -- list ": "kernels\t",
             "list kernels --json": json.dumps(listed),
             "list experiments --json": json.dumps([
                 {"name": "new", "question": "Is it?", "paper": "P", "figure": "", "needs": "",
                  "minutes": 0.5}])}  # fmt: skip
    path = Path(folder) / "program"
    cases = "".join(f"'{key}') cat <<'END'\n{text}\nEND\n;;\n" for key, text in texts.items())
    path.write_text(f'#!/bin/bash\ncase "$*" in\n{cases}*) exit 2 ;;\nesac\n', encoding="utf-8")
    os.chmod(path, 0o755)
    return Program(path)


class ReadmeTest(unittest.TestCase):
    def test_it_has_at_most_200_lines(self) -> None:
        self.assertLessEqual(len(README.splitlines()), 200)

    def test_its_table_of_experiments_is_the_programs(self) -> None:
        self.assertEqual(reference.with_experiments(README, Program(BINARY)), README,
                         "docs/site/reference.py writes the table")  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            self.assertNotEqual(reference.with_experiments(README, fake_program(folder)), README)

    def test_the_table_has_question_paper_needs_and_minutes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            page = reference.with_experiments(f"a\n{reference.BEGIN} -->\nold\n{reference.END}\nb",
                                              fake_program(folder))  # fmt: skip

        self.assertIn("| name | question | paper | needs | minutes |", page)
        self.assertIn("| `new` | Is it? | P |  | 0.5 |", page)
        self.assertNotIn("old", page)
        self.assertTrue(page.startswith("a\n") and page.endswith("\nb"))

    def test_every_verb_that_it_names_exists(self) -> None:
        named = set(re.findall(r"`(?:build/)?(?:tessera )?([a-z]+) [A-Z]+", README))

        self.assertGreater(len(named), 7)
        self.assertLessEqual(named, set(Program(BINARY).subcommands()))


class ReferenceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.fake = fake_program(cls.folder.name)

    def test_exit_codes_are_read_from_help_across_lines(self) -> None:
        self.assertEqual(self.fake.exit_codes(), {"0": "ok", "2": "usage, config or input error",
                                                  "130": "interrupted"})  # fmt: skip
        self.assertIn("3", Program(BINARY).exit_codes())

    def test_every_verb_and_verb_of_a_verb_is_on_the_page(self) -> None:
        self.assertIn("## tessera\n", reference.verbs_page(self.fake))
        self.assertIn("### tessera list\n", reference.verbs_page(self.fake))
        program = Program(BINARY)
        page = reference.verbs_page(program)

        for verb in program.subcommands():
            self.assertIn(f"### tessera {verb}\n", page)
        for verb in program.subcommands("matrix"):
            self.assertIn(f"#### tessera matrix {verb}\n", page)

    def test_kinds_are_those_that_the_command_line_completes(self) -> None:
        self.assertEqual(self.fake.kinds(), ["kernels"])
        self.assertLessEqual({"kernels", "columns", "experiments"}, set(Program(BINARY).kinds()))

    def test_a_kind_has_a_table_and_a_section_for_what_has_parameters(self) -> None:
        page = reference.kind_page("kernels", self.fake.listed("kernels"))

        self.assertIn("| name | summary | n |", page)
        self.assertIn("| `fast` | a \\<b\\> \\| c | 2 |", page)
        self.assertIn("## fast\n", page)
        self.assertIn("| `size` | `4` | `4`, `8` | rows |", page)
        self.assertNotIn("## plain\n", page)

    def test_every_kind_and_every_name_has_a_place(self) -> None:
        program = Program(BINARY)
        with tempfile.TemporaryDirectory() as folder:
            pages = reference.write(program, Path(folder))
            for kind in program.kinds():
                self.assertIn(kind, pages)
                page = (Path(folder) / f"{kind}.md").read_text(encoding="utf-8")
                for entry in program.listed(kind):
                    self.assertIn(f"| `{entry['name']}` |", page)

    def test_every_header_of_the_interfaces_exists(self) -> None:
        for headers in reference.HEADERS.values():
            for header in headers:
                self.assertTrue((ROOT / header).exists(), header)


class SiteTest(unittest.TestCase):
    def test_comments_become_docstrings(self) -> None:
        header = ("// What it is.\n//\n//   f(a<b>);\n//\n// More.\n#pragma once\nnamespace tessera {\n/// A shape, a <b>.\n"
                  "struct S {\n  int n = 0;  // rows of A, or\n              // of B\n"
                  "  // Next.\n  int m;\n};\n}  // namespace tessera\n")  # fmt: skip
        text = doxygen_filter.docstrings(header, "a.hpp")

        self.assertTrue(text.startswith(
            "/*! \\file a.hpp\n\nWhat it is.\n\n\\verbatim\n  f(a<b>);\n\\endverbatim\n\nMore.\n*/"), text)
        self.assertIn("/// A shape, a \\<b\\>.\n", text)
        self.assertIn("  int n = 0;  ///< rows of A, or\n", text)
        self.assertIn("  ///< of B\n", text)
        self.assertNotIn("namespace", text)

    def test_named_anchors_become_those_of_their_headings(self) -> None:
        page = ROOT / "experiments" / "results" / "spmm" / "README.md"
        text = stage.staged("[a](../baselines/README.md#right) [b](../../../README.md)", page)

        self.assertEqual(text, "[a](../baselines/README.md#correctness) [b](../../../index.md)")
        self.assertEqual(stage.staged('## A b <a name="c"></a>', page), "## A b")

    def test_the_contents_name_every_page(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            stage.stage(Program(BINARY), Path(folder))
            front = (Path(folder) / "index.md").read_text(encoding="utf-8")
            for page in Path(folder).rglob("*.md"):
                name = page.relative_to(folder).with_suffix("").as_posix()
                self.assertTrue(name == "index" or f"\n{name}\n" in front, name)

    def test_a_missing_program_or_an_unknown_option_ends_the_build_with_a_message(self) -> None:
        for arguments, code in ((["--nonsense"], 2), (["--program"], 2), (["--help"], 0)):
            done = subprocess.run([ROOT / "docs" / "build", *arguments], capture_output=True,
                                  text=True, check=False)  # fmt: skip
            self.assertEqual(done.returncode, code)
            self.assertIn("usage: docs/build", done.stdout + done.stderr)
        done = subprocess.run([ROOT / "docs" / "build", "--program", "/nowhere"],
                              capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 5)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
