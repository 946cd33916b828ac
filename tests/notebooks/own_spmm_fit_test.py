"""Tests of notebooks/own_spmm_fit.py: it finds planted factors, and the model has the fitted ones.

Run with `PYTHONPATH=tests python3 tests/notebooks/own_spmm_fit_test.py`.
"""

import os
import re
import sys
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "notebooks"))

import own_spmm_fit as fit

RESULTS = ROOT / "experiments/results/spmm"


def made_counts(name):
    """Counts of a matrix that only its name decides."""
    random = np.random.default_rng(list(name.encode()))
    rows = int(10 ** random.uniform(3, 6))
    nonzeros = int(rows * 10 ** random.uniform(0.3, 2))
    columns = nonzeros * random.uniform(0.2, 0.9)
    return {
        "rows": rows,
        "cols": int(rows * random.uniform(0.5, 2)),
        "nonzeros": nonzeros,
        "columns": columns,
        "tall_tiles": columns / 64 + rows / 64 * random.uniform(0.2, 0.8),
        "blocks": columns / 8 + rows / 16 * random.uniform(0.2, 0.8),
        "longest": int(random.integers(1, fit.LONGEST)),
        "longest_row": int(random.integers(2, 2 * fit.LONGEST_DIRECT)),
    }


class OwnSpmmFitTest(unittest.TestCase):
    """The fit, and the factors in model/own_spmm.cpp."""

    def test_planted_factors_are_found(self) -> None:
        products = fit.Products(RESULTS, "fp32", made_counts)
        planted = np.array([2, 0.2, 0.1, 0.3, 0.02, 0.05, 0.2, 5, 0.08, 0.12, 0.2, 0.3, 0.01, 0.003]
                           + [2.5, 0.1, 0.2, 0.15, 0.25])
        self.assertTrue(0 < products.direct.sum() < len(products.direct))
        products.tiles = fit.tiles_us(planted[:7], products.tiles_x)
        products.rows = fit.rows_us(planted[7:], products.rows_x, products.direct)
        found = fit.fit(products, fit.START["fp32"], tries=8)
        np.testing.assert_allclose(found, planted, rtol=0.02)
        self.assertEqual(products.cost(found).max(), 1)

    def test_a_wrong_choice_costs_the_ratio_of_the_times(self) -> None:
        products = fit.Products(RESULTS, "fp32", made_counts)
        products.tiles, products.rows = np.full_like(products.tiles, 3.0), np.full_like(products.rows, 2.0)
        np.testing.assert_allclose(products.cost(np.array([0.0] * 7 + [1.0] * 12)), 1.5)
        np.testing.assert_allclose(products.cost(np.array([1.0] * 7 + [0.0] * 12)), 1)

    @unittest.skipUnless("TESSERA_DATA" in os.environ, "TESSERA_DATA names no folder of matrices")
    def test_the_model_has_the_fitted_factors(self) -> None:
        model = (ROOT / "model/own_spmm.cpp").read_text(encoding="utf-8")
        data = Path(os.environ["TESSERA_DATA"])
        for storage, name in (("fp32", "Fp32"), ("16 bits", "16Bits")):
            products = fit.Products(RESULTS, storage, lambda matrix: fit.counts(data / f"{matrix}.npz"))
            written = []
            for kernel in ("Tiles", "Rows", "Direct"):
                found = re.search(rf"k{kernel}{name}\{{([^}}]*)\}}", model)
                self.assertIsNotNone(found)
                factors = [float(factor) for factor in found[1].split(",")]
                if kernel == "Direct":
                    self.assertEqual(factors[5:], [0, 0])
                written.extend(factors[:5] if kernel == "Direct" else factors)
            with self.subTest(storage=storage):
                np.testing.assert_allclose(fit.fit(products, fit.START[storage]), written, rtol=0.02, atol=1e-4)

        found = re.search(r"TallFactors kTall\{([^}]*)\}", model)
        self.assertIsNotNone(found)
        factors, errors = fit.fit_tall(RESULTS, lambda matrix: fit.counts(data / f"{matrix}.npz"))
        np.testing.assert_allclose(factors, [float(factor) for factor in found[1].split(",")], rtol=0.02, atol=1e-4)
        self.assertLess(np.abs(errors).mean(), 0.15)


if __name__ == "__main__":
    unittest.main()
