"""Tests of notebooks/trace_counters.py: a planted table, and the rows of kernels that it lacks.

Run with `PYTHONPATH=tests python3 tests/notebooks/trace_counters_test.py`.
"""

import csv
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "notebooks"))

import trace_counters as under_test

# Of one kernel 2 % too few and 4 % too many instructions; of another no sectors are counted.
TABLE = """even,near,,32,98,100,-0.0200,0,0,0.0000,11,10,0.1000,10,10,0.0000
even,near,unroll = 4,32,104,100,0.0400,4,5,-0.2000,10,10,0.0000,10,10,0.0000
even,copies,,32,100,100,0.0000,0,0,0.0000,7,0,inf,10,10,0.0000
"""


class TraceCountersTest(unittest.TestCase):
    """Means, largest differences and what stays."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.table = Path(folder.name) / "table.csv"
        self.table.write_text(TABLE)
        self.file = Path(folder.name) / "trace_counters.csv"
        self.file.write_text(",".join(under_test.COLUMNS) + "\nnear,9,9,9,9,9,9,9,9,old\n"
                             "other,2,31.3,42.0,0.0,1,1,1,1,old\n")  # fmt: skip

    def rows(self):
        """The file after the script."""
        arguments = ["trace_counters.py", str(self.table), "new"]
        with mock.patch.object(under_test, "FILE", self.file), mock.patch("sys.argv", arguments):
            under_test.main()
        with self.file.open(newline="") as file:
            return {row["kernel"]: row for row in csv.DictReader(file)}

    def test_means_and_largest_differences_of_either_sign(self):
        near = self.rows()["near"]
        self.assertEqual((near["products"], near["commit"]), ("2", "new"))
        self.assertEqual(near["instructions_mean_pct"], "3.00")
        self.assertEqual(near["instructions_max_pct"], "4.0")
        self.assertEqual(near["mma_max_pct"], "20.0")
        self.assertEqual(near["l1_sectors_mean_pct"], "5.00")

    def test_a_count_that_the_hardware_lacks_is_empty(self):
        copies = self.rows()["copies"]
        self.assertEqual((copies["l1_sectors_mean_pct"], copies["l1_sectors_max_pct"]), ("", ""))

    def test_kernels_that_the_table_lacks_keep_their_rows(self):
        other = self.rows()["other"]
        self.assertEqual((other["instructions_mean_pct"], other["commit"]), ("31.3", "old"))


if __name__ == "__main__":
    unittest.main()
