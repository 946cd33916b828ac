"""Tests of notebooks/packing_cost.py: the unit of the costs, and the omitted matrices.

Run with `PYTHONPATH=tests python3 tests/formats/packing_cost_test.py`. Skipped without matplotlib
and pandas.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
if any(importlib.util.find_spec(name) is None for name in ("matplotlib", "pandas")):
    print("skipped: matplotlib or pandas is not installed")
    sys.exit(77)
sys.path.insert(0, str(NOTEBOOKS))

import packing_cost

from figure_data import FigureError
from records import environment, read_table


class CostsTest(unittest.TestCase):
    """Planted records, from files to the table."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def point(self, matrix: str, nnz: int, time_us: float, **params: Any) -> dict[str, Any]:
        """A record that was measured."""
        return {"schema": 1, "type": "point", "point_id": f"{matrix} {params}", "status": "ok",
                "origin": "measured", "matrix": {"name": matrix, "nnz": nnz},
                "time": {"median_us": time_us},
                "params": {"matrix": matrix, "reorder": {"name": "none"}, **params}}

    def packing(self, matrix: str, nnz: int, time_us: float, **params: Any) -> dict[str, Any]:
        return self.point(matrix, nnz, time_us, backend="pack_gpu",
                          format={"name": "bcsr", "block_rows": 8, **params})

    def product(self, matrix: str, kernel: str, time_us: float, n: int = 128) -> dict[str, Any]:
        return self.point(matrix, 500_000, time_us, backend="gpu", n=n, kernel={"name": kernel},
                          format={"name": "csr"})

    def write(self, name: str, records: list[dict[str, Any]]) -> Path:
        """A folder of records."""
        folder = self.folder / name
        folder.mkdir()
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / "records.jsonl").write_text(lines, encoding="utf-8")
        return folder

    def test_the_unit_is_the_fastest_product_of_the_same_matrix(self) -> None:
        packings = self.write("packings", [self.packing("a", 500_000, 60.0),
                                           self.packing("b", 900_000, 60.0),
                                           self.packing("alone", 900_000, 60.0)])
        products = self.write("products", [self.product("a", "slow", 40.0),
                                           self.product("a", "fast", 30.0),
                                           self.product("b", "slow", 10.0)])

        costs = packing_cost.packing_costs(read_table(packings), read_table(products))

        self.assertEqual(list(costs["matrix"]), ["b", "a"])
        self.assertEqual(list(costs["spmms"]), [6.0, 2.0])
        self.assertEqual(list(costs["fastest"]), ["slow", "fast"])
        self.assertEqual(list(costs["format"]), ["bcsr(block_rows=8)"] * 2)

    def test_the_mean_is_geometric_and_over_large_matrices(self) -> None:
        packings = self.write("packings", [self.packing("a", 500_000, 80.0),
                                           self.packing("b", 400_000, 20.0),
                                           self.packing("small", 399_999, 1000.0)])
        products = self.write("products", [self.product(m, "k", 10.0) for m in ("a", "b", "small")])

        costs = packing_cost.packing_costs(read_table(packings), read_table(products))

        self.assertAlmostEqual(packing_cost.means(costs)["bcsr(block_rows=8)"], 4.0)

    def test_products_of_two_widths_are_refused(self) -> None:
        packings = self.write("packings", [self.packing("a", 500_000, 60.0)])
        products = self.write("products", [self.product("a", "k", 10.0),
                                           self.product("a", "k2", 10.0, n=32)])

        with self.assertRaises(FigureError):
            packing_cost.packing_costs(read_table(packings), read_table(products))

    def test_the_command_writes_a_table_and_a_figure(self) -> None:
        packings = self.write("packings", [self.packing("a", 500_000, 60.0)])
        products = self.write("products", [self.product("a", "k", 10.0)])

        result = subprocess.run(
            [sys.executable, NOTEBOOKS / "packing_cost.py", packings, products,
             self.folder / "out"],
            capture_output=True, text=True, check=False)

        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("6.00", result.stdout)
        table = (self.folder / "out" / "packing_cost.csv").read_text(encoding="utf-8")
        self.assertEqual(table.splitlines()[1], "a,500000,bcsr(block_rows=8),60,10,k,6")
        self.assertTrue((self.folder / "out" / "packing_cost.png").exists())

    def test_the_figure_names_the_gpu_the_date_and_the_commit(self) -> None:
        older = {"type": "env", "started_at": "2026-01-01T00:00:00Z", "gpu": {"available": False},
                 "host": {"cpu": "some CPU"}, "build": {"commit": "old"}}
        newer = {"type": "env", "started_at": "2026-02-03T04:05:06Z",
                 "gpu": {"available": True, "name": "some GPU"}, "build": {"commit": "abc"}}

        self.assertEqual(environment(self.write("runs", [newer, older])),
                         "some GPU, 2026-02-03, commit abc")
        self.assertEqual(environment(self.write("cpu", [older])),
                         "some CPU, 2026-01-01, commit old")
        self.assertEqual(environment(self.write("none", [])), "unknown machine")


if __name__ == "__main__":
    unittest.main()
