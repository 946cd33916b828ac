"""Pages of `tessera report`, and its site, opened in a headless browser.

The records are made up, so that every number on the page is known.
"""

import re
import sys
import unittest
from pathlib import Path

from browser import Browser, missing
from planted_report import ReportTest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "notebooks" / "report"))

from libraries import missing_packages  # noqa: E402

HOSTILE = '</script><b id="harm">&amp;\'"<img src=x onerror="document.title=1">'
SKIPPED = 77  # the exit code that ctest counts as skipped


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

    def test_a_skipped_point_says_why(self) -> None:
        config = self.plant(["absent_a"], [8])
        self.skip(1, "no GPU <b>here</b>")
        self.browser.open(self.report(config, "--out", str(self.out)), "#point=planted/id1")
        self.assertIn("no GPU <b>here</b>",
                      self.browser.run("return document.getElementById('s0-missing').innerText"))
        self.assertIn("no GPU <b>here</b>",
                      self.browser.run("return document.getElementById('point').innerText"))

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
        self.assertRegex(readout, r"csr_spmm.*matrix: absent_b.*GFLOP.s.*: 10\d")
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

    def test_a_timeline_stands_on_the_page_and_beside_its_point(self) -> None:
        matrix = "poisson2d(nx=9, ny=7)"
        config = self.plant([matrix], [8])
        self.tessera("timeline", matrix, "--n", "8", "--kernel", "csr_spmm", "--out",
                     str(self.folder / "timeline"))
        self.browser.open(self.report(config, "--out", str(self.out), "--timeline",
                                      str(self.folder / "timeline")), "#point=planted/id0")
        self.browser.draw_everything()
        self.assertEqual(self.browser.run(
            "return [...document.querySelectorAll('#timelines canvas, #point canvas')].map((c) =>"
            "Chart.getChart(c).data.datasets.reduce((n, d) => n + d.data.length, 0) > 0)"),
            [True] * 4)
        self.assertIn("Not measured: simulated", self.browser.run(
            "return document.getElementById('timelines').innerText"))

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
    if lacks := missing() + missing_packages():
        print(f"skipped: pages are looked at with Chromium and its libraries: install {' '.join(lacks)}")
        sys.exit(SKIPPED)
    unittest.main()
