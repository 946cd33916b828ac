"""Tests of notebooks/tsparse_criteria.py: the matrices that count, and the scores of criteria.

Run with `PYTHONPATH=tests python3 tests/notebooks/tsparse_criteria_test.py`. Skipped without
matplotlib.
"""

import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
if importlib.util.find_spec("matplotlib") is None:
    print("skipped: matplotlib is not installed")
    sys.exit(77)

MATRICES = """matrix,rows,nnz,tile_nnz_mean_8x8,products_per_tile_product
right,1000,400000,9,20
wrong,1000,400000,9,20
found,1000,50000,2,2
small,100,9000,9,20
loose,1000,400000,1.0,1
rectangular,1000,400000,9,
"""
TIMES = """matrix,case,time_us,pool_us,status
right,tSparse,10,10,ok
right,cuSPARSE,40,5,ok
right,spECK,90,90,ok
wrong,tSparse,10,10,ok
wrong,cuSPARSE,5,5,ok
found,tSparse,10,10,ok
found,cuSPARSE,20,5,ok
found,spECK,,,failed
small,tSparse,10,10,ok
small,cuSPARSE,20,5,ok
loose,tSparse,10,10,ok
loose,cuSPARSE,20,5,ok
rectangular,tSparse,10,10,ok
rectangular,cuSPARSE,20,5,ok
"""


class CriteriaTest(unittest.TestCase):
    """Planted tables."""

    def lines(self, *column: str) -> dict[str, str]:
        """What is printed, by approach."""
        with tempfile.TemporaryDirectory() as folder:
            times, matrices = Path(folder) / "times.csv", Path(folder) / "matrices.csv"
            times.write_text(TIMES, encoding="utf-8")
            matrices.write_text(MATRICES, encoding="utf-8")
            run = subprocess.run(
                [sys.executable, "-B", str(NOTEBOOKS / "tsparse_criteria.py"), str(times),
                 str(matrices), *column], capture_output=True, text=True, check=True)
        return {line.split(",")[0]: line for line in run.stdout.splitlines()[1:]}

    def test_precision_and_recall_are_over_the_matrices_of_the_collection(self) -> None:
        # nnz > 200000 picks right and wrong; right and found are faster. Geomean of 4 and 1/2.
        self.assertEqual(self.lines()["cuSPARSE"], 'cuSPARSE,"nnz > 200000",2,3,2,0.50,0.50,1.41')

    def test_a_matrix_without_a_time_of_the_approach_does_not_count(self) -> None:
        self.assertEqual(self.lines()["spECK"],
                         'spECK,"mean row > 42, nnz > 300000",1,1,1,1.00,1.00,9.00')
        self.assertEqual(self.lines()["ESC"],
                         'ESC,"products / tile products >= 1",0,0,0,-,-,-')

    def test_all_is_the_fastest_approach(self) -> None:
        self.assertEqual(self.lines()["all"],
                         'all,"mean row > 42, nnz > 300000",2,3,2,0.50,0.50,1.41')

    def test_the_times_from_a_pool_may_be_asked_for(self) -> None:
        self.assertEqual(self.lines("pool_us")["cuSPARSE"],
                         'cuSPARSE,"nnz > 200000",2,3,0,0.00,-,0.50')


if __name__ == "__main__":
    unittest.main()
