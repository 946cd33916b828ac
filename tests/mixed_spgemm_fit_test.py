"""Tests of notebooks/mixed_spgemm_fit.py: it finds planted numbers, and the model has those it finds.

Run with `python3 tests/mixed_spgemm_fit_test.py`.
"""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "notebooks"))

import mixed_spgemm_fit as fit


def records():
    return fit.read(ROOT / "experiments/results/spgemm/paths.csv")


class MixedSpgemmFitTest(unittest.TestCase):
    """The fit, and model/mixed_spgemm.hpp."""

    def test_planted_efforts_are_found(self) -> None:
        planted = {"wait_of_rows_us": 10, "product": 2, "nonzero_of_c": 30, "nonzero_of_a": 5}
        base, terms = fit.STAGES["rows"]
        made = [r for r in records() if r["kernel"] == "row_spgemm"]
        for r in made:
            r["pool_us"] = base(r, None) + sum(planted[name] * term(r) for name, term in terms.items())
        found = fit.Fit(made).efforts("rows", None)
        for name, value in planted.items():
            self.assertAlmostEqual(found[name], value, delta=0.01 * value)

    def test_no_effort_is_negative(self) -> None:
        self.assertEqual(fit.least_squares([[1.0], [2.0]], [-1.0, -2.0]), [0.0])

    def test_a_matrix_left_out_does_not_count(self) -> None:
        known = records()
        for r in known:
            if r["matrix"] == "wave":
                r["pool_us"] = 1e9
        without = fit.Fit(known, "wave").efforts("rows", None)
        self.assertEqual(without, fit.Fit(records(), "wave").efforts("rows", None))
        self.assertNotEqual(without, fit.Fit(records()).efforts("rows", None))

    def test_the_model_has_the_numbers_that_are_found(self) -> None:
        header = (ROOT / "model/mixed_spgemm.hpp").read_text(encoding="utf-8")
        found = fit.Fit(records())
        for stage in list(fit.STAGES)[:-1]:
            for name, value in found.efforts(stage, None).items():
                written = re.search(rf"\b{name} = ([0-9.]+)", header)
                self.assertIsNotNone(written, name)
                self.assertAlmostEqual(float(written.group(1)), value, delta=0.001 * value, msg=name)
        for precision in fit.PAIR:
            efforts = found.efforts("multiplication_us", precision)
            written = re.search(rf"\b{precision} = {{([0-9.]+), ([0-9.]+)}}", header)
            for text, value in zip(written.groups(), efforts.values()):
                self.assertAlmostEqual(float(text), value, delta=0.001 * value, msg=precision)

    def test_every_precision_of_every_matrix_is_chosen_for(self) -> None:
        choices = list(fit.left_one_out(records()))
        self.assertEqual(len(choices), 35)
        for _, _, rows_us, tiles_us in choices:
            self.assertGreater(min(rows_us, tiles_us), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
