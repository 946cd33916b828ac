"""Tests of how figures are laid out, numbered and captioned, in every style.

Run with `PYTHONPATH=tests python3 tests/notebooks/figure_layout_test.py`. Skipped without matplotlib.
"""

import copy
import json
import math
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

from figures import (
    KINDS,
    NEEDS_MATPLOTLIB,
    available,
    built,
    command,
    description,
    kind_of,
    pdf_bytes,
    texts,
)

if available("matplotlib"):
    import matplotlib.pyplot as plt
    from matplotlib.cbook import is_math_text
    from matplotlib.text import Text

    import figure
    import layout
    import style

import figure_data


@NEEDS_MATPLOTLIB
class Layout(unittest.TestCase):
    """Text that fits, and axes that can be read."""

    def test_crowded_figures_keep_text_inside_and_the_legend_off_the_data(self) -> None:
        for kind in KINDS:
            with self.subTest(kind=kind):
                value = description(kind, ("measured", "modelled", "simulated") * 2)
                for series in value["series"]:
                    series["points"] = [{"x": f"matrix-with-a-name-{i}", "y": 5.0 + i}
                                        for i in range(24)]

                drawn = built(value)
                drawn.canvas.draw()

                renderer = drawn.canvas.get_renderer()
                for text in drawn.findobj(Text):
                    if text.get_text() and text.get_visible():
                        box = text.get_window_extent(renderer)
                        self.assertGreaterEqual(box.x0, -1, text.get_text())
                        self.assertLessEqual(box.x1, drawn.bbox.width + 1, text.get_text())
                for legend in drawn.legends:
                    self.assertGreaterEqual(legend.get_window_extent(renderer).y0,
                                            drawn.axes[0].get_window_extent(renderer).y1)


    def test_no_text_of_a_figure_file_is_read_as_a_formula(self) -> None:
        names = (r"$\frac{$", r"\$x$ \\$y$", "$".join("a" * length for length in range(1, 40)))
        for kind in KINDS:
            for name in names:
                with self.subTest(kind=kind, name=name):
                    value = description(kind)
                    value["x"]["label"] = value["y"]["label"] = value["title"] = name
                    value["caption"] = value["provenance"] = name
                    value["reference"] = {"y": 100.0, "label": name}
                    series = value.pop("series")
                    series[0]["name"] = series[0]["points"][0]["x"] = name
                    value["panels"] = [{"title": name, "series": series}]

                    drawn = built(value)
                    drawn.canvas.draw()

                    found = [text.get_text() for text in drawn.findobj(Text)]
                    self.assertFalse([text for text in found if is_math_text(text)])
                    shown = {re.sub(r"\s", "", text).replace(r"\$", "$") for text in found}
                    self.assertIn(name.replace(" ", ""), shown)

    def test_names_of_panels_stay_within_their_panels(self) -> None:
        value = description("lines")
        series = value.pop("series")
        value["panels"] = [{"title": f"device = a GPU with a long name, order = affinity ({k})",
                            "series": copy.deepcopy(series)} for k in range(3)]

        drawn = built(value)
        drawn.canvas.draw()

        boxes = [axes.title.get_window_extent() for axes in drawn.axes]
        for left, right in zip(boxes, boxes[1:]):
            self.assertLess(left.x1, right.x0)
        self.assertLessEqual(boxes[-1].x1, drawn.bbox.width)

    def test_names_under_an_axis_do_not_touch(self) -> None:
        for count in (3, 7, 24, 90):
            for kind in ("bars", "heatmap"):
                with self.subTest(count=count, kind=kind):
                    value = description(kind, ("measured",))
                    value["series"][0]["points"] = [
                        {"x": f"a-matrix-with-a-long-name-{i}", "y": 1.0 + i} for i in range(count)]
                    drawn = built(value)
                    drawn.canvas.draw()
                    labels = [t for t in drawn.axes[0].get_xticklabels() if t.get_text()]
                    turned = labels[0].get_rotation()
                    size = labels[0].get_size() * drawn.dpi / 72
                    ticks = [t.get_window_extent() for t in labels]
                    pitch = (ticks[-1].x1 - ticks[0].x1) / max(1, len(ticks) - 1)

                    if turned == 0:
                        for left, right in zip(ticks, ticks[1:]):
                            self.assertLess(left.x1, right.x0)
                    else:  # lines of text that are as far apart as they are high
                        self.assertGreaterEqual(pitch * math.sin(math.radians(turned)), size)

    def test_every_log_axis_has_numbers(self) -> None:
        for low, high in ((1.1, 1.9), (0.97, 1.03), (0.2, 3), (5, 60), (1, 1e6)):
            for kind in ("scatter", "box"):
                with self.subTest(low=low, high=high, kind=kind):
                    value = description(kind, ("measured",))
                    value["y"]["scale"] = "log"
                    value["series"][0]["points"] = [{"x": "a", "y": low}, {"x": "b", "y": high}]
                    axes = built(value).axes[0]
                    axes.figure.canvas.draw()
                    bottom, top = axes.get_ylim()

                    ticks = zip(axes.get_yticks(), axes.get_yticklabels())
                    shown = [t.get_text() for at, t in ticks if bottom <= at <= top]

                    self.assertGreaterEqual(len([text for text in shown if text]), 2)
                    self.assertEqual(len(shown), len(set(shown)))

    def test_numbers_with_many_zeros_are_powers_of_ten(self) -> None:
        self.assertEqual([layout.number(x) for x in (0, 0.02, 1.5, 16384, 3e-5, 2e6)],
                         ["0", "0.02", "1.5", "16384", r"$3\times10^{-5}$", r"$2\times10^{6}$"])

    def test_groups_of_numbers_ascend(self) -> None:
        value = description("bars", ("measured",))
        value["x"] = {"label": "N", "scale": "log"}
        value["series"][0]["points"] = [{"x": x, "y": 1.0} for x in (512, 32, 128)]

        axes = built(value).axes[0]

        self.assertEqual([t.get_text() for t in axes.get_xticklabels()], ["32", "128", "512"])

    def test_a_figure_tells_the_facts_the_words_and_the_meaning_of_its_marks(self) -> None:
        value = {**description("box"), "caption": "N", "facts": "5 matrices, N = 8."}

        words = " ".join(texts(built(value)).split())

        self.assertIn("N. 5 matrices, N = 8. Box: quartiles", words)
        self.assertIn("one for each matrix", words)

    def test_the_styles_of_papers_leave_title_and_caption_to_latex(self) -> None:
        for name, chosen in style.STYLES.items():
            for columns, inches in ((1, chosen.one_column), (2, chosen.two_columns)):
                with self.subTest(style=name, columns=columns):
                    plt.close("all")
                    style.use_style(name)
                    self.addCleanup(style.use_style)
                    data = figure_data.check(description("lines"), "test")

                    drawn = figure.build(data, kind_of("lines"), columns)

                    self.assertAlmostEqual(drawn.get_figwidth(), inches)
                    self.assertEqual("commit 1234abc" in texts(drawn), not chosen.in_paper)
                    self.assertIn("Throughput. N.", drawn.get_label())
                    self.assertIn("commit 1234abc", drawn.get_label())


