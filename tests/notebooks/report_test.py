"""`tessera report` without a browser: its data, its errors, and the compact form of tables."""

import json
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

from planted_report import ReportTest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "notebooks" / "report"))

from committed import figure, find_figure, value  # noqa: E402
from frame import flat, frame  # noqa: E402
from libraries import missing_packages  # noqa: E402
from page import asked, embedded  # noqa: E402

HOSTILE = '</script><b id="harm">&amp;\'"<img src=x onerror="document.title=1">'
class PageDataTest(ReportTest):
    """What needs no browser."""

    def test_the_data_hold_rows_verdicts_figures_and_the_config(self) -> None:
        config = self.plant(["absent_a", "absent_b"], [8])
        document = self.json_of("report", config, "--out", str(self.out), "--json")
        found = document["experiments"][0]
        self.assertEqual((found["id"], found["title"]), ("planted", "Planted"))
        self.assertEqual((len(found["rows"]), found["planned"]), (8, 8))
        self.assertEqual([e["verdict"] for e in found["expectations"]],
                         ["met", "not judged", "refuted"])
        self.assertEqual(found["config"], Path(config).read_text())
        ids = {p["point"] for s in found["figures"][0]["series"] for p in s["points"]}
        self.assertEqual(ids, {f"id{at}" for at in range(8)})
        by_origin = [origins["gflops"] for origins in found["origins"]]
        self.assertEqual(sorted(by_origin), ["measured", "simulated"])
        self.assertTrue(all(origins["nnz"] == "counted" and "n" not in origins
                            for origins in found["origins"]))

    def test_records_without_a_config_have_a_row_each(self) -> None:
        self.plant(["absent_a"], [8, 16])
        document = self.json_of("report", str(self.out), "--json")
        found = document["experiments"][0]
        self.assertEqual((found["id"], len(found["rows"])), ("out", 8))
        self.assertNotIn("expectations", found)
        self.assertEqual({row["kernel"] for row in found["rows"]}, {"csr_spmm", "acc_spmm"})

    def test_skipped_points_are_told_by_cause(self) -> None:
        config = self.plant(["absent_a"], [8])
        self.skip(1, "no GPU here")
        found = self.json_of("report", config, "--out", str(self.out), "--json")["experiments"][0]
        self.assertEqual(len(found["skips"]), 1)
        self.assertIn("1 skipped: no GPU here", found["skips"][0])

    def test_a_missing_library_names_its_package(self) -> None:
        config = self.plant(["absent_a"], [8])
        os.environ["TESSERA_JAVASCRIPT"] = str(self.folder)
        self.addCleanup(os.environ.pop, "TESSERA_JAVASCRIPT")
        told = self.tessera("report", config, "--out", str(self.out), code=5).stderr
        self.assertIn("apt-get install libjs-jquery libjs-jquery-datatables libjs-chart.js", told)
        self.assertEqual([path.name for path in self.out.iterdir()], ["records.jsonl"])

    def test_a_folder_without_a_timeline_is_an_error(self) -> None:
        config = self.plant(["absent_a"], [8])
        told = self.tessera("report", config, "--out", str(self.out), "--timeline", "nowhere",
                            code=2).stderr
        self.assertIn("nowhere/timeline.jsonl: No such file", told)
        self.assertEqual([path.name for path in self.out.iterdir()], ["records.jsonl"])

    def test_nothing_to_report_on_is_an_error(self) -> None:
        self.assertIn("expected a config", self.tessera("report", code=2).stderr)
        self.assertIn("quickstart", self.tessera("report", "quickstrat", code=2).stderr)

    @unittest.skipIf(missing_packages(), f"skipped: install {' '.join(missing_packages())}")
    def test_the_page_lies_beside_the_records(self) -> None:
        config = self.plant(["absent_a"], [8])
        done = self.tessera("report", config, "--out", str(self.out))
        self.assertEqual(done.stdout, f"{self.out}/report.html\n")
        text = (self.out / "report.html").read_text(encoding="utf-8")
        self.assertIsNone(re.search(r'(src|href)="(https?:)?//', text))
        self.assertEqual(sorted(path.name for path in self.out.iterdir()),
                         ["records.jsonl", "report.html"])


