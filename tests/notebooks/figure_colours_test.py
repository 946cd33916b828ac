"""Tests of the colours and hatches of figures: told apart with any sight, and in grey.

Run with `PYTHONPATH=tests python3 tests/notebooks/figure_colours_test.py`. Skipped without matplotlib.
"""

import math
import unittest
from typing import Any

from figures import (
    NEEDS_MATPLOTLIB,
    available,
    description,
)

if available("matplotlib"):
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgb

    import figure

import figure_data

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
DEFICIENCIES = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
                   (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
                     (-0.011820, 0.042940, 0.968881)),
}


def times(matrix: Any, vector: Any) -> list[float]:
    """Matrix times vector."""
    return [sum(a * b for a, b in zip(line, vector)) for line in matrix]


def lab(color: str, deficiency: str) -> tuple[float, float, float]:
    """CIE L*a*b* (D65) of an sRGB colour as seen with a deficiency."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    seen = [min(1.0, max(0.0, c)) for c in times(DEFICIENCIES[deficiency], linear)]
    xyz = times(((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505)),
                seen)
    ratios = [v / white for v, white in zip(xyz, (0.9505, 1.0, 1.089))]
    f = [r ** (1 / 3) if r > (6 / 29) ** 3 else r / (3 * (6 / 29) ** 2) + 4 / 29 for r in ratios]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def delta_e(first: str, second: str, deficiency: str) -> float:
    """CIE 1976 colour difference as seen with a deficiency."""
    pairs = zip(lab(first, deficiency), lab(second, deficiency))
    return sum((a - b) ** 2 for a, b in pairs) ** 0.5


def least_delta_e() -> float:
    """The difference that every observer notices between two marks of our size.

    Stone, Szafir and Setlur 2014 ("An engineering model for color difference as a function of
    size"): a share p of the observers notices p (10.16 + 1.50 / s) along L*, the axis that a
    dichromat has left where red meets green, for marks of s degrees. Here p = 1 and the mark is
    4 pt wide (lines.markersize), read from 500 mm. Their marks were 1/3 degree and more; this
    extrapolates to 0.16.
    """
    degrees = math.degrees(4 * 25.4 / 72 / 500)
    return 10.16 + 1.50 / degrees


@NEEDS_MATPLOTLIB
class Colours(unittest.TestCase):
    """The cycle of tessera.mplstyle."""

    def worst(self, colors: list[str]) -> float:
        return min(delta_e(a, b, deficiency) for deficiency in DEFICIENCIES
                   for i, a in enumerate(colors) for b in colors[:i])

    def test_the_cycle_is_told_apart_with_colour_deficient_sight(self) -> None:
        figure.use_style()
        cycle = plt.rcParams["axes.prop_cycle"].by_key()["color"]

        self.assertGreaterEqual(len(cycle), 6)
        self.assertGreater(self.worst(cycle), least_delta_e())

    @staticmethod
    def steps(colors: list[str]) -> list[float]:
        """The differences in lightness of colours that are next to each other in grey."""
        levels = sorted(lab(color, "none")[0] for color in colors)
        return [b - a for a, b in zip(levels, levels[1:])]

    def test_the_cycle_is_told_apart_in_grey(self) -> None:
        figure.use_style()
        cycle = plt.rcParams["axes.prop_cycle"].by_key()["color"]

        self.assertGreater(min(self.steps(cycle)), 8)
        self.assertLess(min(self.steps(["#0072B2", "#007E5C", "#C05500"])), 8)

    def test_predictions_side_by_side_differ_in_their_hatches(self) -> None:
        figure.use_style()
        value = description("bars", ("simulated",) * 3)

        looks = figure.series_looks(figure_data.check(value, "test"))

        hatches = [look.hatch for look in looks.values()]
        self.assertEqual(len(set(hatches)), 3)
        self.assertTrue(all(hatches))

    def test_plain_reds_and_greens_fail_the_same_check(self) -> None:
        for red, green in (("#C03020", "#5A7A20"), ("#D62728", "#2CA02C")):
            self.assertGreater(delta_e(red, green, "none"), least_delta_e())
            self.assertLess(self.worst([red, green]), least_delta_e())


if __name__ == "__main__":
    unittest.main()
