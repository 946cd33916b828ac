"""Tests of notebooks/matched_order_fit.py: it finds planted numbers, and the model has the fitted ones.

Run with `PYTHONPATH=tests python3 tests/notebooks/matched_order_fit_test.py`.
"""

import re
import sys
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "notebooks"))

import matched_order_fit as fit


class MatchedOrderFitTest(unittest.TestCase):
    """The fit, and the numbers in model/matched_order.cpp."""

    def setUp(self) -> None:
        self.orders = fit.Orders(ROOT / "experiments/results")

    def test_planted_numbers_are_found(self) -> None:
        of = self.orders
        np.testing.assert_allclose(fit.fit_factor(of.filled, 1.5 * of.filled**-0.3), (1.5, -0.3))
        planted = np.array([2000, 2e-3, 3e-4])
        found = fit.fit_time(fit.order_terms(of), fit.order_terms(of) @ planted, (3000, 4e-3, 5e-4))
        np.testing.assert_allclose(found, planted, rtol=1e-3)

    def test_the_model_has_the_fitted_numbers(self) -> None:
        model = (ROOT / "model/matched_order.cpp").read_text(encoding="utf-8")
        written = {name: float(value) for name, value in re.findall(r"(k\w+) = (-?[\d.e-]+)", model)}
        of = self.orders
        fitted = dict(zip(("kFilled", "kOfFilled"), fit.fit_factor(of.filled, of.factor)))
        order = fit.fit_time(fit.order_terms(of), of.order_us, (3000, 4e-3, 5e-4))
        fitted.update(zip(("kOrder", "kOrderFetched", "kOrderNonzero"), order))
        packing = fit.fit_time(fit.packing_terms(of), of.packing_us, (45, 2e-5, 3e-5))
        fitted.update(zip(("kPacking", "kPackingNonzero", "kPackingFetched"), packing))
        self.assertEqual(written.keys(), fitted.keys())
        for name, value in fitted.items():
            with self.subTest(number=name):
                np.testing.assert_allclose(written[name], value, rtol=5e-3)

    def test_a_matrix_has_the_rows_of_its_file(self) -> None:
        self.assertIn(17758, self.orders.rows)  # memplus


if __name__ == "__main__":
    unittest.main()
