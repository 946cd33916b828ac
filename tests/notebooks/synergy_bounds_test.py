"""Tests of notebooks/synergy_bounds.py: its bounds hold for any pattern, and are reached.

Run with `PYTHONPATH=tests python3 tests/notebooks/synergy_bounds_test.py`. Skipped without
matplotlib and numpy.
"""

import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
if any(importlib.util.find_spec(name) is None for name in ("matplotlib", "numpy")):
    print("skipped: matplotlib or numpy is not installed")
    sys.exit(77)
sys.path.insert(0, str(NOTEBOOKS))

import numpy as np
import synergy_bounds
from synergy_bounds import Fingerprint


def fingerprint(pattern: np.ndarray) -> Fingerprint:
    """Counted from a dense pattern, a place with a true value being a nonzero."""

    def tiles(height: int, width: int) -> int:
        rows, cols = pattern.shape
        padded = np.pad(pattern, ((0, -rows % height), (0, -cols % width)))
        blocks = padded.reshape(padded.shape[0] // height, height, -1, width)
        return int(blocks.any(axis=(1, 3)).sum())

    return Fingerprint(*pattern.shape, int(pattern.sum()), tiles(8, 8), tiles(16, 8), tiles(16, 16))


def alpha(pattern: np.ndarray) -> float:
    """The brick density by its definition."""
    windows = [pattern[begin:begin + 16] for begin in range(0, pattern.shape[0], 16)]
    bricks = sum(-(-int(window.any(axis=0).sum()) // 4) for window in windows)
    return pattern.sum() / (64 * bricks) if bricks else 0.0


def random_pattern(random: np.random.Generator) -> np.ndarray:
    """Blocks of random sizes and densities, and some noise between them."""
    rows, cols = random.integers(1, 120, 2)
    pattern = random.random((rows, cols)) < random.choice([0, 0.002, 0.05])
    for _ in range(random.integers(0, 12)):
        row, col = random.integers(0, rows), random.integers(0, cols)
        height, width = random.integers(1, 30, 2)
        block = pattern[row:row + height, col:col + width]
        block |= random.random(block.shape) < random.choice([0.05, 0.3, 1.0])
    return pattern


class BoundsTest(unittest.TestCase):
    """What the tile counts say, against the pattern itself."""

    def test_alpha_lies_between_its_bounds(self) -> None:
        random = np.random.default_rng(5)
        for round_ in range(400):
            pattern = random_pattern(random)
            low, high = synergy_bounds.alpha_bounds(fingerprint(pattern))
            guess = synergy_bounds.guessed_alpha(fingerprint(pattern))
            with self.subTest(round=round_, shape=pattern.shape):
                self.assertLessEqual(low, alpha(pattern) + 1e-12)
                self.assertGreaterEqual(high, alpha(pattern) - 1e-12)
                self.assertTrue(low <= guess <= high)

    def test_columns_lie_between_theirs_and_reach_them(self) -> None:
        random = np.random.default_rng(6)
        for _ in range(400):
            pattern = random_pattern(random)
            columns = sum(int(pattern[begin:begin + 16].any(axis=0).sum())
                          for begin in range(0, pattern.shape[0], 16))
            found = fingerprint(pattern)
            self.assertLessEqual(synergy_bounds.fewest_columns(found), columns)
            self.assertGreaterEqual(synergy_bounds.most_columns(found), columns)

        full = fingerprint(np.ones((16, 8), dtype=bool))
        self.assertEqual(synergy_bounds.fewest_columns(full), 8)
        self.assertEqual(synergy_bounds.most_columns(full), 8)
        # One full column and a half one in a tile with both halves, a half column in one without.
        tall = np.zeros((16, 16), dtype=bool)
        tall[:, 3] = True
        tall[:3, 5] = True
        tall[8:, 9] = True
        self.assertEqual(synergy_bounds.fewest_columns(fingerprint(tall)), 3)

    def test_both_bounds_of_alpha_are_reached(self) -> None:
        full = np.ones((32, 32), dtype=bool)
        self.assertEqual(synergy_bounds.alpha_bounds(fingerprint(full)), (1.0, 1.0))
        # 16 windows of one diagonal each: a column a nonzero, four nonzeros a brick.
        diagonal = np.eye(256, dtype=bool)
        low, _ = synergy_bounds.alpha_bounds(fingerprint(diagonal))
        self.assertAlmostEqual(alpha(diagonal), 0.0625)
        self.assertLessEqual(low, 0.0625)
        one_column = np.zeros((16, 8), dtype=bool)
        one_column[:, 0] = True
        _, high = synergy_bounds.alpha_bounds(fingerprint(one_column))
        self.assertEqual(alpha(one_column), high)

    def test_classes_change_at_an_eighth_and_a_quarter(self) -> None:
        self.assertEqual([synergy_bounds.synergy(a) for a in (0.1249, 0.125, 0.2499, 0.25)],
                         ["low", "medium", "medium", "high"])


class ScriptTest(unittest.TestCase):
    """The script as its user calls it."""

    def test_it_counts_classes_and_leaves_out_what_is_not_known(self) -> None:
        lines = ["name,rows,cols,nnz,nonempty_8x8,nonempty_16x8,nonempty_16x16",
                 "full,32,32,1024,16,8,4", "sparse,32,32,2,2,2,2", "unknown,0,0,0,,,"]
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "f.csv"
            table.write_text("\n".join(lines) + "\n", encoding="utf-8")
            done = subprocess.run([sys.executable, "-B", str(NOTEBOOKS / "synergy_bounds.py"),
                                   str(table), folder], capture_output=True, text=True, check=False)

            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("2 of 2 matrices are certain", done.stdout)
            classes = (Path(folder) / "synergy_classes.csv").read_text(encoding="utf-8")
            self.assertEqual(classes.splitlines(),
                             ["class,paper,at least,at most,random tiles", "low,666,1,1,1",
                              "medium,198,0,0,0", "high,235,1,1,1"])
            bounds = (Path(folder) / "synergy_bounds.csv").read_text(encoding="utf-8")
            self.assertIn("full,1024,1,1,1", bounds)
            self.assertTrue((Path(folder) / "synergy_classes.png").exists())


if __name__ == "__main__":
    unittest.main()
