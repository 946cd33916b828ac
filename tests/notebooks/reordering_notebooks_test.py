"""Tests of notebooks/spy.py, reorder_quality.py and reorder_pays.py on made-up data.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3
tests/notebooks/reordering_notebooks_test.py`. Skipped without numpy, matplotlib and pandas.
"""

import csv
import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
if any(importlib.util.find_spec(name) is None for name in ("matplotlib", "numpy", "pandas")):
    print("skipped: matplotlib, numpy or pandas is not installed")
    sys.exit(77)
sys.path.insert(0, str(NOTEBOOKS))

import numpy as np
import spy

from program import ProgramTest


def command(script: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run one script of notebooks/ as its user does."""
    return subprocess.run([sys.executable, str(NOTEBOOKS / script), *arguments],
                          capture_output=True, text=True, check=False, **options)


def pattern_of(dense: np.ndarray) -> spy.Pattern:
    """Of the true places."""
    rows, cols = np.nonzero(dense)
    return spy.Pattern(dense.shape, rows, cols)


class SpyTest(ProgramTest):
    """Pictures before and after."""

    def test_the_density_of_cells_counts_every_nonzero_once(self) -> None:
        random = np.random.default_rng(3)
        for shape in ((1000, 1300), (7, 5), (900, 3)):
            with self.subTest(shape=shape):
                dense = random.random(shape) < 0.1
                picture = spy.density(pattern_of(dense))
                self.assertLessEqual(max(picture.shape), spy.CELLS)

                height, width = (-(-np.arange(n + 1) * size // n)
                                 for n, size in zip(picture.shape, shape))
                areas = np.outer(np.diff(height), np.diff(width))
                self.assertAlmostEqual(np.nansum(picture * areas), dense.sum())
                corner = dense[:height[1], :width[1]].mean()
                self.assertAlmostEqual(np.nan_to_num(picture[0, 0]), corner)

    def test_tc_blocks_are_counted_as_the_program_counts_them(self) -> None:
        name = "rmat(scale=9)"
        self.tessera("matrix", "convert", name, "a.npz")
        [info] = self.json_of("matrix", "info", name, "--json")

        counted = spy.mean_nnz_tc(spy.read_npz(self.folder / "a.npz"))

        self.assertAlmostEqual(counted, info["mean_nnz_tc_8x8"])

    def test_an_order_moves_each_row_to_its_place(self) -> None:
        dense = np.random.default_rng(4).random((6, 6)) < 0.4
        order = np.array([3, 5, 0, 1, 4, 2])
        before = pattern_of(dense)

        after = np.zeros_like(dense)
        after[spy.moved(before.rows, order), before.cols] = True

        np.testing.assert_array_equal(after, dense[order])
        np.savetxt(self.folder / "twice.txt", [0, 1, 1], fmt="%d")
        with self.assertRaises(spy.SpyError):
            spy.read_order(self.folder / "twice.txt", 3)

    def test_pictures_are_drawn_from_the_program_and_from_files(self) -> None:
        name = "shuffle(of=poisson2d(nx=20, ny=20))"
        self.tessera("matrix", "convert", name, "a.npz")
        self.tessera("reorder", name, "--with", "rcm", "--out", "rows.npy", "--out-cols",
                     "cols.txt")
        for arguments in ((name, "--with", "rcm"), ("a.npz", "--rows", "rows.npy"),
                          ("a.npz", "--rows", "rows.npy", "--cols", "cols.txt"),
                          ("a.npz", "--rows", "rows.npy", "--symmetric")):
            with self.subTest(arguments=arguments):
                done = command("spy.py", *arguments, "--to", "out.png", cwd=self.folder,
                               env=self.environment())

                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue((self.folder / "out.png").read_bytes().startswith(b"\x89PNG"))
                (self.folder / "out.png").unlink()
        refused = command("spy.py", "a.npz", "--rows", "absent.npy", cwd=self.folder,
                          env=self.environment())
        self.assertEqual(refused.returncode, 2)
        self.assertIn("absent.npy", refused.stderr)


class RecordsTest(unittest.TestCase):
    """What is made of records of reorderings."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.lines: list[dict[str, Any]] = []

    def add(self, matrix: str, reorder: str, time_us: float, params: dict[str, Any],
            **more: Any) -> None:
        """One record that ended well."""
        self.lines.append({
            "schema": 1, "type": "point", "point_id": str(len(self.lines)), "status": "ok",
            "origin": "measured", "time": {"median_us": time_us},
            "matrix": {"nnz": 1000}, **more,
            "params": {"matrix": matrix, "reorder": {"name": reorder}, **params}})

    def run_script(self, script: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """The script over the records added."""
        (self.folder / "records.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in self.lines), encoding="utf-8")
        done = command(script, str(self.folder), str(self.folder / "figures"))
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def table(self, name: str) -> list[dict[str, str]]:
        """A table that was written."""
        with open(self.folder / "figures" / name, encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def ordered(self, matrix: str, reorder: str, time_us: float, nnz_tc: float) -> None:
        """A point of the backend reorder."""
        self.add(matrix, reorder, time_us, {"backend": "reorder", "threads": 0},
                 statistics={"mean_nnz_tc_8x8": nnz_tc},
                 prep={"reorder_peak_bytes": 20000})

    def test_of_two_versions_of_a_reordering_the_newer_record_counts(self) -> None:
        self.ordered("a", "none", 1, 8)
        self.ordered("a", "rcm", 100, 16)
        self.ordered("a", "rcm", 100, 24)
        for line, request in zip(self.lines, ("before", "after", "after")):
            line["params_hash"] = request

        self.run_script("reorder_quality.py")

        gains = {row["reorder"]: float(row["gain"]) for row in self.table("reorder_quality.csv")}
        self.assertEqual(gains, {"none": 1, "rcm": 3})

    def test_quality_is_the_mean_over_the_matrices_all_have_finished(self) -> None:
        for matrix, gains in (("a", (1, 2)), ("b", (1, 8))):
            for reorder, gain in zip(("none", "rcm"), gains):
                self.ordered(matrix, reorder, 100 * gain, 8 * gain)
        self.ordered("c", "none", 1, 8)  # rcm is missing there
        self.ordered("shuffle(of=a)", "none", 1, 4)
        self.ordered("shuffle(of=a)", "rcm", 50, 12)

        self.run_script("reorder_quality.py")

        found = {(row["shuffled"], row["reorder"]): row
                 for row in self.table("reorder_quality.csv")}
        self.assertAlmostEqual(float(found["False", "rcm"]["gain"]), 4)
        self.assertAlmostEqual(float(found["False", "rcm"]["ns_per_nnz"]), 400)
        self.assertEqual(found["False", "rcm"]["matrices"], "2")
        self.assertAlmostEqual(float(found["True", "rcm"]["gain"]), 3)
        self.assertAlmostEqual(float(found["True", "rcm"]["bytes_per_nnz"]), 20)
        self.assertTrue((self.folder / "figures/reorder_quality.png").exists())
        self.ordered("a", "rcm", 100, 9)
        self.assertIn("twice", self.run_script("reorder_quality.py", code=2).stderr)

    def product(self, reorder: str, time_us: float, n: int = 32) -> None:
        """A product of one matrix."""
        self.add("a", reorder, time_us,
                 {"n": n, "kernel": {"name": "acc_spmm", "precision": "tf32"}},
                 prep={"reorder_s": 0.5, "apply_s": 0.25, "reorder_threads": 2},
                 unpermute={"median_us": 0 if reorder == "none" else 100})

    def test_a_reordering_pays_after_its_price_in_units_of_what_a_product_saves(self) -> None:
        self.product("none", 1000)
        self.product("rcm", 750)
        self.product("degree", 950)
        self.product("random", 1200)

        self.run_script("reorder_pays.py")

        found = {row["reorder"]: row for row in self.table("reorder_pays.csv")}
        self.assertEqual(set(found), {"rcm", "degree", "random"})
        self.assertAlmostEqual(float(found["rcm"]["products"]), 0.75e6 / 250)
        self.assertAlmostEqual(float(found["rcm"]["products_restored"]), 0.75e6 / 150)
        self.assertAlmostEqual(float(found["rcm"]["price_in_products"]), 750)
        self.assertAlmostEqual(float(found["degree"]["products"]), 0.75e6 / 50)
        self.assertEqual(found["degree"]["products_restored"], "")  # restoring eats the gain
        self.assertEqual(found["random"]["products"], "")
        self.assertTrue((self.folder / "figures/reorder_pays_measured_n32.png").exists())

    def test_products_without_their_counterpart_are_an_error(self) -> None:
        self.product("rcm", 750)
        self.assertIn("reorder = none", self.run_script("reorder_pays.py", code=2).stderr)
        self.product("none", 750, n=64)
        self.assertIn("reorder = none", self.run_script("reorder_pays.py", code=2).stderr)
        self.product("rcm", 800)
        self.assertIn("twice", self.run_script("reorder_pays.py", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