class FrameTest(unittest.TestCase):
    """The compact form of tables."""

    def test_each_column_has_its_shortest_form(self) -> None:
        rows = [{"same": 1, "few": "a long name", "own": 0.1 + at} for at in range(9)]
        rows[3]["few"] = "another"
        rows[4]["few"] = None
        columns = frame(rows)["columns"]
        self.assertEqual(columns["same"], {"c": 1})
        self.assertEqual(columns["few"], {"d": ["a long name", "another"],
                                          "i": [0, 0, 0, 1, -1, 0, 0, 0, 0]})
        self.assertEqual(columns["own"]["v"][2], 2.1)

    def test_tables_round_and_records_do_not(self) -> None:
        self.assertEqual(frame([{"x": 1 / 3}])["columns"]["x"], {"c": 0.33333333})
        self.assertEqual(frame([{"x": 1 / 3}], digits=False)["columns"]["x"], {"c": 1 / 3})

    def test_keys_with_slashes_keep_apart(self) -> None:
        self.assertEqual(flat({"a": {"b/c": 1, "b~": 2}, "d": {}, "e": [1]}),
                         {"/a/b~1c": 1, "/a/b~0": 2, "/d": {}, "/e": [1]})

    def test_a_config_says_what_it_asks(self) -> None:
        text = '[experiment]\nquestion = "Why?"\npaper = "A paper"\nfigure = "Figure 3"\n'
        self.assertEqual(asked(text), {"question": "Why?", "paper": "A paper, Figure 3"})
        self.assertEqual(asked(""), {"question": "", "paper": ""})

    def test_embedded_text_cannot_end_its_element(self) -> None:
        text = embedded({"name": HOSTILE})
        self.assertNotIn("<", text)
        self.assertEqual(json.loads(text), {"name": HOSTILE})


class CommittedTest(unittest.TestCase):
    """Committed CSV files as figures."""

    def test_cells_are_numbers_where_they_read_as_such(self) -> None:
        self.assertEqual([value(text) for text in ("", "true", "12", "1e-3", "nan", "1e999", "a")],
                         [None, True, 12, 0.001, "nan", "1e999", "a"])

    def test_a_file_is_drawn_as_its_config_says(self) -> None:
        configs = ROOT / "experiments" / "configs"
        found = find_figure(configs, "quickstart_accuracy", "matrix", "smape_pct")
        self.assertEqual((found["kind"], found["y_scale"], "title" in found), ("bars", "log", True))
        self.assertEqual(find_figure(configs, "quickstart_accuracy", "n", "n"), {})

    def test_a_name_that_any_config_may_have_given_takes_no_title_from_it(self) -> None:
        configs = Path(self.enterContext(tempfile.TemporaryDirectory()))
        figure = '[[figure]]\nid = "speed"\nkind = "{}"\nx = "matrix"\ny = "gflops"\ntitle = "T"\n'
        (configs / "one.toml").write_text(figure.format("bars"))
        self.assertEqual(find_figure(configs, "speed", "matrix", "gflops"), {"kind": "bars"})
        self.assertEqual(find_figure(configs, "one_speed", "matrix", "gflops")["title"], "T")
        (configs / "two.toml").write_text(figure.format("heatmap"))
        self.assertEqual(find_figure(configs, "speed", "matrix", "gflops"), {})

    def test_a_file_without_a_config_is_drawn_as_its_numbers_suggest(self) -> None:
        path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "f.csv"
        path.write_text("panel,series,origin,x_of,y_of,low,high\n"
                        ",a,measured,1,10,9,11\n,a,measured,100,0,,\n,b,simulated,100,5000,,\n")
        found = figure(path, path.parent, "Title")
        self.assertEqual((found["title"], found["kind"], found["x"]["scale"]),
                         ("Title", "lines", "log"))
        self.assertEqual([s["origin"] for s in found["panels"][0]["series"]],
                         ["measured", "simulated"])
        self.assertEqual(found["panels"][0]["series"][0]["points"][0],
                         {"x": 1, "y": 10, "low": 9, "high": 11})


if __name__ == "__main__":
    unittest.main()
