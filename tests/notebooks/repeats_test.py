"""Tests of notebooks/repeats.py: planted spreads are found, a time that stayed in a table counts once,
and the committed table is that of the committed times.

Run with `PYTHONPATH=tests python3 tests/notebooks/repeats_test.py`. Skipped without pandas.
"""

import csv
import importlib.util
import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if importlib.util.find_spec("pandas") is None:
    print("skipped: pandas is not installed")
    sys.exit(77)
sys.path.insert(0, str(ROOT / "notebooks"))

import repeats

RESULTS = ROOT / "experiments/results/robustness"


def rows_of(times, kernel="cuSPARSE", n=32):
    """Rows of REPEATS.csv from {matrix: {run: time}}."""
    return [{"run": run, "day": "2026-01-01", "kernel": kernel, "matrix": matrix, "n": str(n), "l2": "warm",
             "time_us": str(time)} for matrix, by_run in times.items() for run, time in by_run.items()]  # fmt: skip


class RepeatsTest(unittest.TestCase):
    def test_a_slower_gpu_is_told_from_times_that_scatter(self):
        slower = {f"m{i}": {"a": 10.0 * i, "b": 11.0 * i} for i in range(1, 6)}
        [found] = repeats.spreads(rows_of(slower))
        self.assertEqual((found["products"], found["runs"]), (5, 2))
        for key in ("median", "p95", "largest", "between_runs"):
            self.assertAlmostEqual(found[key], 1.1)
        self.assertAlmostEqual(found["within_runs"], 1)

        scattered = {f"m{i}": {"a": 10.0 * (1.2 if i % 2 else 1), "b": 10.0 * (1 if i % 2 else 1.2)}
                     for i in range(6)}  # fmt: skip
        [found] = repeats.spreads(rows_of(scattered))
        self.assertAlmostEqual(found["between_runs"], 1)
        self.assertAlmostEqual(found["within_runs"], 1.2)

    def test_products_of_one_run_have_no_spread(self):
        self.assertEqual(repeats.spreads(rows_of({"m": {"a": 3.0}})), [])
        [found] = repeats.spreads(rows_of({"m": {"a": 3.0}, "k": {"a": 2.0, "b": 3.0}}))
        self.assertEqual(found["products"], 1)
        self.assertAlmostEqual(found["largest"], 1.5)

    def test_a_time_that_stayed_from_version_to_version_counts_once(self):
        old = [{"case": "cuSPARSE", "matrix": "m", "n": "32", "median_us": "5.0", "commit": "a"},
               {"case": "others", "matrix": "m", "n": "32", "median_us": "6.0", "commit": "a"}]  # fmt: skip
        new = [*old, {"case": "cuSPARSE", "matrix": "m", "n": "32", "l2": "warm", "origin": "measured",
                      "time_us": "5.5", "commit": "b"},
               {"case": "cuSPARSE", "matrix": "m", "n": "32", "l2": "warm", "origin": "simulated",
                "time_us": "7.5", "commit": "c"}]  # fmt: skip

        found = repeats.collect([[("2026-01-01", old), ("2026-01-02", new)]])

        self.assertEqual([(row["run"], row["day"], row["time_us"]) for row in found],
                         [("a", "2026-01-01", "5.0"), ("b", "2026-01-02", "5.5")])  # fmt: skip

    def test_records_of_one_gpu_on_two_days_are_two_runs(self):
        def record(day, time, status="ok"):
            return {"type": "point", "point_id": day, "params_hash": day, "env_id": "e", "origin": "measured",
                    "status": status, "finished_at": f"{day}T10:00:00Z", "time": {"median_us": time},
                    "params": {"kernel": {"name": "rows_spmm"}, "matrix": "m", "n": 8, "measure": {"l2": "warm"}}}  # fmt: skip

        with tempfile.TemporaryDirectory() as folder:
            lines = [{"type": "env", "env_id": "e", "gpu": {"name": "H200", "uuid": "0123456789"}},
                     record("2026-01-01", 4.0), record("2026-01-02", 5.0), record("2026-01-03", 9.0, "wrong")]  # fmt: skip
            (Path(folder) / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            [found] = repeats.spreads(repeats.collect_records([Path(folder)]))
        self.assertEqual((found["kernel"], found["runs"]), ("rows_spmm", 2))
        self.assertAlmostEqual(found["largest"], 1.25)

    def test_the_committed_spread_is_that_of_the_committed_times(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(repeats.main([str(RESULTS / "repeats.csv"), folder]), 0)
            self.assertEqual((Path(folder) / "repeats_spread.csv").read_text(),
                             (RESULTS / "repeats_spread.csv").read_text())  # fmt: skip
        with open(RESULTS / "repeats_spread.csv", newline="") as file:
            self.assertTrue(all(float(row["largest"]) < 1.2 for row in csv.DictReader(file)))


if __name__ == "__main__":
    unittest.main()
