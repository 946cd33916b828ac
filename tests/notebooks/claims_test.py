"""Tests of notebooks/claims.py: verdicts from planted tables, and the page from the committed ones.

Run with `PYTHONPATH=tests python3 tests/notebooks/claims_test.py`.
"""

import csv
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "notebooks"))
import claims
from claim_tables import crossing, growth, median, ranks
from claim_verdicts import NOT, PARTLY, REPRODUCED, UNJUDGED, UNMEASURED, VERDICTS, overall, verdict

TIMES = """matrix,n,case,origin,time_us
a,8,ours,measured,10
b,8,ours,measured,10
c,8,ours,measured,10
a,8,theirs,measured,20
b,8,theirs,measured,5
c,8,theirs,measured,80
a,16,ours,simulated,10
a,16,theirs,measured,20
"""
SIZES = "matrix,nnz\na,5\nb,50\nc,500\n"
HEAD = """schema = 1
[table]
times = { file = "times.csv", config = "try" }
sizes = { file = "sizes.csv", config = "try", origin = "counted" }
absent = { file = "published/absent.csv", config = "never_run" }
[series]
ours = { table = "times", value = "time_us", where = { case = "ours" } }
theirs = { table = "times", value = "time_us", where = { case = "theirs" } }
either = { table = "times", value = "time_us", pick = "min" }
raised = { table = "times", value = "time_us", where = { case = "theirs" }, scale = 2, plus = 1, least = 20 }
absent = { table = "absent", value = "time_us" }
nnz = { table = "sizes", value = "nnz" }
[paper]
place = 1
title = "A paper"
"""


def claim(number: str, rest: str = "", unit: str = "times", rule: str = "at_least") -> str:
    """A claim with one number, over ours at N = 8 if nothing else is said."""
    sides = rest or 'published = { aggregate = "geomean", of = "theirs", over = "ours" }'
    return (f'[[claim]]\nid = "it"\nsource = "fig. 1"\ntext = "It is fast"\nunit = "{unit}"\n'
            f'rule = "{rule}"\n{sides}\nnumber = [{{ where = {{ n = 8 }}, {number} }}]\n')


