"""Tests of notebooks/: every figure kind, the figure file's errors, origins, colours, notebooks.

Run with `PYTHONPATH=tests python3 tests/notebooks/notebooks_test.py`. Needs matplotlib, and nbformat
and pandas for some tests; without their package tests are skipped.
"""

import copy
import io
import json
import re
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from figures import (
    KINDS,
    NEEDS_MATPLOTLIB,
    NOTEBOOKS,
    PREDICTED,
    available,
    built,
    command,
    description,
    pdf_bytes,
    texts,
)

if available("matplotlib"):
    import matplotlib.pyplot as plt

    import figure

import figure_data


@NEEDS_MATPLOTLIB
class Drawing(unittest.TestCase):
    """Files, fonts and origins."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(plt.close, "all")
        self.folder = Path(folder.name)

    def write(self, value: dict[str, Any]) -> str:
        path = self.folder / f"{value['id']}.json"
        path.write_text(json.dumps(value), encoding="utf-8")
        return str(path)

    def test_every_kind_writes_pdf_and_png_with_embedded_truetype_fonts(self) -> None:
        for kind in KINDS:
            with self.subTest(kind=kind):
                result = command(f"{kind}.py", self.write(description(kind)))

                self.assertEqual(result.returncode, 0, result.stderr)
                png = (self.folder / f"try_{kind}.png").read_bytes()
                pdf = pdf_bytes(self.folder / f"try_{kind}.pdf")
                self.assertTrue(png.startswith(b"\x89PNG"))
                self.assertIn(b"/FontFile2", pdf)
                self.assertNotIn(b"/Type3", pdf)
        left = {p.suffix for p in self.folder.iterdir()}
        self.assertEqual(left, {".json", ".pdf", ".png"})

    def test_the_font_check_sees_type_3_fonts(self) -> None:
        with plt.rc_context({"pdf.fonttype": 3}):
            drawn, axes = plt.subplots()
            axes.set_title("words")
            drawn.savefig(self.folder / "bad.pdf")

        self.assertIn(b"/Type3", pdf_bytes(self.folder / "bad.pdf"))

    def test_the_same_file_gives_the_same_bytes_and_no_date(self) -> None:
        path = self.write(description("bars"))
        seen = []
        for _ in range(2):
            self.assertEqual(command("bars.py", path).returncode, 0)
            seen.append([(self.folder / f"try_bars.{e}").read_bytes() for e in ("pdf", "png")])

        self.assertEqual(seen[0], seen[1])
        self.assertNotIn(b"CreationDate", seen[0][0])

    def test_every_kind_states_origin_and_provenance_in_the_figure(self) -> None:
        for kind in KINDS:
            for origin in figure_data.ORIGINS:
                with self.subTest(kind=kind, origin=origin):
                    words = " ".join(texts(built(description(kind, (origin,)))).split())

                    self.assertIn("H200, commit 1234abc", words)
                    wanted = f"All values {origin}" if origin not in PREDICTED else (
                        f"Not measured: all values {origin}")
                    self.assertIn(wanted, words)
                    self.assertEqual(f"({origin})" in words, origin in PREDICTED)

    def test_predicted_bars_are_hatched_and_labelled_and_measured_ones_are_not(self) -> None:
        for kind in ("bars", "ablation_bars"):
            for origin in figure_data.ORIGINS:
                with self.subTest(kind=kind, origin=origin):
                    drawn = built(description(kind, (origin, "measured")))
                    first, second = [c for c in drawn.axes[0].containers if hasattr(c, "patches")]

                    for bar in first.patches:
                        self.assertEqual(bool(bar.get_hatch()), origin in PREDICTED)
                    self.assertFalse(any(bar.get_hatch() for bar in second.patches))
                    handle = drawn.legends[0].get_patches()[0]
                    self.assertEqual(bool(handle.get_hatch()), origin in PREDICTED)

    def test_predicted_lines_are_dashed(self) -> None:
        drawn = built(description("lines"))
        by_label = {line.get_label(): line for line in drawn.axes[0].lines}

        self.assertEqual(by_label["kernel_0"].get_linestyle(), "-")
        self.assertEqual(by_label["kernel_1 (modelled)"].get_linestyle(), "--")
        styles = [line.get_linestyle() for line in drawn.legends[0].get_lines()]
        self.assertEqual(styles, ["-", "--"])

    def test_predicted_markers_are_hollow(self) -> None:
        drawn = built(description("scatter"))
        clouds = [c for c in drawn.axes[0].collections if hasattr(c, "get_sizes")
                  and c.get_label().startswith("kernel")]

        self.assertEqual([len(c.get_facecolors()) for c in clouds], [1, 0])

    def test_predicted_boxes_and_cells_are_hatched(self) -> None:
        boxes = [p.get_hatch() for p in built(description("box")).axes[0].patches]
        cells = [bool(p.get_hatch()) for p in built(description("heatmap")).axes[0].patches]

        self.assertEqual([bool(h) for h in boxes], [False, True])
        self.assertEqual(cells, 5 * [False] + 5 * [True])

    def test_one_name_with_two_origins_keeps_its_colour_and_not_its_look(self) -> None:
        value = description("bars")
        value["series"][1]["name"] = "kernel_0"
        figure.use_style()

        looks = figure.series_looks(figure_data.check(value, "test"))

        measured, modelled = looks["kernel_0", "measured"], looks["kernel_0", "modelled"]
        self.assertEqual(measured.color, modelled.color)
        self.assertNotEqual(measured.hatch, modelled.hatch)
        self.assertNotEqual(measured.face, modelled.face)

    def test_a_null_point_is_a_cross_and_not_a_zero(self) -> None:
        for kind in ("bars", "ablation_bars", "lines", "scatter"):
            with self.subTest(kind=kind):
                value = description(kind)
                value["series"][0]["points"][2] = {"x": "conf5_4-8x8", "y": None}

                axes = built(value).axes[0]

                crosses = [a for a in axes.lines if a.get_gid() == "missing"]
                self.assertEqual(len(crosses), 1)
                self.assertAlmostEqual(float(crosses[0].get_xdata()[0]), 2, delta=0.5)
                self.assertEqual(self.heights(axes, kind), self.values(value))

    def test_bounds_are_thin_lines_of_their_series_and_named_once(self) -> None:
        value = description("lines")
        for point in value["series"][0]["points"]:
            point["bound"] = 2 * point["y"]

        drawn = built(value)

        lines = drawn.axes[0].lines
        bounds = [line for line in lines if line.get_gid() == "bound"]
        self.assertEqual(len(bounds), 1)
        series = next(line for line in lines if line.get_label() == "kernel_0")
        self.assertEqual(bounds[0].get_color(), series.get_color())
        self.assertLess(bounds[0].get_linewidth(), series.get_linewidth())
        self.assertEqual([2 * y for y in series.get_ydata()], list(bounds[0].get_ydata()))
        self.assertEqual(texts(drawn).count("bound, in the colour of its series"), 1)
        self.assertNotIn("bound,", texts(built(description("lines"))))

    @staticmethod
    def values(value: dict[str, Any]) -> list[float]:
        """The y of a description, sorted, without nulls."""
        ys = [p["y"] for s in value["series"] for p in s["points"]]
        return sorted(y for y in ys if y is not None)

    @staticmethod
    def heights(axes: Any, kind: str) -> list[float]:
        """The y that the artists show, sorted."""
        if kind == "scatter":
            shown = [y for c in axes.collections if c.get_label().startswith("kernel")
                     for _, y in c.get_offsets()]
        elif kind == "lines":
            shown = [y for line in axes.lines if line.get_label().startswith("kernel")
                     for y in line.get_ydata()]
        else:
            shown = [bar.get_height() for bar in axes.patches]
        return sorted(float(y) for y in shown if y == y)

    def test_null_cells_and_boxes_count_no_value(self) -> None:
        heat, box = description("heatmap"), description("box")
        for value in (heat, box):
            value["series"][0]["points"][2] = {"x": "conf5_4-8x8", "y": None}

        self.assertEqual([t.get_text() for t in built(heat).axes[0].texts].count("x"), 1)
        counts = [t.get_text() for t in built(box).axes[0].texts if t.get_gid() == "count"]
        self.assertEqual(counts, ["4", "5"])

    def test_a_missing_entry_is_marked_and_its_reason_is_told(self) -> None:
        value = description("bars")
        del value["series"][1]["points"][0]
        value["missing"] = [{"series": "kernel_1", "x": "cora", "reason": "out of memory"}]

        drawn = built(value)

        self.assertIn("1 out of memory", texts(drawn))
        self.assertEqual(sum(a.get_gid() == "missing" for a in drawn.axes[0].lines), 1)

    def test_whiskers_span_low_to_high(self) -> None:
        value = description("bars", ("measured",))
        bars = built(value).axes[0].containers
        ends = [seg[:, 1] for c in bars if hasattr(c, "lines")
                for seg in c.lines[2][0].get_segments()]

        for point, (low, high) in zip(value["series"][0]["points"], ends):
            self.assertAlmostEqual(point["low"], low)
            self.assertAlmostEqual(point["high"], high)
        self.assertEqual(len(ends), 5)

    def test_categories_keep_the_order_of_a_series_that_has_more_of_them(self) -> None:
        value = description("bars")
        value["series"][0]["points"] = [{"x": "low", "y": 1.0}, {"x": "high", "y": 2.0}]
        value["series"][1]["points"] = [{"x": "lowest", "y": 1.0}, {"x": "low", "y": 1.0},
                                        {"x": "medium", "y": 2.0}, {"x": "highest", "y": 1.0}]
        self.assertEqual(figure_data.check(value, "test").categories(),
                         ["lowest", "low", "high", "medium", "highest"])
        value["series"][1]["points"].insert(3, {"x": "high", "y": 3.0})
        self.assertEqual(figure_data.check(value, "test").categories(),
                         ["lowest", "low", "medium", "high", "highest"])

    def test_panels_share_y_and_categories_keep_their_order(self) -> None:
        value = description("bars")
        series = value.pop("series")
        value["panels"] = [{"title": t, "series": copy.deepcopy(series)} for t in ("h100", "h200")]
        for point in value["panels"][1]["series"][0]["points"]:
            point.update(y=2000.0, low=None, high=None)

        left, right = built(value).axes

        self.assertEqual(left.get_ylim(), right.get_ylim())
        names = [t.get_text().replace("\\", "") for t in left.get_xticklabels()]
        self.assertEqual(names, ["cora", "roadNet-CA", "conf5_4-8x8", "a$b$c", "mc2depi"])


@NEEDS_MATPLOTLIB
class BrokenFiles(unittest.TestCase):
    """Errors name the file and the key; the exit code is 2."""

    def error_of(self, value: Any) -> str:
        with self.assertRaises(figure_data.FigureError) as caught:
            figure_data.check(value, "speed.json")
        return str(caught.exception)

    def test_each_fault_is_told_with_file_and_key(self) -> None:
        faults = [
            (("schema",), 2, "schema"),
            (("id",), "../up", "id"),
            (("kind",), "pie", "kind"),
            (("x", "scale"), "cubic", "x.scale"),
            (("y", "label"), None, "y.label"),
            (("series",), [], "series"),
            (("series", 1, "origin"), "guessed", "series[1].origin"),
            (("series", 1, "points", 3, "y"), "fast", "series[1].points[3].y"),
            (("series", 1, "points", 3, "y"), float("nan"), "series[1].points[3].y"),
            (("series", 1, "points", 3, "y"), True, "series[1].points[3].y"),
            (("series", 1, "points", 3, "high"), 1.0, "series[1].points[3]"),
            (("series", 1, "points", 3, "x"), "cora", "series[1].points"),
            (("missing",), [{"series": "a", "x": "b"}], "missing[0].reason"),
        ]
        figure_data.check(description("bars"), "speed.json")
        for path, bad, key in faults:
            with self.subTest(key=key, bad=bad):
                value = description("bars")
                target = value
                for step in path[:-1]:
                    target = target[step]
                target[path[-1]] = bad

                self.assertIn(f"speed.json: {key}: ", self.error_of(value))

    def test_each_missing_key_is_named(self) -> None:
        for key in ("schema", "id", "kind", "title", "x", "y", "series", "provenance"):
            with self.subTest(key=key):
                value = description("bars")
                del value[key]

                self.assertEqual(self.error_of(value),
                                 f"speed.json: {key}: this key is missing")

    def test_a_log_axis_refuses_zero(self) -> None:
        value = description("bars")
        value["series"][0]["points"][0].update(y=0, low=None)
        figure_data.check(value, "speed.json")
        value["y"]["scale"] = "log"

        self.assertIn("series[0].points[0]", self.error_of(value))

    def test_the_command_says_what_is_wrong_and_returns_2(self) -> None:
        wrong_kind = json.dumps(description("lines"))
        cases = {"{": "not JSON", "[]": "top level: expected an object", wrong_kind: "kind"}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "speed.json"
            for content, words in cases.items():
                path.write_text(content, encoding="utf-8")

                result = command("bars.py", str(path))

                self.assertEqual(result.returncode, 2)
                self.assertIn(words, result.stderr)
                self.assertNotIn("Traceback", result.stderr)
            self.assertEqual([p.name for p in Path(folder).iterdir()], ["speed.json"])
        self.assertEqual(command("bars.py", "/nonexistent.json").returncode, 2)
        self.assertEqual(command("bars.py").returncode, 2)


class Kinds(unittest.TestCase):
    """The figure kinds follow from the scripts."""

    def test_the_kinds_of_all_configs_and_docs_are_known(self) -> None:
        self.assertTrue({"bars", "lines", "scatter", "ablation_bars", "box", "heatmap"}
                        <= set(KINDS), KINDS)

    def test_a_kind_is_a_script_that_defines_one(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "violin.py").write_text('KIND = Kind("violin", draw, None)\n')
            Path(folder, "helper.py").write_text("import violin  # whose KIND = Kind(...)\n")

            self.assertEqual(figure_data.known_kinds(Path(folder)), ("violin",))


class Notebooks(unittest.TestCase):
    """to_ipynb.py and story.py."""

    @unittest.skipUnless(available("nbformat"), "nbformat is not installed")
    def test_a_notebook_is_valid_and_keeps_all_cells(self) -> None:
        import nbformat

        import to_ipynb

        scripts = to_ipynb.percent_scripts(NOTEBOOKS)
        self.assertTrue({"story", *KINDS} <= {s.stem for s in scripts})
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
            self.assertEqual(to_ipynb.main(["--out", folder]), 0)
            for script in scripts:
                notebook = nbformat.read(Path(folder) / f"{script.stem}.ipynb", as_version=4)
                nbformat.validate(notebook)
                source = script.read_text(encoding="utf-8")
                kept = "".join(c.source for c in notebook.cells if c.cell_type == "code")
                kinds = ["markdown" if "[markdown]" in m else "code"
                         for m in re.findall(r"^# %%.*$", source, re.MULTILINE)]

                self.assertEqual([c.cell_type for c in notebook.cells], kinds)
                code = "".join(part for part in re.split(r"^(?=# %%)", source, flags=re.MULTILINE)
                               if "[markdown]" not in part.split("\n")[0])
                code = re.sub(r"^# %%.*$", "", code, flags=re.MULTILINE)
                self.assertEqual(re.sub(r"\s", "", kept), re.sub(r"\s", "", code))

    def record(self, point: str, origin: str, **more: Any) -> dict[str, Any]:
        return {"schema": 1, "point_id": point, "origin": origin, "status": "ok",
                "matrix": {"name": "cora", "nnz": 10556},
                "params": {"matrix": "cora", "kernel": {"name": "acc_spmm", "precision": "tf32"},
                           "reorder": {"name": "none"}, "format": {"name": "bit_tcf"}, "n": 128,
                           "device": "h200"}, **more}

    @unittest.skipUnless(available("matplotlib") and available("pandas"), "needs pandas")
    def test_the_story_reads_records_and_ignores_a_truncated_last_line(self) -> None:
        emulated = self.record("1", "emulated", check={"smape_pct": 0.01, "bound_ratio": 0.2})
        prediction = {"time_us": 2 * 10556 * 128 / 812.5e3, "bound_by": "L2", "parts": []}
        modelled = self.record("2", "modelled", gflops=812.5, prediction=prediction,
                               prep={"mean_nnz_tc": 7.5})
        old = self.record("2", "modelled", gflops=1.5)
        lines = [json.dumps(r) for r in ({"env_id": "e"}, old, emulated, modelled)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "records.jsonl"
            path.write_text("\n".join(lines) + '\n{"schema": 1, "poi', encoding="utf-8")

            result = command("story.py", folder)

            self.assertEqual(result.returncode, 0, result.stderr)
            drawn = sorted(p.name for p in (Path(folder) / "figures").glob("*.png"))
            self.assertEqual(drawn, ["story_error.png", "story_roofline.png", "story_tiles.png"])
            from records import read_table

            self.assertEqual(list(read_table(Path(folder))["gflops"].dropna()), [812.5])
            path.write_text("{broken\n" + lines[1] + "\n", encoding="utf-8")
            with self.assertRaisesRegex(ValueError, "records.jsonl:1"):
                read_table(Path(folder))

    @unittest.skipUnless(available("pandas"), "needs pandas")
    def test_matrix_names_are_shortened_only_where_that_is_unmistakable(self) -> None:
        from records import short_names

        names = ["rmat(scale=9)", "rmat(scale=10)", "shuffle(of=cora)", "cora"]

        self.assertEqual(short_names(names), {
            "rmat(scale=9)": "rmat(scale=9)", "rmat(scale=10)": "rmat(scale=10)",
            "shuffle(of=cora)": "shuffle", "cora": "cora"})

    @unittest.skipUnless(available("matplotlib") and available("pandas"), "needs pandas")
    @unittest.skipUnless(available("matplotlib") and available("pandas"), "needs pandas")
    def test_figures_of_the_story_name_machine_and_commit(self) -> None:
        env = {"type": "env", "env_id": "e", "started_at": "2026-01-02T03:04:05Z",
               "host": {"cpu": "a CPU"}, "build": {"commit": "abc", "dirty": True}}
        emulated = self.record("1", "emulated", env_id="e",
                               check={"smape_pct": 0.01, "bound_ratio": 0.2})
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "records.jsonl").write_text(
                "".join(json.dumps(r) + "\n" for r in (env, emulated)), encoding="utf-8")

            result = command("story.py", folder)

            self.assertEqual(result.returncode, 0, result.stderr)
            png = (Path(folder) / "figures" / "story_error.png").read_bytes()
            self.assertIn(b"1 matrix, N = 128", png)
            self.assertIn(b"a CPU, 2026-01-02, commit abc+changes", png)

    def test_the_story_says_what_to_run_when_there_are_no_records(self) -> None:
        result = command("story.py", "/nonexistent")

        self.assertEqual(result.returncode, 2)
        self.assertIn("tessera run", result.stderr)


if __name__ == "__main__":
    unittest.main()
