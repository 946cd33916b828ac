"""Tests of notebooks/predictions.py: numbers of planted records and tables, and committed files.

Run with `PYTHONPATH=tests python3 tests/notebooks/predictions_test.py`.
"""

import csv
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "notebooks"))

import predictions as under_test

PROGRAM = ROOT / "notebooks" / "predictions.py"


def record(matrix, kernel, time_us, **changes):
    """A simulated product as `tessera run baselines` records it."""
    params = {"n": 32, "kernel": kernel, "measure": {"l2": "warm"}, "reorder": {"name": "none"}}
    return {"origin": "simulated", "status": "ok", "experiment": "baselines",
            "matrix": {"name": matrix}, "prediction": {"time_us": time_us},
            "finished_at": "2026-11-02T03:04:05Z",
            "params": params | changes.pop("params", {})} | changes  # fmt: skip


def product(matrix, case, measured, simulated="", n="32", result="FP32"):
    """A row of predictions.csv."""
    error = f"{100 * (simulated / measured - 1):.2f}" if simulated else ""
    return {"matrix": matrix, "n": n, "case": case, "result": result,
            "measured_us": str(measured), "measured_commit": "m", "simulated_us": str(simulated),
            "error_pct": error, "simulated_on": "", "commit": "s"}  # fmt: skip


def numbers(lines):
    """The values of a summary by quantity, kernel and n."""
    return {(entry["quantity"], entry["kernel"], entry["n"]): float(entry["value"])
            for entry in lines}  # fmt: skip


