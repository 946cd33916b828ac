"""Tests of notebooks/mixed_spgemm_fit.py: it finds planted numbers, and the model has the fitted ones.

Run with `PYTHONPATH=tests python3 tests/notebooks/mixed_spgemm_fit_test.py`.
"""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "notebooks"))

import mixed_spgemm_fit as fit


def records():
    return fit.read(ROOT / "experiments/results/spgemm/paths.csv")


class MixedSpgemmFitTest(unittest.TestCase):
    """The fit, and the numbers in model/mixed_spgemm.hpp."""

    def test_planted_efforts_are_found(self) -> None:
        planted = {
            "wait_of_rows_us": 10,
            "product": 2,
            "nonzero_of_c": 30,
            "nonzero_of_large_row": 60,
            "loads_of_nonzero": 3,
        }
        base, terms = fit.STAGES["rows"]
        made = records()
        for r in made:
            if r["kernel"] == "row_spgemm":
                r["pool_us"] = base(r) + sum(planted[name] * term(r) for name, term in terms.items())
        found = fit.Fit(made).efforts["rows"]
        for name, value in planted.items():
            self.assertAlmostEqual(found[name], value, delta=0.01 * value)

    def test_no_effort_is_negative(self) -> None:
        self.assertEqual(fit.least_squares([[1.0], [2.0]], [-1.0, -2.0]), [0.0])

    def test_a_matrix_that_is_left_out_does_not_change_the_fit(self) -> None:
        known = records()
        for r in known:
            if r["matrix"] == "wave":
                r["pool_us"] = 1e9
        without = fit.Fit(known, "wave").efforts["rows"]
        self.assertEqual(without, fit.Fit(records(), "wave").efforts["rows"])
        self.assertNotEqual(without, fit.Fit(records()).efforts["rows"])

    def test_the_model_has_the_fitted_numbers(self) -> None:
        header = (ROOT / "model/mixed_spgemm.hpp").read_text(encoding="utf-8")
        for efforts in fit.Fit(records()).efforts.values():
            for name, value in efforts.items():
                written = re.search(rf"\b{name} = ([0-9.]+)", header)
                self.assertIsNotNone(written, name)
                self.assertAlmostEqual(float(written.group(1)), value, delta=0.001 * value, msg=name)

    def test_every_matrix_has_a_choice_in_every_precision(self) -> None:
        choices = list(fit.left_one_out(records()))
        matrices = {r["matrix"] for r in records()}
        self.assertEqual(len(choices), len(matrices) * (1 + len(fit.PRECISIONS)))
        for matrix, precision, predicted in choices:
            kernels = [r["kernel"] for r, _ in predicted]
            self.assertIn("row_spgemm", kernels, matrix)
            self.assertEqual("tile_spgemm" in kernels, precision != "fp32", matrix)
            for record, us in predicted:
                self.assertGreater(us, 0, (matrix, record["kernel"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
