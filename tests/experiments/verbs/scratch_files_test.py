"""Tests of the files that a verb writes for the Python that it calls: a killed run leaves none for
longer than until the next one.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/verbs/scratch_files_test.py`.
"""

import os
import stat
import subprocess
import unittest
from pathlib import Path

from program import BINARY, UNIFORM, ProgramTest

# A Python that writes where it is told to, and kills whoever called it.
KILLER = """#!/bin/sh
while [ $# -gt 1 ]; do
  if [ "$1" = --captions ]; then echo half > "$2"; fi
  shift
done
kill -9 $PPID
"""
# One that draws nothing: captions for the program, a page.
EMPTY = """#!/bin/sh
for word; do
  if [ "$before" = --captions ]; then echo '{"speed": "A caption"}' > "$word"; fi
  before="$word"
done
"""


class ScratchFilesTest(ProgramTest):
    """tessera figure and tessera report."""

    def setUp(self) -> None:
        super().setUp()
        self.path = self.config(UNIFORM, backends='"model"',
                                rest='[[figure]]\nid = "speed"\nkind = "bars"\nx = "n"\n'
                                     'y = "gflops"\nseries = "kernel"\n')
        self.run_config(self.path)
        (self.folder / "to").mkdir()

    def call(self, python: str, *words: str) -> int:
        """The program with a Python of its own; its exit status."""
        script = self.folder / "python"
        script.write_text(python)
        script.chmod(0o755)
        return subprocess.run([BINARY, *words], cwd=self.folder, capture_output=True, check=False,
                              env=self.environment() | {"TESSERA_PYTHON": str(script)}).returncode

    def entries(self) -> set[str]:
        return {path.name for path in (self.folder / "to").iterdir()}

    def check_verb(self, words: list[str], left: set[str]) -> None:
        """Kills a run, and lets the next one find what it left."""
        self.assertEqual(self.call(KILLER, *words), -9)
        [scratch] = self.entries() - left
        folder = self.folder / "to" / scratch
        self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o700)
        then = folder.stat().st_mtime - 120
        os.utime(folder, (then, then))

        self.assertEqual(self.call(EMPTY, *words), 0)

        self.assertEqual(self.entries(), left)

    def test_the_captions_of_a_killed_run_do_not_stay(self) -> None:
        self.check_verb(["figure", self.path, "--out", str(self.out), "--to", "to"],
                        {"speed.json", "speed.csv"})

    def test_the_data_of_a_killed_report_do_not_stay(self) -> None:
        page = Path("to") / "page.html"
        taken = self.folder / "to" / "page.html.data.json"
        taken.write_text("of the user")

        self.check_verb(["report", self.path, "--out", str(self.out), "--to", str(page)],
                        {taken.name})

        self.assertEqual(taken.read_text(), "of the user")


if __name__ == "__main__":
    unittest.main()