@NEEDS_MATPLOTLIB
class Papers(unittest.TestCase):
    """notebooks/draw.py."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, value: dict[str, Any]) -> str:
        path = self.folder / f"{value['id']}.json"
        path.write_text(json.dumps(value), encoding="utf-8")
        return str(path)

    def test_draw_writes_the_formats_asked_for_in_a_style(self) -> None:
        files = [self.write(description(kind)) for kind in ("bars", "lines")]
        captions = self.folder / "captions"

        done = command("draw.py", "--style", "acm", "--format", "pdf,svg", "--captions",
                       str(captions), *files)

        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(p.name for p in self.folder.glob("try*.*") if p.suffix != ".json"),
                         ["try_bars.pdf", "try_bars.svg", "try_lines.pdf", "try_lines.svg"])
        pdf = pdf_bytes(self.folder / "try_bars.pdf")
        self.assertIn(b"/FontFile2", pdf)
        self.assertNotIn(b"/Type3", pdf)
        self.assertIn("H200, commit 1234abc", json.loads(captions.read_text())["try_bars"])
        self.assertIn("'gif' is none of pdf", command("draw.py", "--format", "gif", *files).stderr)

    @unittest.skipUnless(shutil.which("pdflatex"), "there is no LaTeX")
    def test_pgf_of_every_kind_compiles_with_special_characters(self) -> None:
        files = []
        for kind in KINDS:
            value = description(kind)
            value["series"][0]["name"] = "a_b & c # 50 % ^2 {x} $y"
            value["x"]["label"] = r"\no $z$ ~"
            files.append(self.write(value))
        done = command("draw.py", "--style", "acm", "--format", "pgf", *files)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        (self.folder / "all.tex").write_text(
            "\\documentclass{article}\\usepackage{pgf}\\begin{document}"
            + "".join(f"\\input{{try_{kind}.pgf}}\n\n" for kind in KINDS) + "\\end{document}")

        done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"],
                              cwd=self.folder, capture_output=True, text=True, check=False)

        self.assertEqual(done.returncode, 0, done.stdout[-2000:])


if __name__ == "__main__":
    unittest.main()
