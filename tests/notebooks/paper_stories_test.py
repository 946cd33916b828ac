"""Tests of the stories of the five papers: their pictures of tiles, their claims, and one whole run.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3
tests/notebooks/paper_stories_test.py`. Skipped without numpy, matplotlib and pandas.
"""

import contextlib
import importlib.util
import io
import subprocess
import sys
import unittest
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
if any(importlib.util.find_spec(name) is None for name in ("matplotlib", "numpy", "pandas")):
    print("skipped: matplotlib, numpy or pandas is not installed")
    sys.exit(77)
sys.path.insert(0, str(NOTEBOOKS))

import numpy as np
from spy import Pattern

import paper_story
from program import ProgramTest

STORIES = ("story_acc_spmm", "story_cutespmm", "story_smat", "story_tca_spmm", "story_tsparse")


def pattern_of(*rows: str) -> Pattern:
    """Of the x in lines of text."""
    dense = np.array([[cell == "x" for cell in row] for row in rows])
    return Pattern(dense.shape, *np.nonzero(dense))


class TilesTest(unittest.TestCase):
    def test_condensing_packs_the_active_columns_of_each_window(self) -> None:
        packed = paper_story.condensed(pattern_of(".x..x", "....x", "x....", "...x."), 2)

        self.assertEqual(packed.cols.tolist(), [0, 1, 1, 0, 1])
        self.assertEqual(packed.rows.tolist(), [0, 0, 1, 2, 3])

    def test_nonzeros_are_counted_by_tile_with_a_short_last_row_and_column(self) -> None:
        counts = paper_story.tile_counts(pattern_of("xx..x", "x....", "....x"), 2, 2)

        self.assertEqual(counts.tolist(), [[3, 0, 1], [0, 0, 1]])


class ClaimsTest(unittest.TestCase):
    def test_the_claims_of_every_paper_are_told_with_their_verdicts(self) -> None:
        for paper in ("Acc-SpMM", "cuTeSpMM", "SMaT", "TCA-SpMM", "tSparse"):
            claims = paper_story.claims_of(paper)
            with contextlib.redirect_stdout(io.StringIO()) as told:
                paper_story.tell_claims(paper)
            lines = " ".join(told.getvalue().split())

            self.assertGreater(len(claims), 1, paper)
            for claim in claims:
                self.assertIn(f"({claim.entry['source']}): {claim.verdict}", lines)
        self.assertEqual(paper_story.claims_of("TC-GNN"), [])


class StoryTest(ProgramTest):
    def test_there_is_a_story_of_every_paper(self) -> None:
        self.assertEqual(sorted(path.stem for path in NOTEBOOKS.glob("story_*.py")), list(STORIES))

    def test_a_story_counts_draws_runs_and_tells_the_claims(self) -> None:
        done = subprocess.run(
            [sys.executable, NOTEBOOKS / "story_tca_spmm.py", self.folder / "told"],
            env=self.environment(), cwd=self.folder, capture_output=True, text=True, check=False)

        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"MMAs by equation 2: (\d+); by the simulated counter: \1\n")
        self.assertIn("status           ok", done.stdout)
        self.assertRegex(done.stdout, r"\n\* .*MMAs")
        for name in ("rows.png", "tca_counts/mma_sparsity.png"):
            self.assertTrue((self.folder / "told" / name).read_bytes().startswith(b"\x89PNG"), name)


if __name__ == "__main__":
    unittest.main()
