"""Tests of notebooks/when_tensor_cores_pay.py: its numbers are those of the results and of the README.

Run with `PYTHONPATH=tests python3 tests/notebooks/when_tensor_cores_pay_test.py`. Skipped without
matplotlib, numpy and pandas.
"""

import importlib.util
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if any(importlib.util.find_spec(name) is None for name in ("matplotlib", "numpy", "pandas")):
    print("skipped: matplotlib, numpy or pandas is not installed")
    sys.exit(77)
sys.path.insert(0, str(ROOT / "notebooks"))

import pandas as pd
import when_tensor_cores_pay as notebook

from figure_data import FigureError


def numbers_in(page: str) -> list[str]:
    """The numbers of the first sentence of a page about full tiles, and of the one that follows."""
    found = re.search(r"With 16 or more nonzeros.*?\. With fewer.*?\.(?=\s)", page, re.DOTALL)
    return re.findall(r"\b\d+(?:\.\d+)?", found.group()) if found else []


def numbers_of(table: pd.DataFrame) -> list[str]:
    """The same numbers from the results, in the order in which the sentences have them."""
    lines = notebook.summary(table)
    said = []
    for full in (True, False):
        side = lines[lines["nonzeros"].str.startswith("16") == full]
        said += ["16", "8", "8"] if full else []
        said += [str(faster) for faster in side["faster"]] + [str(side["matrices"].iloc[0])]
        said += [f"{mean:.2f}" for mean in side["mean"]] + (["32", "128", "512"] if full else [])
    return said


class WhenTensorCoresPayTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.table = notebook.speeds()

    def test_the_counts_are_those_of_the_results_page(self) -> None:
        page = (ROOT / "experiments/results/baselines/README.md").read_text(encoding="utf-8")
        line = re.search(r"^\| the fastest on tensor cores, TF32, .*$", page, re.MULTILINE).group()
        published = re.findall(r"(\d\.\d\d); (\d+)", line)

        baselines = notebook.speeds(own=False)
        best = baselines[baselines["case"] == notebook.FASTEST]
        for n, (mean, faster) in zip(notebook.WIDTHS, published, strict=True):
            speed = best[best["n"] == n]["speed"]
            self.assertEqual(int((speed > 1).sum()), int(faster))
            self.assertAlmostEqual(speed.prod() ** (1 / len(speed)), float(mean), delta=0.005)

    def test_every_kernel_has_every_matrix_once_at_every_width(self) -> None:
        sizes = self.table.groupby(["n", "case"])["matrix"].nunique()

        # Our own kernel and the fastest are there, too.
        self.assertEqual(len(sizes), 3 * (len(notebook.TF32) + len(notebook.FP16) + 2))
        self.assertEqual(set(sizes), {24})
        self.assertFalse(self.table["tile_nnz"].isna().any())
        self.assertFalse(set(notebook.TF32 + notebook.FP16) & set(notebook.scalar_cases()))

    def test_the_fastest_is_counted_on_its_side_of_full_tiles(self) -> None:
        planted = pd.DataFrame([
            {"case": notebook.FASTEST, "n": 32, "tile_nnz": 15.9, "speed": 0.5},
            {"case": notebook.FASTEST, "n": 32, "tile_nnz": 16.0, "speed": 2.0},
            {"case": notebook.FASTEST, "n": 32, "tile_nnz": 20.0, "speed": 0.5},
            {"case": "Acc-SpMM", "n": 32, "tile_nnz": 20.0, "speed": 9.0}])

        lines = notebook.summary(planted).set_index("nonzeros")

        self.assertEqual(lines.loc["16 and more", ["matrices", "faster"]].tolist(), [2, 1])
        self.assertEqual(lines.loc["fewer than 16", ["matrices", "faster"]].tolist(), [1, 0])
        self.assertAlmostEqual(lines.loc["16 and more", "mean"], 1.0)

    def test_the_readme_has_these_numbers(self) -> None:
        page = (ROOT / "README.md").read_text(encoding="utf-8")

        numbers = numbers_of(self.table)
        self.assertEqual(numbers_in(page), numbers)
        self.assertNotEqual(numbers_in(page.replace(numbers[-1], "9.99")), numbers)

    def test_the_footer_has_device_driver_date_and_commits(self) -> None:
        said = notebook.provenance({32: "aaa", 128: "bbb", 512: "aaa"})

        self.assertRegex(said, r"^NVIDIA H200, driver [\d.]+, CUDA [\d.]+, \d{4}-\d\d-\d\d; "
                               r"N = 32 and 512: commit aaa; N = 128: commit bbb$")
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "baselines").mkdir()
            (Path(folder) / "baselines" / "README.md").write_text("Measured some day.\n")
            self.addCleanup(setattr, notebook, "RESULTS", notebook.RESULTS)
            notebook.RESULTS = Path(folder)
            with self.assertRaisesRegex(FigureError, "Measured on DATE"):
                notebook.provenance({32: "aaa"})

    def test_the_script_prints_the_numbers_and_draws(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = ROOT / "notebooks" / "when_tensor_cores_pay.py"
            done = subprocess.run([sys.executable, "-B", script, folder], capture_output=True,
                                  text=True, check=False)

            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(len(done.stdout.splitlines()), 8, done.stdout)
            for name in ("when_tensor_cores_pay.png", "when_tensor_cores_pay.pdf"):
                self.assertGreater((Path(folder) / name).stat().st_size, 10000)
            usage = subprocess.run([sys.executable, "-B", script, folder, "x"], capture_output=True,
                                   text=True, check=False)
            self.assertEqual((usage.returncode, usage.stdout), (2, ""))


if __name__ == "__main__":
    unittest.main()
