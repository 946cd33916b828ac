"""Tests of notebooks/smat_fit.py on made-up records.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3
tests/notebooks/smat_fit_notebook_test.py`. Skipped without matplotlib and pandas.
"""

import csv
import importlib.util
import json
import random
import subprocess
import sys
import unittest
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
if any(importlib.util.find_spec(name) is None for name in ("matplotlib", "numpy", "pandas")):
    print("skipped: matplotlib, numpy or pandas is not installed")
    sys.exit(77)

from program import ProgramTest

GPU = {"schema": 1, "type": "env", "env_id": "e", "started_at": "2026-01-02",
       "gpu": {"name": "a GPU", "available": True}}


class SmatFitTest(ProgramTest):
    """Figure and table of fits."""

    def plant(self, points: int) -> None:
        """Predicted products that count blocks, and measured ones about 5 + 0.01 n_e."""
        draw = random.Random(1)
        lines = [GPU]
        for i in range(points):
            blocks = 1000 * (i + 1)
            for backend in ("model", "gpu"):
                record = {"schema": 1, "type": "point", "point_id": f"{backend}{i}",
                          "params_hash": f"{backend}{i}", "status": "ok", "env_id": "e",
                          "finished_at": "2026-01-02",
                          "params": {"matrix": f"m{i}", "n": 8, "reorder": {"name": "none"},
                                     "kernel": {"name": "k", "precision": "tf32"}}}
                if backend == "model":
                    record |= {"origin": "modelled", "analysis": {"smat_blocks": blocks},
                               "prediction": {"time_us": 2 + 0.004 * blocks}}
                    record["params"]["device"] = "h200"
                else:
                    time = 5 + 0.01 * blocks + draw.gauss(0, 0.5)
                    record |= {"origin": "measured", "time": {"median_us": time}}
                lines.append(record)
        (self.folder / "r").mkdir(exist_ok=True)
        (self.folder / "r/records.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines))

    def notebook(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """The script."""
        done = subprocess.run([sys.executable, str(NOTEBOOKS / "smat_fit.py"), *arguments],
                              cwd=self.folder, env={**self.environment(), "MPLBACKEND": "Agg"},
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_measured_and_predicted_products_are_fitted_and_drawn(self) -> None:
        self.plant(points=12)

        self.notebook("r", "figures")

        with open(self.folder / "figures/smat_fit.csv", encoding="utf-8") as file:
            found = {row["origin"]: row for row in csv.DictReader(file)}
        self.assertAlmostEqual(float(found["modelled"]["t_e_ns"]), 4)
        self.assertEqual(found["measured"]["device"], "a GPU")
        low, high = (float(found["measured"][f"t_e_ns_{side}"]) for side in ("low", "high"))
        self.assertTrue(low < 10 < high, (low, high))
        self.assertLess(high - low, 0.5)
        png = (self.folder / "figures/smat_fit_n8.png").read_bytes()
        self.assertTrue(png.startswith(b"\x89PNG"))

    def test_modelled_products_are_drawn_where_there_are_no_others(self) -> None:
        sys.path.insert(0, str(NOTEBOOKS))
        from smat_fit import drawn  # needs the notebooks' own folder

        modelled, measured = {"origin": "modelled"}, {"origin": "measured"}
        self.assertEqual(drawn([modelled, measured]), [measured])
        self.assertEqual(drawn([modelled]), [modelled])

    def test_too_few_points_are_drawn_without_a_line(self) -> None:
        self.plant(points=2)

        self.notebook("r", "figures")

        with open(self.folder / "figures/smat_fit.csv", encoding="utf-8") as file:
            self.assertTrue(all("three pairs" in row["reason"] for row in csv.DictReader(file)))

    def test_records_without_blocks_are_an_error(self) -> None:
        (self.folder / "r").mkdir()
        (self.folder / "r/records.jsonl").write_text(json.dumps(GPU) + "\n")

        self.assertIn("no product with a time", self.notebook("r", code=2).stderr)
        self.assertIn("RECORDS", self.notebook(code=2).stderr)


if __name__ == "__main__":
    unittest.main()