class Predictions(unittest.TestCase):
    def test_a_record_belongs_to_the_case_that_names_most_of_its_parameters(self):
        cases = under_test.cases_of(ROOT / "experiments/configs/baselines.toml")
        plain = {"name": "sputnik", "swizzle": "on"}
        self.assertEqual(under_test.case_of(plain, cases), "Sputnik")
        self.assertEqual(under_test.case_of(plain | {"swizzle": "off"}, cases),
                         "Sputnik, no swizzle")  # fmt: skip
        self.assertIsNone(under_test.case_of({"name": "absent"}, cases))

    def test_only_warm_simulations_in_the_order_of_the_file_are_taken(self):
        rode = {"name": "rode"}
        taken = record("a", rode, 12.3456)
        others = [record("a", rode, 1, origin="measured"), record("a", rode, 1, status="failed"),
                  record("a", rode, 1, params={"measure": {"l2": "flush"}}),
                  record("a", rode, 1, params={"reorder": {"name": "rcm"}})]  # fmt: skip
        found = under_test.simulated_times([taken, *others], ROOT / "experiments/configs")
        self.assertEqual(found, {("a", "32", "RoDe"): {"simulated_us": "12.35",
                                                       "simulated_on": "2026-11-02"}})  # fmt: skip

    def test_a_product_without_a_simulation_stays_without_an_error(self):
        measured = [{"matrix": m, "n": "32", "case": "RoDe", "measured_us": "10",
                     "measured_commit": "m"} for m in "ab"]  # fmt: skip
        simulated = {("a", "32", "RoDe"): {"simulated_us": "12", "simulated_on": "d"}}
        rows = under_test.joined(measured, simulated, "c")
        self.assertEqual([row["error_pct"] for row in rows], ["20.00", ""])
        self.assertEqual([row["commit"] for row in rows], ["c", ""])

    def test_a_prediction_is_kept_until_its_product_is_simulated_or_measured_anew(self):
        measured = [{"matrix": m, "n": "32", "case": "RoDe", "measured_us": "10",
                     "measured_commit": "new" if m == "c" else "m"} for m in "abc"]  # fmt: skip
        before = [product(m, "RoDe", 10, 11) for m in "abc"]
        anew = {("b", "32", "RoDe"): {"simulated_us": "12", "simulated_on": "d"}}
        rows = under_test.joined(measured, anew, "c", before)
        self.assertEqual([row["simulated_us"] for row in rows], ["11", "12", ""])
        self.assertEqual([row["commit"] for row in rows], ["s", "c", ""])

    def test_errors_are_absolute_and_a_kernel_is_judged_by_its_mean(self):
        rows = [product("a", "x", 10, 12), product("b", "x", 10, 9), product("a", "y", 10, 14),
                product("a", "y", 10, 10, n="128")]  # fmt: skip
        found = numbers(under_test.errors_of_time(rows, "s"))
        self.assertEqual(found, {("time, MAPE", "all", "all"): 17.5,
                                 ("time, largest error of a product", "all", "all"): 40,
                                 ("time, MAPE", "all", "32"): 23.33,
                                 ("time, MAPE", "all", "128"): 0,
                                 ("time, MAPE of a kernel", "x", "all"): 15,
                                 ("time, MAPE of a kernel", "y", "all"): 20})  # fmt: skip

    def test_tau_is_1_in_the_measured_order_and_counts_pairs(self):
        pairs = [(1, 10), (2, 20), (3, 30)]
        self.assertEqual(under_test.kendall_tau(pairs), 1)
        self.assertEqual(under_test.kendall_tau([(-a, b) for a, b in pairs]), -1)
        self.assertAlmostEqual(under_test.kendall_tau([(1, 10), (3, 20), (2, 30)]), 1 / 3)

    def test_the_choice_is_judged_by_the_best_of_all_closed_ones_included(self):
        rows = [product("a", "x", 10, 5), product("a", "y", 8, 6), product("a", "closed", 4),
                product("a", "half", 1, 1, result="16 bits"),
                product("b", "x", 10, 9), product("b", "y", 20, 20), product("b", "half", 5, 5)]  # fmt: skip
        found = numbers(under_test.order_and_choice(rows, "s"))
        self.assertAlmostEqual(found["choice, speed over the best, least", "all", "all"], 0.4)
        self.assertAlmostEqual(
            found["choice, speed over the best traced one, least", "all", "all"], 0.8)
        self.assertAlmostEqual(found["Kendall's tau, mean", "all", "all"], (1 / 3 + 1) / 2, places=3)

    def test_a_matrix_whose_kernels_are_not_all_simulated_has_no_order(self):
        rows = [product("a", "x", 10, 5), product("a", "y", 8, 6), product("b", "x", 10, 9),
                product("b", "y", 2)]  # fmt: skip
        lines = under_test.order_and_choice(rows, "s")
        self.assertEqual({entry["products"] for entry in lines}, {1})

    def test_whole_sparse_products_are_joined_from_several_folders_and_short_ones_not_judged(self):
        def write(folder, origin, commit, times):
            lines = [{"type": "env", "env_id": "e", "gpu": {"name": "G"}, "build": {"commit": commit}}]
            for i, (matrix, us) in enumerate(times.items()):
                part = {"prediction": {"time_us": us}} if origin == "simulated" else \
                       {"time_pool": {"median_us": us}}  # fmt: skip
                lines.append({"point_id": str(i), "env_id": "e", "origin": origin, "status": "ok",
                              "finished_at": "2026-11-29T01", "matrix": {"name": matrix}, **part,
                              "params": {"kernel": {"name": "row_spgemm", "reuse": False},
                                         "right": "self", "reorder": {"name": "none"}}})  # fmt: skip
            folder.mkdir()
            text = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines)
            (folder / "records.jsonl").write_text(text)

        with tempfile.TemporaryDirectory() as name:
            one, other = Path(name) / "one", Path(name) / "other"
            write(one, "measured", "aaaaaaaaaa", {"long": 200.0, "short": 50.0, "alone": 300.0})
            write(other, "simulated", "bbbbbbbbbb", {"long": 150.0, "short": 10.0})
            measured = under_test.joined_spgemm([], [one])
            rows = under_test.joined_spgemm(measured, [other])
        self.assertEqual([row["matrix"] for row in rows], ["alone", "long", "short"])
        self.assertEqual([row["error_pct"] for row in rows], ["", "-25.00", "-80.00"])
        self.assertEqual((rows[1]["gpu"], rows[1]["measured_commit"], rows[1]["commit"]),
                         ("G", "aaaaaaa", "bbbbbbb"))  # fmt: skip
        lines = under_test.errors_of_spgemm(rows)
        self.assertEqual([(each["value"], each["products"]) for each in lines], [("25", 1)])

    def test_the_committed_summary_is_made_from_the_committed_tables(self):
        done = subprocess.run([sys.executable, PROGRAM, "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_committed_errors_follow_from_the_times_beside_them(self):
        path = ROOT / "experiments/results/simulator/predictions.csv"
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
        simulated = [row for row in rows if row["simulated_us"]]
        self.assertGreater(len(simulated), 400)
        for row in simulated:
            error = 100 * (float(row["simulated_us"]) / float(row["measured_us"]) - 1)
            self.assertAlmostEqual(error, float(row["error_pct"]), delta=0.006)
        self.assertEqual(len({(row["matrix"], row["n"], row["case"]) for row in rows}), len(rows))
        # A time that was taken again has another commit than the one that was predicted.
        key = ("matrix", "n", "case", "measured_commit")
        measured = {tuple(row[name] for name in key): row["measured_us"]
                    for row in under_test.measured_rows(under_test.RESULTS)}  # fmt: skip
        same = [row for row in rows if tuple(row[name] for name in key) in measured]
        self.assertGreater(len(same), 400)
        for row in same:
            self.assertEqual(row["measured_us"], measured[tuple(row[name] for name in key)])


if __name__ == "__main__":
    unittest.main()
