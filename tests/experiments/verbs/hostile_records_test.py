"""Tests of records that somebody else wrote: nothing in their texts steers a terminal, ends a cell or
is a command of LaTeX.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/verbs/hostile_records_test.py`.
"""

import csv
import json
import re
import unittest
from typing import Any

from program import RMAT, UNIFORM, ProgramTest

# A title of the window, a colour by a C1 byte, ends of cells, HTML, a formula and LaTeX.
HOSTILE = "\x1b]0;owned\x07\u009b31m\r\n\",|</script><b>$x$ \\input{a}%&"
# What decides which point a record is of.
KEPT = ("schema", "type", "point_id", "params_hash", "params", "status", "finished_at", "env_id",
        "origin", "after", "started_at", "backend")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def poisoned(value: Any) -> Any:
    """A record with HOSTILE behind every other text and in one more key of every object."""
    if isinstance(value, str):
        return value + HOSTILE
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    if isinstance(value, dict):
        return {HOSTILE: HOSTILE} | {key: item if key in KEPT else poisoned(item)
                                     for key, item in value.items()}
    return value


class HostileRecordsTest(ProgramTest):
    """Every verb that reads records."""

    def setUp(self) -> None:
        super().setUp()
        self.path = self.config(
            UNIFORM, RMAT, n=[4], kernels='"csr_spmm", "acc_spmm"', backends='"model"',
            rest='[table]\ncolumns = ["matrix", "kernel", "time_us", "commit", "reason", "bound_by"]\n'
                 '[[figure]]\nid = "speed"\nkind = "bars"\nx = "matrix"\ny = "gflops"\n'
                 'series = "kernel"\npanel = "bound_by"\n')
        self.run_config(self.path)
        lines = [poisoned(json.loads(line)) for line in self.records.read_text().splitlines()]
        points = [line for line in lines if line["type"] == "point"]
        points[0] |= {"status": "failed", "reason": HOSTILE}
        points[1] |= {"status": "skipped", "reason": HOSTILE,
                      "skip": {"part": HOSTILE, "name": HOSTILE}}
        self.records.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def assert_clean(self, text: str) -> None:
        """Only ends of lines, and traces of what was planted."""
        self.assertIsNone(CONTROL.search(text), repr(text))

    def test_no_control_character_of_a_record_reaches_the_terminal(self) -> None:
        fresh = self.folder / "fresh"
        self.tessera("run", self.path, "--out", str(fresh))
        calls = {
            ("status", self.path, "--out", str(self.out)): 0,
            ("status", self.path, "--out", str(self.out), "--json"): 0,
            ("run", self.path, "--out", str(self.out)): 3,
            ("compare", str(self.out), str(fresh), "--all"): 0,
            ("compare", str(self.out), "--by", "commit"): 2,
            ("compare", str(self.out), "--by", "kernel", "--json"): 0,
            ("merge", str(self.out), "--out", "merged"): 0,
        }
        self.assertIn(r"\x1b]0;owned\x07\xc2\x9b31m\x0d\x0a",
                      self.tessera("status", self.path, "--out", str(self.out)).stdout)
        for words, code in calls.items():
            with self.subTest(words=words):
                done = self.tessera(*words, code=code)

                self.assert_clean(done.stdout)
                self.assert_clean(done.stderr)

    def test_a_cell_of_a_table_holds_its_text_and_no_more(self) -> None:
        self.tessera("run", self.path, "--out", str(self.out), code=3)
        self.tessera("merge", str(self.out), "--out", "merged")

        for path, count, column in ((self.out / "table.csv", 3, "bound_by"),
                                    (self.folder / "merged" / "records.csv", 4, "reason")):
            text = path.read_text()
            self.assert_clean(text)
            with path.open(encoding="utf-8", newline="") as file:
                header, *rows = csv.reader(file)
            self.assertEqual(len(rows), count)
            self.assertEqual({len(row) for row in rows}, {len(header)})
            self.assertTrue(any(
                row[header.index(column)].endswith(
                    r"\x1b]0;owned\x07\xc2\x9b31m\x0d\x0a" + '",|</script><b>$x$ \\input{a}%&')
                for row in rows))

    def test_text_of_records_is_no_command_of_latex(self) -> None:
        self.tessera("figure", self.path, "--out", str(self.out), "--to", "drawn", "--format", "svg",
                     "--latex", "--macros", "macros.tex")

        for path in (self.folder / "drawn" / "table.tex", self.folder / "macros.tex"):
            text = path.read_text()
            self.assert_clean(text)
            self.assertIn(r"\textbackslash{}input\{a\}", text)
            code = re.sub(r"(?m)(?<!\\)%.*$", "", text)  # without comments
            self.assertNotIn(r"\input", code)
            self.assertNotRegex(code, r"(?<!\\)\$x")

    def test_a_page_holds_a_record_as_data_alone(self) -> None:
        self.tessera("report", self.path, "--out", str(self.out), "--to", "page.html")

        page = (self.folder / "page.html").read_text()
        self.assertIsNone(re.search(r"owned.{0,40}</script>", page))
        self.assertIn(r"\u003c/script>\u003cb>", page)


class HostileConfigTest(ProgramTest):
    """Texts of a config."""

    def test_control_characters_in_a_config_are_refused_with_their_place(self) -> None:
        for text in (r'title = "a\u001b[31mb"', r'title = "a\u009bb"', r'"a\u0007" = 1'):
            with self.subTest(text=text):
                path = self.config(UNIFORM, experiment=text)

                message = self.tessera("plan", path, code=2).stderr

                self.assertIn("c.toml:5:", message)
                self.assertIn("holds control characters", message)
                self.assertIsNone(CONTROL.search(message))

    def test_lines_and_tabs_of_a_text_are_taken(self) -> None:
        for end in ("\n", "\r\n"):
            path = self.config(UNIFORM, experiment=f'title = """a{end}\tb"""')
            self.tessera("plan", path)


if __name__ == "__main__":
    unittest.main()
