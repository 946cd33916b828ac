"""`tessera report`: pages of planted records, and the site, opened in a headless browser.

The records are made up, so that every number on the page is known. The tests that look at a page
are skipped with a message where there is no browser.
"""

import json
import os
import re
import sys
import unittest
from pathlib import Path
from typing import Any

from browser import Browser, missing

from program import ProgramTest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "notebooks" / "report"))

from committed import figure, find_figure, value  # noqa: E402
from frame import flat, frame  # noqa: E402
from libraries import LIBRARIES, folder  # noqa: E402
from page import embedded  # noqa: E402

HOSTILE = '</script><b id="harm">&amp;\'"<img src=x onerror="document.title=1">'
NEEDS_BROWSER = missing()
NEEDS_LIBRARIES = "" if all((folder() / file).is_file() for file in LIBRARIES) else \
    "no JavaScript libraries: install " + ", ".join(LIBRARIES.values())

CONFIG = """schema = 1
[experiment]
id = "planted"
title = "Planted"
paper = "No paper, Fig. 0"
backends = ["simulate", "gpu"]
[grid]
matrix = [{matrices}]
n = {n}
kernel = ["csr_spmm", "acc_spmm"]
device = "h200"
[table]
columns = ["matrix", "nnz", "n", "kernel", "time_us", "gflops", "origin"]
[[figure]]
id = "speed"
kind = "{kind}"
title = "Speed"
x = "{x}"
y = "gflops"
series = "kernel"
[[expect]]
name = "the faster kernel"
source = "planted"
column = "gflops"
statistic = "geomean"
where = {{ kernel = "acc_spmm" }}
value = 1
trend = "at_least"
[[expect]]
name = "no such rows"
source = "planted"
column = "gflops"
statistic = "min"
where = {{ kernel = "cusparse" }}
value = 1
trend = "at_least"
[[expect]]
name = "too much"
source = "planted"
column = "gflops"
statistic = "max"
value = 1e9
trend = "at_least"
"""

ENVIRONMENT = {"type": "env", "schema": 1, "env_id": "e", "started_at": "2026-01-02T03:04:05Z",
               "build": {"commit": "abc123", "dirty": False, "compiler": "GNU 12"},
               "gpu": {"available": True, "name": "NVIDIA Planted", "driver": "1.2.3",
                       "cuda_runtime": "13.0"}, "host": {"cpu": "Planted CPU"}}


def record(entry: dict[str, Any], at: int, name: str) -> dict[str, Any]:
    """A result: its time is at + 1 us, so it is known by its place in the plan."""
    point, measured = entry["point"], entry["point"]["backend"] == "gpu"
    made = {"type": "point", "schema": 1, "point_id": f"id{at}", "params_hash": entry["hash"],
            "params": point, "env_id": "e", "finished_at": "2026-01-02T03:04:05Z", "status": "ok",
            "origin": "measured" if measured else "simulated", "config_hash": "c0ffee",
            "matrix": {"name": name, "nnz": 1000 + at, "rows": 10, "cols": 10},
            "gflops": 100.0 + at, "check": {"smape_pct": 0.25, "bound_ratio": 0.5},
            "counters": {"dram__bytes_read.sum": 7.0 * at}}
    if measured:
        return made | {"time": {"median_us": at + 1.0, "p5_us": at + 0.5, "p95_us": at + 2.0, "n": 20}}
    return made | {"prediction": {"time_us": at + 1.0, "bound_by": "L2"},
                   "simulation": {"warp_time": {"memory": 0.75, "issuing": 0.25}, "waves": 2.0,
                                  "parts": [{"name": "L2", "time_us": 0.5, "reason": "planted"}],
                                  "resident_thread_blocks": 4, "occupancy_limit": "warps",
                                  "sm_balance": 0.9, "longest_thread_block_us": 1.0,
                                  "seconds": 0.1}}