class Planted(unittest.TestCase):
    """A folder with a claims file and two tables."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "experiments/claims").mkdir(parents=True)
        (self.root / "experiments/results").mkdir()
        self.table("times.csv", TIMES)
        self.table("sizes.csv", SIZES)

    def table(self, name: str, text: str) -> None:
        (self.root / "experiments/results" / name).write_text(text, encoding="utf-8")

    def write(self, text: str) -> None:
        (self.root / "experiments/claims/try.toml").write_text(HEAD + text, encoding="utf-8")

    def judged(self, text: str) -> claims.Claim:
        """The only claim of a file."""
        self.write(text)
        return claims.judged_papers(self.root)[0].claims[0]

    def found(self, measure: str) -> str:
        """What the page shows for a measure at N = 8."""
        one = self.judged(claim("paper = 1", f"published = {measure}"))
        cell = one.numbers[0].cells["published"]
        return claims.shown(cell.found, "") if cell.found else cell.missing

    def error(self, text: str) -> str:
        with self.assertRaises(claims.ClaimError) as caught:
            self.judged(text)
        return str(caught.exception)


class MeasuresTest(Planted):
    def test_aggregates_of_quotients(self) -> None:
        # The quotients are 2, 0.5 and 8.
        for aggregate, shown in (("geomean", "2.00 (3)"), ("mean", "3.50 (3)"),
                                 ("median", "2.00 (3)"), ("min", "0.50 (3)"), ("max", "8.00 (3)"),
                                 ("sum", "10.5 (3)"), ("share", "2 of 3")):
            with self.subTest(aggregate):
                self.assertEqual(
                    self.found(f'{{ aggregate = "{aggregate}", of = "theirs", over = "ours" }}'),
                    shown)

    def test_only_selects_by_the_values_of_another_table(self) -> None:
        base = 'aggregate = "geomean", of = "theirs", over = "ours", only = '
        self.assertEqual(self.found(f'{{ {base}{{ nnz = ">5" }} }}'), "2.00 (2)")
        self.assertEqual(self.found(f'{{ {base}{{ nnz = 50 }} }}'), "0.50")
        self.assertEqual(self.found(f'{{ {base}{{ nnz = {{ not = [50, 500] }} }} }}'), "2.00")
        self.assertEqual(self.found(f'{{ {base}{{ nnz = ">900" }} }}'),
                         "No matrix is in all of its tables.")

    def test_recall_is_the_share_of_the_faster_ones_that_are_predicted(self) -> None:
        self.assertEqual(self.found('{ aggregate = "recall", of = "theirs", over = "ours", '
                                    'predict = { nnz = ">5" } }'), "1 of 2")  # fmt: skip

    def test_several_rows_of_a_key_need_a_choice(self) -> None:
        self.assertEqual(self.found('{ aggregate = "sum", of = "either" }'), "25 (3)")
        message = self.error(claim("paper = 1", 'published = { aggregate = "one", of = "both" }')
                             .replace("[[claim]]", '[series.both]\ntable = "times"\n'
                                      'value = "time_us"\n[[claim]]', 1))  # fmt: skip
        self.assertIn("2 rows of one key", message)

    def test_values_are_scaled_then_raised_and_not_below_the_least(self) -> None:
        # Theirs are 20, 5 and 80: 41, 11 and 161, of which 11 becomes 20.
        self.assertEqual(self.found('{ aggregate = "sum", of = "raised" }'), "222 (3)")

    def test_products_of_series_stand_on_either_side(self) -> None:
        self.assertEqual(self.found('{ aggregate = "geomean", of = ["theirs", "ours"], over = '
                                    '["ours", "ours"] }'), "2.00 (3)")  # fmt: skip

    def test_a_root_gives_the_mean_over_several_series_of_a_matrix(self) -> None:
        self.assertEqual(self.found('{ aggregate = "min", of = ["theirs", "ours"], over = '
                                    '["ours", "ours"], root = 2 }'), "0.71 (3)")  # fmt: skip

    def test_ranks_medians_growth_and_crossings(self) -> None:
        self.assertEqual(ranks([3, 1, 3]), [1.5, 0, 1.5])
        self.assertEqual(median([4, 1, 2, 3]), 2.5)
        self.assertEqual(growth({("10",): 6, ("9",): 3}), 2)
        self.assertEqual(crossing({("9",): 2, ("10",): 3, ("8",): 1, ("7",): 5}), 9)
        self.assertNotEqual(crossing({("9",): 0.5}), 9)


class VerdictTest(unittest.TestCase):
    def test_a_number_within_the_tolerance_is_reproduced(self) -> None:
        self.assertEqual(verdict(9.1, 10, "at_least", 0.1, True), REPRODUCED)
        self.assertEqual(verdict(8.9, 10, "at_least", 0.1, True), PARTLY)
        self.assertEqual(verdict(99, 10, "at_least", 0.1, True), REPRODUCED)
        self.assertEqual(verdict(11, 10, "at_most", 0.1, False), REPRODUCED)
        self.assertEqual(verdict(8, 10, "about", 0.1, False), PARTLY)

    def test_near_one_the_tolerance_is_a_share_of_the_distance_from_one(self) -> None:
        self.assertEqual(verdict(1.05, 1.06, "at_least", 0.1, True), REPRODUCED)
        self.assertEqual(verdict(1.03, 1.06, "at_least", 0.1, True), PARTLY)
        self.assertEqual(verdict(0.98, 1.06, "at_least", 0.1, True), NOT)
        self.assertEqual(verdict(0.999, 1, "at_least", 0.1, True), NOT)

    def test_halfway_is_logarithmic_for_quotients_and_a_factor_of_two_otherwise(self) -> None:
        self.assertEqual(verdict(4, 16, "at_least", 0.1, True), PARTLY)
        self.assertEqual(verdict(3.9, 16, "at_least", 0.1, True), NOT)
        self.assertEqual(verdict(8, 16, "at_least", 0.1, False), PARTLY)
        self.assertEqual(verdict(7.9, 16, "at_least", 0.1, False), NOT)
        self.assertEqual(verdict(32, 16, "at_most", 0.1, False), PARTLY)
        self.assertEqual(verdict(33, 16, "at_most", 0.1, False), NOT)
        self.assertEqual(verdict(0.7, 0.5, "at_most", 0.1, True), PARTLY)
        self.assertEqual(verdict(0.72, 0.5, "at_most", 0.1, True), NOT)
        self.assertEqual(verdict(0.66, 0.81, "at_least", 0.1, True), PARTLY)

    def test_zero_admits_nothing_else(self) -> None:
        self.assertEqual(verdict(0, 0, "at_most", 0.1, False), REPRODUCED)
        self.assertEqual(verdict(0.01, 0, "at_most", 0.1, False), NOT)

    def test_a_claim_of_several_numbers(self) -> None:
        self.assertEqual(overall([REPRODUCED, UNMEASURED]), REPRODUCED)
        self.assertEqual(overall([REPRODUCED, NOT]), PARTLY)
        self.assertEqual(overall([NOT, NOT, UNJUDGED]), NOT)
        self.assertEqual(overall([UNJUDGED, UNMEASURED]), UNMEASURED)
        self.assertEqual(overall([UNJUDGED]), UNJUDGED)


class JudgedTest(Planted):
    def test_tampered_tables_turn_the_verdict(self) -> None:
        text = claim("paper = 2.0")
        self.assertEqual(self.judged(text).verdict, REPRODUCED)
        self.table("times.csv", TIMES.replace("c,8,theirs,measured,80", "c,8,theirs,measured,40"))
        self.assertEqual(self.judged(text).verdict, PARTLY)
        self.table("times.csv", TIMES.replace("c,8,theirs,measured,80", "c,8,theirs,measured,8"))
        self.assertEqual(self.judged(text).verdict, NOT)
        self.table("times.csv", TIMES.replace(",measured,", ",simulated,"))
        self.assertEqual(self.judged(text).verdict, UNJUDGED)
        (self.root / "experiments/results/times.csv").unlink()
        self.assertEqual(self.judged(text).verdict, UNMEASURED)

    def test_a_prediction_never_carries_a_verdict_and_is_no_measurement_on_the_page(self) -> None:
        one = self.judged(claim("paper = 2").replace("n = 8", "n = 16"))
        self.assertEqual(one.verdict, UNJUDGED)
        text = claims.page(claims.judged_papers(self.root))
        self.assertIn("| *2.00, simulated* |", text)
        self.assertIn("Predictions alone decide nothing.", text)

    def test_the_first_alternative_with_measured_data_counts(self) -> None:
        sides = ('published = [{ aggregate = "one", of = "absent" }, '
                 '{ aggregate = "max", of = "theirs", over = "ours" }]')
        one = self.judged(claim("paper = 8", sides))
        self.assertEqual(one.verdict, REPRODUCED)
        self.assertEqual(one.numbers[0].missing, "")
        text = claims.page(claims.judged_papers(self.root))
        self.assertIn("| 8.00 (3) ° |", text)
        self.assertIn('"°" marks a number from an earlier table', text)
        self.assertIn("| all papers | 1 | 0 | 0 | 0 | 0 |", text)

    def test_our_best_alone_leaves_a_claim_unmeasured_with_its_command(self) -> None:
        sides = ('published = { aggregate = "one", of = "absent" }\n'
                 'best = { aggregate = "max", of = "theirs", over = "ours" }')
        self.assertEqual(self.judged(claim("paper = 8", sides)).verdict, UNMEASURED)
        text = claims.page(claims.judged_papers(self.root))
        self.assertIn("8.00 (3) | **not measured**", text)
        self.assertNotIn("earlier table", text)
        self.assertIn("To measure it: `tessera run never_run`.", text)

    def test_an_aim_is_judged_by_our_best(self) -> None:
        sides = 'judge = "best"\nbest = { aggregate = "max", of = "theirs", over = "ours" }'
        self.write(claim("paper = 8", sides).replace("[[claim]]", "[[claim]]", 1))
        path = self.root / "experiments/claims/try.toml"
        path.write_text(path.read_text().replace('title = "A paper"',
                                                 'title = "Aims"\naims = true'), encoding="utf-8")
        text = claims.page(claims.judged_papers(self.root))
        self.assertIn("| 8.00 (3) | **holds** |", text)
        self.assertIn("| all papers | 0 | 0 | 0 | 0 | 0 |", text)

    def test_what_cannot_be_judged_has_no_verdict_whatever_the_tables_say(self) -> None:
        one = self.judged(claim("paper = 2", 'cannot = "No such GPU."\n'
                                'published = { aggregate = "max", of = "theirs" }'))
        self.assertEqual(one.verdict, UNJUDGED)

    def test_texts_take_their_numbers_from_tables(self) -> None:
        side = 'published = { aggregate = "geomean", of = "theirs", over = "ours" }'
        rest = (f'why = ["It is {{least}} at least.", "{{gone}} is not there."]\n{side}\n'
                'values.least = { aggregate = "min", of = "theirs", where = { n = 8 } }\n'
                'values.gone = { aggregate = "min", of = "absent" }')
        one = self.judged(claim("paper = 9", rest))
        self.assertEqual(one.why, ["It is 5.00 at least."])
        self.assertEqual(self.judged(claim("paper = 1", rest)).why, [])  # there is nothing to explain

    def test_a_result_typed_into_a_text_is_refused(self) -> None:
        for typed in ("It is 1.5 times.", "On 3 of 4.", "By 20 %.", "It takes 2 times as long."):
            with self.subTest(typed):
                side = 'published = { aggregate = "max", of = "theirs" }'
                self.assertIn("typed by hand",
                              self.error(claim("paper = 9", f'why = ["{typed}"]\n{side}')))
        side = 'published = { aggregate = "max", of = "theirs", over = "ours" }'
        self.judged(claim("paper = 99", f'why = ["At N = 128 an H200 runs m16n8k8."]\n{side}'))

    def test_errors_name_the_claim_and_the_cause(self) -> None:
        self.assertIn("claim it: unknown key 'papr'", self.error(claim("paper = 1", 'papr = 1')))
        self.assertIn("no rule 'atleast'", self.error(claim("paper = 1", rule="atleast")))
        self.assertIn("it has no 'paper'", self.error(claim('name = "x"')))
        self.assertIn("no series 'oars'", self.error(claim(
            "paper = 1", 'published = { aggregate = "max", of = "oars" }')))
        self.assertIn("there is no column 'm'", self.error(claim(
            "paper = 1").replace("n = 8", "m = 8")))
        self.assertIn("no aggregate 'avg'", self.error(claim(
            "paper = 1", 'published = { aggregate = "avg", of = "ours" }')))
        self.table("times.csv", TIMES.replace("b,8,ours,measured", "b,8,ours,guessed"))
        self.assertIn("'guessed' is no origin", self.error(claim("paper = 1")))


class PageTest(unittest.TestCase):
    """The committed claims, tables and page."""

    def command(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "-B", str(ROOT / "notebooks/claims.py"), *arguments],
                              capture_output=True, text=True, check=False)  # fmt: skip

    def test_the_page_is_what_the_tables_say(self) -> None:
        result = self.command("--check")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_page_that_differs_is_seen(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "CLAIMS.md"
            text = (ROOT / "experiments/CLAIMS.md").read_text(encoding="utf-8")
            page.write_text(text.replace("not reproduced", "reproduced", 1), encoding="utf-8")
            self.assertEqual(self.command("--check", "--page", str(page)).returncode, 1)

    def tampered(self, file: str, case: str, factor: float) -> dict[str, str]:
        """The verdict of every claim where the times of a case are multiplied."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for part in ("claims", "results"):
                shutil.copytree(ROOT / "experiments" / part, root / "experiments" / part,
                                ignore=shutil.ignore_patterns("*.png", "*.pdf", "*.jsonl"))
            path = root / "experiments/results" / file
            with path.open(encoding="utf-8", newline="") as table:
                rows = list(csv.DictReader(table))
            for row in rows:
                if row["case"] == case:
                    row["time_us"] = str(factor * float(row["time_us"]))
            with path.open("w", encoding="utf-8", newline="") as table:
                writer = csv.DictWriter(table, rows[0])
                writer.writeheader()
                writer.writerows(rows)
            return {one.entry["id"]: one.verdict
                    for paper in claims.judged_papers(root) for one in paper.claims}

    def test_tampering_with_a_committed_table_turns_the_verdicts_that_rest_on_it(self) -> None:
        before = self.tampered("published/acc_spmm.csv", "Acc-SpMM, as published", 1)
        after = self.tampered("published/acc_spmm.csv", "Acc-SpMM, as published", 0.2)
        turned = {one for one in before if before[one] != after[one]}
        self.assertEqual(before["acc-fig9"], PARTLY)
        self.assertEqual(after["acc-fig9"], REPRODUCED)
        self.assertLessEqual(turned, {"acc-fig9", "acc-fig9-others"})
        before = self.tampered("published/cutespmm.csv", "cuTeSpMM, as published", 1)
        after = self.tampered("published/cutespmm.csv", "cuTeSpMM, as published", 0.1)
        self.assertEqual(before["cutespmm-table4"], NOT)
        self.assertEqual(after["cutespmm-table4"], REPRODUCED)
        self.assertEqual(after["cutespmm-fig10-most"], PARTLY)  # flushed caches: another table

    def test_every_claim_has_a_verdict_and_says_why_not(self) -> None:
        for paper in claims.judged_papers(ROOT):
            for one in paper.claims:
                with self.subTest(one.entry["id"]):
                    self.assertIn(one.verdict, VERDICTS)
                    if one.verdict in (NOT, PARTLY):
                        self.assertTrue(one.why, "no sentence says why not")
                    if one.verdict == UNMEASURED:
                        self.assertTrue(any(number.missing for number in one.numbers))

    def test_the_tables_of_runs_have_the_columns_that_the_claims_read(self) -> None:
        tables, _ = claims.read(ROOT)
        for name, series in tables.series.items():
            table = tables.tables[series["table"]]
            if not table["file"].startswith("published/"):
                continue
            path = ROOT / "experiments/configs" / f"{table['config']}.toml"
            config = tomllib.loads(path.read_text(encoding="utf-8"))
            had = {*config["table"]["columns"], *table.get("columns", {})}
            had |= {"origin"} if "origin" in table else set()
            read = {series["value"], *series.get("where", {}), *series.get("key", ["matrix"])}
            with self.subTest(name):
                self.assertLessEqual(read, had, f"[table] of {path.name} lacks columns")
                included = [tomllib.loads((path.parent / one).read_text(encoding="utf-8"))
                            for one in config.get("include", [])]
                cases = {entry["name"] for part in (config, *included)
                         for entry in (*part.get("case", []), *part.get("reduce", []))}
                wanted = series.get("where", {}).get("case", [])
                wanted = {wanted} if isinstance(wanted, str) else set(wanted)
                self.assertLessEqual(wanted, cases, f"{path.name} lacks cases")

    def test_the_tables_of_runs_are_collected(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            shutil.copytree(ROOT / "experiments/claims", root / "experiments/claims")
            for config in ("published_smat", "spgemm"):  # the second one's table has a page of its own
                (root / "out" / config).mkdir(parents=True)
                (root / "out" / config / "table.csv").write_text("matrix\n", encoding="utf-8")
            self.assertEqual(claims.collect(root, root / "out"), ["published/smat.csv"])
            self.assertTrue((root / "experiments/results/published/smat.csv").exists())
            self.assertFalse((root / "experiments/results/spgemm").exists())


if __name__ == "__main__":
    unittest.main()
