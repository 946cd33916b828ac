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
right,nonTCU,15,15,ok
right,"tSparse, ours",5,5,ok
wrong,nonTCU,12,12,ok
wrong,"tSparse, ours",4,4,ok
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
        """The lines of Table 2 by approach, those of Table 3 by "approach GPU"."""
        with tempfile.TemporaryDirectory() as folder:
            times, matrices = Path(folder) / "times.csv", Path(folder) / "matrices.csv"
            times.write_text(TIMES, encoding="utf-8")
            matrices.write_text(MATRICES, encoding="utf-8")
            run = subprocess.run(
                [sys.executable, "-B", str(NOTEBOOKS / "tsparse_criteria.py"), str(times),
                 str(matrices), *column], capture_output=True, text=True, check=True)
        table_2, table_3 = run.stdout.split("\n\n")
        lines = {line.split(",")[0]: line for line in table_2.splitlines()[1:]}
        for line in table_3.splitlines()[1:]:
            lines[f'{line.split(",")[0]} {line.split(",")[-4]}'] = line
        return lines

    def test_precision_and_recall_are_over_the_matrices_of_the_collection(self) -> None:
        # nnz > 200000 picks right and wrong; right and found are faster.
        self.assertEqual(self.lines()["cuSPARSE"], 'cuSPARSE,"nnz > 200000",2,3,2,0.50,0.50')

    def test_a_matrix_without_a_time_of_the_approach_does_not_count(self) -> None:
        self.assertEqual(self.lines()["spECK"],
                         'spECK,"mean row > 42, nnz > 300000",1,1,1,1.00,1.00')
        self.assertEqual(self.lines()["ESC"],
                         'ESC,"products / tile products >= 1",0,0,0,-,-')

    def test_all_is_the_fastest_approach_and_the_twin_is_none(self) -> None:
        self.assertEqual(self.lines()["all"],
                         'all,"mean row > 42, nnz > 300000",2,3,2,0.50,0.50')

    def test_the_times_from_a_pool_may_be_asked_for(self) -> None:
        self.assertEqual(self.lines("pool_us")["cuSPARSE"],
                         'cuSPARSE,"nnz > 200000",2,3,0,0.00,-')

    def test_table_3_has_the_range_of_the_speedups_beside_the_published_one(self) -> None:
        # right: 40 / 10, wrong: 5 / 10; found has too short rows for the first criterion.
        lines = self.lines()
        self.assertEqual(lines["cuSPARSE Titan RTX"],
                         'cuSPARSE,"mean row > 42, nnz > 300000",2,1.41,0.50,4.00,'
                         "Titan RTX,2.8,0.65,11.58")
        self.assertEqual(lines["nonTCU RTX 2070"],
                         'nonTCU,"mean row > 21, nnz > 300000",2,1.34,1.20,1.50,'
                         "RTX 2070,1.56,1.19,2.14")
        self.assertEqual(lines["ESC Titan RTX"],
                         'ESC,"mean row > 42, nnz > 300000",0,-,-,-,'
                         "Titan RTX,36.93,4.17,132.74")

    def test_another_subject_may_be_asked_for(self) -> None:
        self.assertEqual(self.lines("time_us", "tSparse, ours")["cuSPARSE"],
                         'cuSPARSE,"nnz > 200000",2,2,2,1.00,1.00')


if __name__ == "__main__":
    unittest.main()
