"""The table of the five papers' figures and tables in docs/papers.md is that of the configs."""

import re
import sys
import unittest
from typing import Any

from layers_test import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import papers_items

PAGE = papers_items.PAGE.read_text(encoding="utf-8")
ITEM = {"paper": "P", "name": "Figure 3", "shows": "speed"}


def config(name: str, paper: str, figure: str, **more: str) -> dict[str, Any]:
    """The [experiment] of a config."""
    return {"id": name, "paper": paper, "figure": figure, **more}


class PageTest(unittest.TestCase):
    def test_the_page_is_as_the_configs_and_the_items_say(self) -> None:
        self.assertEqual(papers_items.written(PAGE), PAGE, "docs/papers_items.py writes the table")

    def test_the_items_are_37(self) -> None:
        between = PAGE.partition(papers_items.BEGIN)[2].partition("Configs of these papers beyond")[0]

        self.assertEqual(len(re.findall(r"^\| (?!paper|---)", between, re.MULTILINE)), 37)

    def test_a_page_without_its_marks_is_refused(self) -> None:
        with self.assertRaisesRegex(SystemExit, "no lines"):
            papers_items.page_with("no marks", "text")


class TableTest(unittest.TestCase):
    def test_a_key_figure_names_one_item_several_or_a_range(self) -> None:
        for text, items in (("Figure 3", ["Figure 3"]),
                            ("Figures 7 to 9", ["Figure 7", "Figure 8", "Figure 9"]),
                            ("Figures 9 and 10, Tables 3 and 4",
                             ["Figure 9", "Figure 10", "Table 3", "Table 4"]),
                            ("Figures 7 to 9 and 11", ["Figure 7", "Figure 8", "Figure 9", "Figure 11"]),
                            ("Equations 1 and 2", ["Equation 1", "Equation 2"]),
                            ("the poster's bars", ["the poster's bars"])):
            self.assertEqual(papers_items.items_of(text), items)

    def test_of_several_papers_each_has_its_part(self) -> None:
        self.assertEqual(papers_items.claims_of(config("c", "P, Q", "Figure 1, Table 2")),
                         [("P", "Figure 1"), ("Q", "Table 2")])
        self.assertEqual(papers_items.claims_of(config("c", "P, Q", "ablations")),
                         [("P", "ablations"), ("Q", "ablations")])

    def test_the_state_follows_from_the_configs_and_the_difference(self) -> None:
        def state(item: dict[str, str], *configs: dict[str, Any]) -> list[str]:
            row = papers_items.rows([item], list(configs), {})[0]
            return [*row[2:4], row[5]]

        whole = config("all", "P", "Figure 3")
        self.assertEqual(state(ITEM), ["", "not", ""])
        self.assertEqual(state(ITEM, whole), ["`tessera run all`", "from one command", ""])
        self.assertEqual(state({**ITEM, "differs": "B"}, whole), ["`tessera run all`", "partly", "B"])
        self.assertEqual(state(ITEM, config("gpu", "P", "Figure 3", gpu_only="timed"))[1],
                         "from one command, on a GPU only")
        wide = config("a_wide_one", "P", "Figures 2 and 3")
        self.assertEqual(state(ITEM, wide, whole)[0], "`tessera run all`, `tessera run a_wide_one`")

    def test_tables_as_published_stand_before_earlier_ones(self) -> None:
        def committed(**tables: list[str]) -> str:
            configs = [config("a", "P", "Figure 3"), config("b", "P", "Figure 3")]
            return papers_items.rows([ITEM], configs, tables)[0][4]

        self.assertEqual(committed(), "")
        self.assertEqual(committed(a=["spmm/a.csv"]),
                         "[a.csv](../experiments/results/spmm/a.csv)")
        self.assertEqual(committed(a=["spmm/a.csv"], b=["published/b.csv"]),
                         "[b.csv](../experiments/results/published/b.csv)")

    def test_an_item_has_the_table_of_a_config_that_measures_but_does_not_draw_it(self) -> None:
        item = {**ITEM, "also_measured_by": "b"}

        row = papers_items.rows([item], [config("a", "P", "Figure 3")], {"b": ["published/b.csv"]})[0]

        self.assertEqual(row[2], "`tessera run a`")
        self.assertIn("published/b.csv", row[4])

    def test_the_page_counts_the_items_with_a_table(self) -> None:
        items = [ITEM, {**ITEM, "name": "Figure 4"}, {**ITEM, "name": "Figure 5"}]
        configs = [config(f"fig{n}", "P", f"Figure {n}") for n in (3, 4, 5)]
        text = papers_items.section(items, configs, {"fig3": ["published/a.csv"], "fig4": ["spmm/b.csv"]})

        self.assertRegex(text, "as published are committed for 1, and other tables.* for 1 more[.]")

    def test_a_table_that_is_not_there_is_not_committed(self) -> None:
        tables = papers_items.tables_of(ROOT)

        self.assertIn("published/cutespmm.csv", tables["published_cutespmm"])
        for files in tables.values():
            for file in files:
                self.assertTrue((ROOT / "experiments/results" / file).exists(), file)

    def test_a_config_of_no_item_stands_in_the_second_table(self) -> None:
        text = papers_items.section([ITEM], [config("c", "P", "Section 4"), config("d", "Q", "x")], {})

        self.assertIn("| P | Section 4 | `tessera run c` |", text)
        self.assertNotIn("`tessera run d`", text)
        self.assertIn("Of 1 items 0 come from one command, 0 partly and 1 not.", text)


if __name__ == "__main__":
    unittest.main()
