"""Tests of notebooks/headline.py: numbers from planted tables, and the committed files.

Run with `PYTHONPATH=tests python3 tests/notebooks/headline_test.py`.
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "notebooks" / "headline.py"

TIMES = """matrix,n,case,origin,time_us,commit
a,8,ours,measured,10,c1
b,8,ours,measured,10,c1
a,8,theirs,measured,20,c2
b,8,theirs,measured,80,c2
a,16,ours,simulated,10,c3
a,16,theirs,measured,20,c3
"""
SPEC = """schema = 1
[table]
times = { file = "times.csv", config = "try" }
absent = { file = "absent.csv", config = "never_run" }
[series]
ours = { table = "times", value = "time_us", where = { case = "ours" } }
theirs = { table = "times", value = "time_us", where = { case = "theirs" } }
none = { table = "absent", value = "time_us" }
[[figure]]
name = "over theirs, N = 8"
must = 2.0
aim = 3.0
measure = { aggregate = "geomean", of = "theirs", over = "ours", where = { n = 8 } }
[[figure]]
name = "not run"
must = 1.0
aim = 1.0
measure = { aggregate = "geomean", of = "none", over = "ours" }
[[figure]]
name = "not measured"
must = 1.0
aim = 1.0
"""
EXPECTED = """figure,must,aim,measured,commit
"over theirs, N = 8",2.0,3.0,4.000,c2 c1
not run,1.0,1.0,,
not measured,1.0,1.0,,
"""


class Headline(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name in ("claims", "headlines", "results/try"):
            (self.root / "experiments" / name).mkdir(parents=True)
        self.spec = self.root / "experiments" / "headlines" / "try.toml"
        self.spec.write_text(SPEC)
        (self.root / "experiments" / "results" / "times.csv").write_text(TIMES)
        self.table = self.root / "experiments" / "results" / "try" / "headline.csv"

    def run_it(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-B", PROGRAM, "--root", self.root, *arguments],
                              capture_output=True, text=True)  # fmt: skip

    def test_numbers_come_from_the_rows_of_the_tables_and_name_their_commits(self) -> None:
        done = self.run_it()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.table.read_text(), EXPECTED)
        self.assertIn("tessera run never_run", done.stderr)

    def test_a_check_fails_when_a_table_has_changed(self) -> None:
        self.run_it()
        self.assertEqual(self.run_it("--check").returncode, 0)
        self.table.write_text(EXPECTED.replace("4.000", "5.000"))
        self.assertEqual(self.run_it("--check").returncode, 1)

    def test_a_prediction_is_no_measurement(self) -> None:
        self.spec.write_text(SPEC.replace("where = { n = 8 }", "where = { n = 16 }"))
        done = self.run_it()
        self.assertEqual(done.returncode, 2)
        self.assertIn("simulated, not measured", done.stderr)
        self.assertFalse(self.table.exists())

    def test_a_figure_without_its_must_or_with_an_unknown_key_is_refused(self) -> None:
        for wrong in (SPEC.replace("must = 2.0\n", "", 1), SPEC.replace("aim = 3.0", "goal = 3.0")):
            self.spec.write_text(wrong)
            done = self.run_it()
            self.assertEqual(done.returncode, 2)
            self.assertIn("try.toml", done.stderr)

    def test_the_committed_tables_are_those_of_the_committed_measurements(self) -> None:
        done = subprocess.run([sys.executable, "-B", PROGRAM, "--check"], capture_output=True,
                              text=True)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