class ReportTest(ProgramTest):
    """Records of a plan, and the page of them."""

    def plant(self, matrices: list[str], n: list[int], kind: str = "bars",
              x: str = "matrix") -> str:
        """Writes config and records; the config's path."""
        config = self.folder / "planted.toml"
        names = ", ".join(json.dumps(matrix) for matrix in matrices)
        where = "" if len(n) == 1 or x != "matrix" else f"where = {{ n = {n[0]} }}\n"
        text = CONFIG.format(matrices=names, n=n, kind=kind, x=x)
        config.write_text(text.replace('series = "kernel"\n', f'series = "kernel"\n{where}', 1))
        plan = [json.loads(line) for line in
                self.tessera("plan", str(config), "--json").stdout.splitlines()]
        lines = [ENVIRONMENT] + [record(entry, at, entry["point"]["matrix"])
                                 for at, entry in enumerate(plan)]
        self.out.mkdir()
        self.records.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(config)

    def report(self, *arguments: str, code: int = 0) -> Path:
        """Makes a page."""
        page = self.folder / "page.html"
        self.tessera("report", *arguments, "--to", str(page), code=code)
        return page


class PageDataTest(ReportTest):
    """What needs no browser."""

    def test_the_data_hold_rows_verdicts_figures_and_the_config(self) -> None:
        config = self.plant(["absent_a", "absent_b"], [8])
        document = self.json_of("report", config, "--out", str(self.out), "--json")
        found = document["experiments"][0]
        self.assertEqual((found["id"], found["paper"]), ("planted", "No paper, Fig. 0"))
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

    def test_a_missing_library_names_its_package(self) -> None:
        config = self.plant(["absent_a"], [8])
        os.environ["TESSERA_JAVASCRIPT"] = str(self.folder)
        self.addCleanup(os.environ.pop, "TESSERA_JAVASCRIPT")
        told = self.tessera("report", config, "--out", str(self.out), code=5).stderr
        self.assertIn("apt-get install libjs-jquery libjs-jquery-datatables libjs-chart.js", told)
        self.assertEqual([path.name for path in self.out.iterdir()], ["records.jsonl"])

    def test_nothing_to_report_on_is_an_error(self) -> None:
        self.assertIn("expected a config", self.tessera("report", code=2).stderr)
        self.assertIn("quickstart", self.tessera("report", "quickstrat", code=2).stderr)

    @unittest.skipIf(NEEDS_LIBRARIES, NEEDS_LIBRARIES)
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
        found = find_figure(ROOT / "experiments" / "configs", "accuracy", "matrix", "smape_pct")
        self.assertEqual((found["kind"], found["y_scale"]), ("bars", "log"))
        self.assertEqual(find_figure(ROOT / "experiments" / "configs", "accuracy", "n", "n"), {})

    def test_a_file_without_a_config_is_drawn_as_its_numbers_suggest(self) -> None:
        path = Path(self.enterContext(__import__("tempfile").TemporaryDirectory())) / "f.csv"
        path.write_text("panel,series,origin,x_of,y_of,low,high\n"
                        ",a,measured,1,10,9,11\n,a,measured,100,0,,\n,b,simulated,100,5000,,\n")
        found = figure(path, path.parent, "Title")
        self.assertEqual((found["title"], found["kind"], found["x"]["scale"]),
                         ("Title", "lines", "log"))
        self.assertEqual([s["origin"] for s in found["panels"][0]["series"]],
                         ["measured", "simulated"])
        self.assertEqual(found["panels"][0]["series"][0]["points"][0],
                         {"x": 1, "y": 10, "low": 9, "high": 11})


