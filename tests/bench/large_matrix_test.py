"""The matrix of large_matrix.py is the one that it describes, and its table has a row for each step.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/bench/large_matrix_test.py`.
"""

import csv
import importlib.util
import json
import subprocess
import sys
import unittest
from pathlib import Path

from program import BINARY, ProgramTest

SCRIPT = Path(__file__).parent / "large_matrix.py"
ROWS = 5000
HAS_NUMPY = importlib.util.find_spec("numpy") is not None


@unittest.skipUnless(HAS_NUMPY, "there is no numpy")
class LargeMatrixTest(ProgramTest):
    """A small matrix through the steps that need no GPU."""

    def measured(self, *steps: str, rows: int = ROWS, binary: str = BINARY) -> subprocess.CompletedProcess[str]:
        """The script with these steps."""
        return subprocess.run([sys.executable, "-B", SCRIPT, "--csv", self.folder / "memory.csv", "--rows", str(rows),
                               "--folder", self.folder, "--commit", "0123456789ab", "--steps", *steps],
                              env=self.environment() | {"TESSERA_BINARY": binary}, capture_output=True,
                              text=True, check=False, timeout=300)  # fmt: skip

    def rows(self) -> list[dict[str, str]]:
        """The table."""
        with (self.folder / "memory.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def test_each_step_has_a_row_that_replaces_the_one_before_and_nothing_else_stays(self) -> None:
        done = self.measured("emulate", "read", "pack", "order")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.measured("pack", rows=4000).returncode, 0)
        self.assertEqual(self.measured("pack").returncode, 0)
        self.assertEqual([(row["step"], int(row["nonzeros"])) for row in self.rows()],
                         [("read", 300000), ("order", 300000), ("emulate", 300000), ("pack", 240000),
                          ("pack", 300000)])  # fmt: skip
        for row in self.rows():
            self.assertEqual(int(row["csr_bytes"]), 8 * (int(row["nonzeros"]) // 60 * 61 + 1))
            self.assertGreater(int(row["peak_bytes"]), int(row["csr_bytes"]))
            self.assertAlmostEqual(float(row["peak_over_csr"]), int(row["peak_bytes"]) / int(row["csr_bytes"]), 3)
            self.assertAlmostEqual(float(row["csr_over_peak"]) * float(row["peak_over_csr"]), 1, 2)
            self.assertEqual((row["origin"], row["commit"]), ("measured", "0123456789ab"))
        self.assertEqual([path.name for path in self.folder.glob("large-matrix-*")], [])

    def test_rows_have_60_nonzeros_at_distances_of_1_to_32(self) -> None:
        spec = importlib.util.spec_from_file_location("large_matrix", SCRIPT)
        assert spec and spec.loader
        script = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = script  # processes find its functions there
        spec.loader.exec_module(script)
        script.ROWS_OF_BLOCK = 512
        script.make_matrix(self.folder / "a.npz", ROWS)

        loaded = script.np.load(self.folder / "a.npz")
        columns = loaded["indices"].reshape(ROWS, 60)
        distances = script.np.diff(columns, axis=1)
        self.assertEqual((distances.min(), distances.max()), (1, 32))
        self.assertGreaterEqual(columns.min(), 0)
        self.assertLess(columns.max(), ROWS)
        self.assertEqual(len({tuple(row) for row in columns}), ROWS, "a row is there twice")
        described = json.loads(self.tessera("matrix", "info", str(self.folder / "a.npz"), "--json").stdout)
        self.assertEqual(described[0]["nnz"], 60 * ROWS)

    def test_a_step_that_fails_is_told_and_has_no_row(self) -> None:
        done = self.measured("read", binary="/bin/false")
        self.assertIn("large_matrix.py: exit code 1", done.stderr)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse((self.folder / "memory.csv").exists())
        self.assertEqual([path.name for path in self.folder.glob("large-matrix-*")], [])


if __name__ == "__main__":
    unittest.main()
