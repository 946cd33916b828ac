"""Tests of tessera timeline and of notebooks/timeline.py, which draws what it writes.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/run/timeline_test.py`. Matrices are generated.
"""

import csv
import importlib.util
import json
import subprocess
import sys
import unittest
from pathlib import Path

from program import ProgramTest

NOTEBOOKS = Path(__file__).resolve().parents[3] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))
DRAWS = all(importlib.util.find_spec(name) is not None
            for name in ("matplotlib", "numpy", "pandas"))
MATRIX = "rmat(scale=9)"  # 512 rows: 64 row windows
ROUNDING_US = 2e-6  # times are written to 1e-6 us


class TimelineTest(ProgramTest):
    """A folder of files for every call."""

    def timeline(self, *arguments: str, to: str = "t") -> str:
        """What it prints."""
        return self.tessera("timeline", MATRIX, "--out", to, *arguments).stdout

    def rows(self, name: str, to: str = "t") -> list[dict[str, str]]:
        """A table that it wrote."""
        with open(self.folder / to / f"{name}.csv", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def about(self, to: str = "t") -> dict:
        """What the tables are of."""
        lines = (self.folder / to / "timeline.jsonl").read_text().splitlines()
        return next(r for r in map(json.loads, lines) if r["type"] == "timeline")


class VerbTest(TimelineTest):
    """tessera timeline."""

    def test_every_thread_block_has_a_line_inside_its_launch(self) -> None:
        text = self.timeline("--kernel", "windows_spmm", "--n", "32")

        rows, about = self.rows("thread_blocks"), self.about()
        self.assertEqual(list(rows[0]), ["launch", "thread_block", "sm", "start_us", "end_us"])
        self.assertEqual([int(row["thread_block"]) for row in rows], list(range(64)))
        for row in rows:
            self.assertTrue(0 <= int(row["sm"]) < about["sms"])
            self.assertTrue(0 <= float(row["start_us"]) < float(row["end_us"]) <= about["time_us"])
        self.assertIn("64 thread blocks", text)
        self.assertRegex(text, r"SM balance +0\.\d+")
        self.assertRegex(text, r"memory +\d+\.\d %")

    def test_the_longest_thread_block_is_watched_unless_another_one_is_asked_for(self) -> None:
        self.timeline("--kernel", "windows_spmm")
        self.timeline("--kernel", "windows_spmm", "--thread-block", "5", to="five")

        lengths = [float(row["end_us"]) - float(row["start_us"])
                   for row in self.rows("thread_blocks")]
        longest = self.about()["thread_block"]
        self.assertAlmostEqual(lengths[longest], max(lengths), delta=ROUNDING_US)
        self.assertEqual(self.about("five")["thread_block"], 5)
        self.assertEqual(self.rows("thread_blocks"), self.rows("thread_blocks", "five"))

    def test_operations_lie_inside_their_thread_block(self) -> None:
        for kernel, reads in (("windows_spmm", "async_copy"), ("acc_spmm", "load")):
            with self.subTest(kernel=kernel):
                self.timeline("--kernel", kernel)

                rows, about = self.rows("operations"), self.about()
                self.assertEqual(list(rows[0]),
                                 ["launch", "warp", "operation", "start_us", "end_us"])
                for row in rows:
                    start, end = float(row["start_us"]), float(row["end_us"])
                    self.assertTrue(about["thread_block_start_us"] - ROUNDING_US <= start <= end
                                    <= about["thread_block_end_us"] + ROUNDING_US, row)
                self.assertLess({reads, "mma", "wait", "store"},
                                {row["operation"] for row in rows})

    def test_the_histogram_counts_every_thread_block_of_the_longest_launch(self) -> None:
        self.timeline("--kernel", "shares_spmm")

        launch = [row for row in self.rows("thread_blocks")
                  if row["launch"] == self.about()["launch"]]
        bins = self.rows("balance")
        self.assertGreater(len(self.rows("thread_blocks")), len(launch))  # clearing C
        self.assertEqual(sum(int(row["thread_blocks"]) for row in bins), len(launch))
        for row in bins:
            inside = sum(float(row["low_us"]) <= float(one["end_us"]) - float(one["start_us"])
                         < float(row["high_us"]) for one in launch)
            self.assertLessEqual(abs(inside - int(row["thread_blocks"])), 1)  # edges are rounded

    def test_what_the_l2_holds_and_the_order_count(self) -> None:
        times = []
        for number, words in enumerate(((), ("--cold",), ("--reorder", "degree"))):
            self.timeline("--kernel", "acc_spmm", *words, to=f"{number}")
            times.append(self.about(f"{number}")["time_us"])

        self.assertGreater(times[1], times[0])
        self.assertNotEqual(times[2], times[0])
        simulated = self.json_of("multiply", MATRIX, "--kernel", "acc_spmm", "--backend",
                                 "simulate", "--json")
        self.assertAlmostEqual(times[0], simulated["prediction"]["time_us"])

    def test_what_cannot_be_shown_is_an_error(self) -> None:
        for words, message in (
                (("--kernel", "windows_spmm", "--thread-block", "64"),
                 "thread block 64: launch multiply of windows_spmm has 64, numbered from 0"),
                (("--kernel", "windows_spmm", "--thread-block", "-1"), "--thread-block"),
                (("--kernel", "window_spmm"), "did you mean 'windows_spmm'"),
                (("--kernel", "csr_spmm", "--device", "h20"), "h200"),
                (("--kernel", "csr_spmm", "--format", "bit_tcf"), "reads format csr"),
                (("--kernel", "csr_spmm", "--set", "colour=1"), "colour")):
            with self.subTest(words=words):
                done = self.tessera("timeline", MATRIX, *words, code=2)
                self.assertIn(message, done.stderr)
        closed = self.tessera("timeline", MATRIX, "--kernel", "cusparse", code=5)
        self.assertIn("no work description", closed.stderr)
        self.assertFalse((self.folder / "out").exists())


@unittest.skipUnless(DRAWS, "matplotlib, numpy or pandas is not installed")
class NotebookTest(TimelineTest):
    """notebooks/timeline.py."""

    def notebook(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """The script."""
        done = subprocess.run([sys.executable, str(NOTEBOOKS / "timeline.py"), *arguments],
                              cwd=self.folder, env=self.environment(), capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_one_or_two_folders_are_drawn_as_pdf_and_png(self) -> None:
        self.timeline("--kernel", "windows_spmm")
        self.timeline("--kernel", "shares_spmm", to="u")

        self.notebook("t")
        self.notebook("t", "u", "both", "--us", "1", "--skip", "0.5")

        for folder in ("t", "both"):
            for name in ("timeline_pipeline", "timeline_balance"):
                stem = self.folder / folder / name
                self.assertTrue(stem.with_suffix(".png").read_bytes().startswith(b"\x89PNG"))
                self.assertTrue(stem.with_suffix(".pdf").read_bytes().startswith(b"%PDF"))

    def test_figures_say_that_they_are_simulated_and_where(self) -> None:
        import matplotlib
        matplotlib.use("Agg")
        import timeline
        from matplotlib.text import Text
        self.timeline("--kernel", "windows_spmm", "--n", "32")
        one = timeline.read_folder(self.folder / "t")

        for drawn in (timeline.pipeline([one, one], 0, 3), timeline.balance([one, one])):
            words = " ".join(t.get_text() for t in drawn.findobj(Text))
            self.assertIn("Not measured: all values simulated", words)
            self.assertRegex(words, r"commit \w+")
            self.assertEqual(words.count("windows_spmm"), 2)

    def test_reads_in_flight_at_once_have_lanes_of_their_own(self) -> None:
        import numpy as np
        import timeline

        lanes = timeline.lanes(np.array([0, 1, 2, 4]), np.array([3, 2, 5, 6]))

        self.assertEqual(list(lanes), [0, 1, 1, 0])

    def test_occupancy_adds_up_to_the_time_of_all_thread_blocks(self) -> None:
        import numpy as np
        import timeline
        self.timeline("--kernel", "windows_spmm")
        blocks = timeline.read_folder(self.folder / "t").thread_blocks()
        edges = np.linspace(0, blocks["end_us"].max(), 7)

        picture = timeline.occupancy(blocks, edges)

        self.assertEqual(len(picture), blocks["sm"].nunique())
        self.assertAlmostEqual(float((picture * np.diff(edges)).sum()),
                               float((blocks["end_us"] - blocks["start_us"]).sum()), delta=1e-3)

    def test_a_folder_of_something_else_is_an_error(self) -> None:
        self.timeline("--kernel", "windows_spmm")
        (self.folder / "t/balance.csv").write_text("a,b\n1,2\n")

        self.assertIn("expected the columns low_us", self.notebook("t", code=2).stderr)
        self.assertIn("timeline.jsonl", self.notebook("nowhere", code=2).stderr)
        self.assertIn("--us", self.notebook("t", "--us", "0", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