@unittest.skipIf(NEEDS_BROWSER or NEEDS_LIBRARIES, NEEDS_BROWSER or NEEDS_LIBRARIES)
class BrowserTest(ReportTest):
    """Pages in a browser."""

    browser: Browser

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.browser.close()
        super().tearDownClass()

    def tearDown(self) -> None:
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(self.browser.requests(), [])

    def open_planted(self, matrices: list[str] | None = None) -> None:
        """A page of few points, everything on it drawn."""
        config = self.plant(matrices or ["absent_a", "absent_b"], [8, 16])
        self.browser.open(self.report(config, "--out", str(self.out)))
        self.browser.draw_everything()

    def cells(self, column: int, table: str = "s0-table") -> list[str]:
        """The texts of a column, as they stand."""
        return [cell.text for cell in
                self.browser.all(f"#{table} tbody tr td:nth-child({column})")]

    def test_what_was_asked_and_what_came_out_stands_on_the_page(self) -> None:
        self.open_planted()
        text = self.browser.run("return document.body.innerText")
        for part in ("Planted", "No paper, Fig. 0", "16 of 16: 16 ok", "NVIDIA Planted", "1.2.3",
                     "abc123", "2026-01-02", "planted.toml"):
            self.assertIn(part, text)
        self.assertEqual([e.text for e in self.browser.all(".verdict")],
                         ["met", "not judged", "refuted"])
        self.assertIn("statistic = \"geomean\"",
                      self.browser.run("return document.querySelector('.config pre').textContent"))

    def test_tables_sort_by_number_and_filter(self) -> None:
        self.open_planted()
        head = self.browser.all("#s0-table thead tr:first-child th")[4]  # time_us
        head.click()
        self.assertEqual(self.cells(5)[:3], ["1", "2", "3"])
        head.click()
        self.assertEqual(self.cells(5)[:3], ["16", "15", "14"])
        filters = self.browser.all("#s0-table .filters input")
        filters[-2].send_keys(">= 14")  # time_us
        self.browser.wait("return document.querySelectorAll('#s0-table tbody tr').length === 3")
        filters[-2].clear()
        filters[-2].send_keys("2..3")
        self.browser.wait("return document.querySelectorAll('#s0-table tbody tr').length === 2")
        filters[-2].send_keys("\b" * 4)
        search = self.browser.all("#s0-table input[type=search]")[0]
        search.send_keys("absent_b")
        self.browser.wait("return [...document.querySelectorAll('#s0-table tbody tr')].length === 8")
        self.assertEqual(set(self.cells(1)), {"absent_b"})

    def test_predicted_numbers_never_look_measured(self) -> None:
        self.open_planted()
        looks = self.browser.run(
            "return [...document.querySelectorAll('#s0-table tbody tr')].map((row) =>"
            "[row.lastChild.textContent, row.children[4].querySelector('.predicted') !== null,"
            " row.children[1].querySelector('.predicted') !== null])")
        self.assertEqual({(origin, time) for origin, time, _ in looks},
                         {("simulated", True), ("measured", False)})
        self.assertFalse(any(counted for _, _, counted in looks))
        fills = self.browser.run(
            "return [...allFigures].find((f) => f.source.id === 'speed').charts[0].chart.data"
            ".datasets.map((d) => [d.label, typeof d.backgroundColor])")
        self.assertEqual({label.endswith("(simulated)"): kind for label, kind in fills},
                         {True: "object", False: "string"})

    def test_a_point_is_read_by_hovering_and_opened_by_a_click(self) -> None:
        from selenium.webdriver import ActionChains
        self.open_planted()
        canvas = self.browser.all("#s0-figures canvas")[0]
        self.browser.run("arguments[0].scrollIntoView({block: 'center'})", canvas)
        x, y = self.browser.run(
            "const c = Chart.getChart(arguments[0]), m = c.getDatasetMeta(0).data[1];"
            "return [m.x - c.width / 2, (m.y + m.base) / 2 - c.height / 2]", canvas)
        ActionChains(self.browser.driver).move_to_element_with_offset(canvas, x, y).perform()
        readout = self.browser.wait(
            "const t = document.querySelector('#s0-figures .readout').textContent.trim();"
            "return t && t")
        self.assertRegex(readout, r"csr_spmm.*matrix: absent_b.*gflops: 10\d")
        ActionChains(self.browser.driver).click().perform()
        text = self.browser.wait("return !document.getElementById('point').hidden &&"
                                 "document.getElementById('point').innerText")
        for part in ("absent_b", "SMAPE", "0.25 %", "dram__bytes_read.sum", "NVIDIA Planted",
                     "1.2.3", "abc123", "c0ffee", "tessera point --json '{"):
            self.assertIn(part, text)
        self.assertRegex(self.browser.run("return location.hash"), r"^#point=planted/id\d+$")

    def test_a_simulated_point_shows_where_its_time_went(self) -> None:
        config = self.plant(["absent_a"], [8])
        self.browser.open(self.report(config, "--out", str(self.out)), "#point=planted/id0")
        text = self.browser.run("return document.getElementById('point').innerText")
        for part in ("Where warps spend their time", "75 %", "2 waves", "simulated",
                     "tessera timeline 'absent_a' --n 8 --kernel csr_spmm"):
            self.assertIn(part, text)

    def test_the_keyboard_reaches_points_and_tables(self) -> None:
        from selenium.webdriver.common.keys import Keys
        self.open_planted()
        canvas = self.browser.all("#s0-figures canvas")[0]
        canvas.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        self.assertIn("absent_b", self.browser.run(
            "return document.getElementById('spoken').textContent"))
        canvas.send_keys(Keys.ENTER)
        self.assertFalse(self.browser.run("return document.getElementById('point').hidden"))
        self.browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        self.assertTrue(self.browser.run("return document.getElementById('point').hidden"))
        self.assertEqual(self.browser.driver.switch_to.active_element, canvas)
        row = self.browser.all("#s0-table tbody tr")[0]
        row.send_keys(Keys.ENTER)
        self.assertFalse(self.browser.run("return document.getElementById('point').hidden"))

    def test_a_hostile_name_does_no_harm(self) -> None:
        self.open_planted(["absent_a", HOSTILE])
        self.assertEqual(self.browser.all("#harm"), [])
        self.assertIn(HOSTILE, self.cells(1))
        self.assertEqual(self.browser.run("return document.title"), "Planted")
        self.browser.all("#s0-table tbody tr")[-1].click()
        self.assertIn(HOSTILE, self.browser.run("return document.getElementById('point').innerText"))
        self.assertEqual(self.browser.all("#harm"), [])

    def test_the_explorer_draws_what_passes_the_filters(self) -> None:
        self.open_planted()
        drawn = ("const f = [...allFigures].find((f) => f.source.id === 'explore');"
                 "return f && f.count")
        self.browser.wait(f"{drawn} === 16")
        self.browser.all("#s0-points input[type=search]")[0].send_keys("absent_a")
        self.browser.wait(f"{drawn} === 8")

    def test_a_page_prints_light_with_all_rows(self) -> None:
        self.open_planted()
        self.browser.run("setTheme('dark'); dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(self.browser.run("return theme()"), "light")
        self.browser.run("dispatchEvent(new Event('afterprint'))")
        self.assertEqual(self.browser.run("return theme()"), "dark")

    def test_a_narrow_screen_needs_no_sideways_scrolling(self) -> None:
        self.open_planted()
        self.browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True})
        self.addCleanup(self.browser.driver.execute_cdp_cmd,
                        "Emulation.clearDeviceMetricsOverride", {})
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 400)

    def test_ten_thousand_points_open_within_two_seconds(self) -> None:
        matrices = [f"absent_{at:02}" for at in range(25)]
        config = self.plant(matrices, list(range(8, 808, 8)), "scatter", "nnz")
        page = self.report(config, "--out", str(self.out))
        seconds = min(self.browser.open(page) for _ in range(2))
        self.assertEqual(self.browser.run("return DATA.sections[0].rows.length"), 10000)
        self.assertEqual(self.browser.run("return [...allFigures][0].count"), 10000)
        self.assertLess(seconds, 2)

    def test_every_page_of_the_site_opens(self) -> None:
        site = self.folder / "site"
        self.tessera("report", "--site", str(site))
        pages = sorted(site.glob("*.html"))
        self.assertIn("index.html", [page.name for page in pages])
        for page in pages:
            with self.subTest(page=page.name):
                self.browser.open(page)
                self.browser.draw_everything()
                broken = self.browser.run(
                    "return [...document.querySelectorAll('a[href]')].map((a) =>"
                    "a.getAttribute('href')).filter((h) => h.startsWith('#') && h.length > 1 &&"
                    "!document.getElementById(decodeURIComponent(h.slice(1))))")
                self.assertEqual(broken, [])
                self.assertEqual(self.browser.complaints(), [])
        targets = {h.split("#")[0] for page in pages for h in
                   re.findall(r'href=\\?"([\w.]+\.html[^"\\]*)', page.read_text(encoding="utf-8"))}
        self.assertLessEqual(targets, {page.name for page in pages})


if __name__ == "__main__":
    if NEEDS_BROWSER or NEEDS_LIBRARIES:
        print(f"skipped in part: {NEEDS_BROWSER or NEEDS_LIBRARIES}", file=sys.stderr)
    unittest.main()
