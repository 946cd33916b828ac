"""Tests of `tessera compare`: exit codes, tables, CSV and JSON, on simulated and planted records.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/verbs/compare_test.py`.
"""

import csv
import json
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from program import RMAT, UNIFORM, ProgramTest


class CompareTest(ProgramTest):
    """tessera compare."""

    def simulated(self, name: str, *arguments: str) -> str:
        """The folder of a simulated run: two matrices x two kernels."""
        config = self.config(UNIFORM, RMAT, n=[8], kernels='"csr_spmm", "acc_spmm"',
                             backends='"simulate"')
        self.tessera("run", config, "--out", name, *arguments)
        return name

    def changed(self, source: str, name: str, change: Callable[[dict[str, Any]], None]) -> str:
        """A copy of a record set with its points changed."""
        to = self.folder / name
        to.mkdir()
        lines = [json.loads(line) for line in
                 (self.folder / source / "records.jsonl").read_text().splitlines()]
        for line in lines:
            if line["type"] == "point":
                change(line)
        (to / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return name

    def test_the_exit_code_says_whether_anything_became_slower_or_wrong(self) -> None:
        before = self.simulated("before")

        def slow(record: dict[str, Any]) -> None:
            if record["params"]["kernel"]["name"] == "acc_spmm":
                record["prediction"]["time_us"] *= 1.001

        def wrong(record: dict[str, Any]) -> None:
            if record["params"]["kernel"]["name"] == "acc_spmm":
                record["status"] = "wrong"
                record["reason"] = "planted"

        slower = self.changed(before, "slower", slow)
        broken = self.changed(before, "broken", wrong)

        self.tessera("compare", before, before)
        self.assertIn("slower: 2", self.tessera("compare", before, slower, code=9).stdout)
        self.tessera("compare", before, slower, "--predicted-threshold", "1%")
        self.tessera("compare", slower, before)
        self.tessera("compare", slower, before, "--fail-on", "different", code=9)
        self.assertIn("wrong: planted", self.tessera("compare", before, broken, code=9).stdout)
        self.tessera("compare", before, broken, "--fail-on", "missing", code=9)
        self.tessera("compare", broken, before)

        (self.folder / "part").mkdir()
        whole = (self.folder / before / "records.jsonl").read_text().splitlines(keepends=True)
        (self.folder / "part" / "records.jsonl").write_text("".join(whole[:-1]))
        self.assertIn("only in A: 1 points", self.tessera("compare", before, "part").stdout)
        self.tessera("compare", before, "part", "--fail-on", "missing", code=9)

    def test_two_simulated_devices_are_compared_pair_by_pair(self) -> None:
        h200 = self.simulated("h200")
        a100 = self.simulated("a100", "--set", "grid.device=a100-80gb")

        found = self.json_of("compare", h200, a100, "--json", code=9)
        self.tessera("compare", h200, a100, "--csv", "pairs.csv", code=9)

        self.assertEqual(found["by"], ["device"])
        self.assertEqual(found["a"]["label"], "h200")
        [group] = found["groups"]
        self.assertEqual((group["B"], group["origin"], group["pairs"]),
                         ("a100-80gb", "simulated", 4))
        self.assertTrue(found["regression"])
        for pair in found["pairs"]:
            self.assertAlmostEqual(pair["speed"], pair["A us"] / pair["B us"])
            self.assertEqual(pair["verdict"], "slower" if pair["speed"] < 1 else "faster")
        product = 1.0
        for pair in found["pairs"]:
            product *= pair["speed"]
        self.assertAlmostEqual(group["mean speed"], product ** 0.25)
        with Path(self.folder / "pairs.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["verdict"] for row in rows],
                         [pair["verdict"] for pair in found["pairs"]])
        self.assertEqual({row["kernel"] for row in rows}, {"csr_spmm", "acc_spmm"})

    def test_one_set_is_compared_with_itself_by_a_column_or_by_two_selections(self) -> None:
        records = self.simulated("records")

        by = self.json_of("compare", records, "--by", "kernel", "--baseline", "csr_spmm", "--json",
                          "--predicted-threshold", "1000%")
        chosen = self.json_of("compare", records, "--where-a", "kernel=csr_spmm", "--where-b",
                              "kernel=acc_spmm", "--json", "--predicted-threshold", "1000%")

        self.assertEqual(by["pairs"], chosen["pairs"])
        self.assertEqual(len(by["pairs"]), 2)
        self.assertEqual(chosen["by"], ["kernel"])

    def test_what_cannot_be_compared_is_a_usage_error_with_its_reason(self) -> None:
        records = self.simulated("records")
        for arguments, message in (
                ((records,), "is compared with itself by a column"),
                ((records, records, records), "one or two sets"),
                ((records, "nowhere"), "no such record file or folder"),
                ((records, records, "--where", "krenel=x"), "did you mean 'kernel'"),
                ((records, records, "--where", "kernel=nothing"), "A has no record that matches"),
                ((records, records, "--threshold", "much"), "a share was expected"),
                ((records, records, "--by", "kernel"), "choose one with --where-a"),
                ((records, records, "--baseline", "x"), "is of one set of records"),
                ((records, "--by", "kernel", "--baseline", "csr_smpm"), "did you mean 'csr_spmm'"),
                ((records, "--by", "device"), "all records have device = h200")):
            with self.subTest(arguments=arguments):
                self.assertIn(message, self.tessera("compare", *arguments, code=2).stderr)

    def test_the_help_states_the_method_and_its_error_rates(self) -> None:
        text = self.tessera("compare", "--help").stdout
        for part in ("Holm", "95 %", "ambiguous", "Exit code 9"):
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
