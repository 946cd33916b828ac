"""The notebook that sums up the simulator's errors, on records with planted ones."""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import matplotlib  # noqa: F401
    import numpy  # noqa: F401
    import pandas  # noqa: F401
except ImportError:
    print("skipped: matplotlib, numpy or pandas is not installed")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
MMAS = "sm__inst_executed_pipe_tensor.sum"
READS = "lts__t_sectors_op_read.sum"


def record(backend, matrix, kernel, time_us, counters=None):
    """A record as a run leaves it, with what the notebook reads."""
    params = {"backend": backend, "n": 128, "kernel": {"name": kernel}, "matrix": matrix}
    line = {"schema": 1, "point_id": f"{backend}{matrix}{kernel}", "status": "ok",
            "params_hash": f"{backend}{matrix}{kernel}", "params": params,
            "matrix": {"name": matrix}, "counters": counters or {}}
    if backend == "gpu":
        line["time"] = {"median_us": time_us}
    else:
        line["prediction"] = {"time_us": time_us}
        line["simulation"] = {"parts": [{"name": "launch", "time_us": 2.0, "reason": "1 launches"}]}
    return line


class SimulatorNotebook(unittest.TestCase):
    """A simulator that is 10 % off everywhere, a roofline that is 50 % off."""

    def summary(self, mmas=7):
        """The notebook's lines and what it prints, for two matrices and two kernels."""
        lines = []
        for matrix, scale in (("wave", 100.0), ("cora", 300.0)):
            for kernel, factor in (("csr_spmm", 1.0), ("acc_spmm", 2.0)):
                measured = scale * factor
                counted = {MMAS: 7, READS: 1000}
                simulated = {MMAS: mmas, READS: 1020}
                lines += [record("gpu", matrix, kernel, measured, counted),
                          record("simulate", matrix, kernel, 1.1 * measured + 2, simulated),
                          record("model", matrix, kernel, 0.5 * measured)]
        with tempfile.TemporaryDirectory() as folder:
            records = pathlib.Path(folder) / "records.jsonl"
            records.write_text("".join(json.dumps(line) + "\n" for line in lines))
            done = subprocess.run(
                [sys.executable, ROOT / "notebooks/simulator_error.py", folder, folder + "/out"],
                capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(folder + "/out/simulator_summary.csv", encoding="utf-8") as file:
                return list(csv.DictReader(file)), done.stdout

    def test_errors_are_those_planted(self):
        rows, said = self.summary()
        everything = next(row for row in rows if row["kernel"] == "all")
        self.assertEqual(float(everything["products"]), 4)
        # The gap between launches is fitted away: what is left is the 10 %.
        self.assertAlmostEqual(float(everything["mape_pct"]), 10, delta=0.5)
        self.assertAlmostEqual(float(everything["roofline_mape_pct"]), 50, places=3)
        self.assertAlmostEqual(float(everything["l2_reads_pct_median"]), 2, places=3)
        self.assertEqual(float(everything["mma_largest"]), 0)
        self.assertIn("Kendall tau over kernels, per matrix and N: 1.000", said)
        self.assertIn("geometric mean 1.000", said)

    def test_a_wrong_number_of_mmas_shows(self):
        rows, _ = self.summary(mmas=9)
        everything = next(row for row in rows if row["kernel"] == "all")
        self.assertEqual(float(everything["mma_largest"]), 2)

    def test_what_records_lack_is_of_the_table_before(self):
        def run(folder, lines, *more):
            (folder / "records.jsonl").write_text(
                "".join(json.dumps(line) + "\n" for line in lines))
            subprocess.run([sys.executable, ROOT / "notebooks/simulator_error.py", folder,
                            folder / "out", *more], capture_output=True, check=True)
            with open(folder / "out/simulator_error.csv", encoding="utf-8") as file:
                return {row["kernel"]: row for row in csv.DictReader(file)}

        counted = {MMAS: 2345678, READS: 1000}
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            lines = [{"type": "env", "env_id": "old", "build": {"commit": "1234567890ab"}}]
            for kernel in ("csr_spmm", "acc_spmm"):
                lines += [record("gpu", "wave", kernel, 100.0, counted),
                          record("simulate", "wave", kernel, 110.0,
                                 {MMAS: 2345678, READS: 1070}) | {"env_id": "old"},
                          record("model", "wave", kernel, 50.0)]
            before = run(pathlib.Path(first), lines)
            self.assertEqual(before["csr_spmm"]["simulator_commit"], "1234567")
            self.assertAlmostEqual(float(before["csr_spmm"]["l2_reads_pct"]), 7, places=3)
            again = [{"type": "env", "env_id": "new", "build": {"commit": "abcdef012345"}},
                     record("simulate", "wave", "csr_spmm", 105.0,
                            {MMAS: 2345678, READS: 1030}) | {"env_id": "new"}]
            after = run(pathlib.Path(second), again, "--before",
                        pathlib.Path(first) / "out/simulator_error.csv")
        self.assertEqual(after["csr_spmm"]["simulator_commit"], "abcdef0")
        self.assertAlmostEqual(float(after["csr_spmm"]["l2_reads_pct"]), 3, places=3)
        self.assertEqual(float(after["csr_spmm"]["simulated_us"]), 105)
        self.assertEqual(float(after["csr_spmm"]["measured_us"]), 100)
        self.assertEqual(float(after["csr_spmm"]["roofline_us"]), 50)
        # Six digits of both counts are compared, as the table has no more of the GPU's.
        self.assertEqual(float(after["csr_spmm"]["mma"]), 0)
        self.assertEqual(after["acc_spmm"]["simulator_commit"], "1234567")
        self.assertAlmostEqual(float(after["acc_spmm"]["l2_reads_pct"]), 7, places=3)

    def test_records_without_a_measurement_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "records.jsonl").write_text(
                json.dumps(record("simulate", "wave", "csr_spmm", 5.0)) + "\n")
            done = subprocess.run([sys.executable, ROOT / "notebooks/simulator_error.py", folder],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("no product was both simulated and measured", done.stderr)


if __name__ == "__main__":
    unittest.main()
