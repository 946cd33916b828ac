"""Tests of plan, status and merge on many points, and on records that are damaged.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/verbs/many_points_test.py`.
"""

import csv
import io
import json
import os
import random
import time
import unittest
from pathlib import Path
from typing import Any

from program import BINARY, ProgramTest

KERNELS = ["acc_spmm", "csr_spmm", "cutespmm", "rows_spmm", "smat", "tessera_spmm"]


def dumped(record: dict[str, Any]) -> str:
    """A record as the program writes it."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


class ManyPointsTest(ProgramTest):
    """Sweeps that are larger than those of a paper."""

    def many(self, matrices: int, widths: int) -> str:
        """A config of `matrices` x `widths` x 36 points without a GPU."""
        names = [f"rmat(scale=8, edge_factor=4, seed={i})" for i in range(matrices)]
        (self.folder / "many.toml").write_text(f"""schema = 1
[experiment]
id = "many"
title = "t"
backends = ["emulate"]
[grid]
matrix = {json.dumps(names)}
n = {[8 * (i + 1) for i in range(widths)]}
reorder = ["none", "rcm", "degree", "random", "rabbit", "king"]
kernel = {json.dumps(KERNELS)}
[[figure]]
id = "time"
kind = "lines"
title = "t"
x = "n"
y = "gflops"
series = "kernel"
panel = "reorder"
statistic = "geomean"
""")
        return str(self.folder / "many.toml")

    def peak_megabytes(self, *arguments: str) -> float:
        """The largest memory of one call of the program."""
        out = os.open(os.devnull, os.O_WRONLY)
        child = os.posix_spawn(BINARY, [BINARY, *arguments], os.environ,
                               file_actions=[(os.POSIX_SPAWN_DUP2, out, 1),
                                             (os.POSIX_SPAWN_DUP2, out, 2)])
        os.close(out)
        _, status, usage = os.wait4(child, 0)
        self.assertEqual(status, 0)
        return usage.ru_maxrss / 1024

    def records_of(self, config: str) -> list[dict[str, Any]]:
        """A record for every point of the config."""
        rng = random.Random(30)
        lines = self.tessera("plan", config, "--json").stdout.splitlines()
        records = []
        for i, entry in enumerate(map(json.loads, lines)):
            record = {"schema": 1, "type": "point", "point_id": f"{i:016x}", "env_id": "e",
                      "params": entry["point"], "params_hash": entry["hash"], "status": "ok",
                      "origin": "emulated", "finished_at": f"2026-11-23T10:{i // 60 % 60:02}:00Z",
                      "gflops": rng.randrange(1, 10**6) / 8,
                      "matrix": {"name": entry["point"]["matrix"], "rows": 256, "cols": 256,
                                 "nnz": rng.randrange(1024), "hash": "h", "source": "s",
                                 "synthetic": True, "values": "stored"}}
            if i % 50 == 7:
                record |= {"status": "skipped", "reason": "no \"emulation\", N = 8",
                           "skip": {"part": "kernel", "name": "smat"}}
            if i % 50 == 8:
                record |= {"status": "wrong", "check": {"beyond_bound": 0, "overflows": 3}}
            records.append(record)
        return records

    def write(self, name: str, lines: list[str], end: str = "\n") -> str:
        """A folder of records."""
        (self.folder / name).mkdir()
        (self.folder / name / "records.jsonl").write_text("\n".join(lines) + end)
        return name

    def test_a_plan_of_100000_points_takes_little_memory(self) -> None:
        # 1 KB a point, and 1.8 KB before points shared their parameters; 40 MB without any.
        config = self.many(463, 6)
        self.assertLess(self.peak_megabytes("plan", config, "--as-written"), 160)
        listed = self.tessera("plan", config, "--as-written").stdout.splitlines()
        self.assertEqual(len(listed), 463 * 6 * 36)
        self.assertEqual(len({line.split()[0] for line in listed}), len(listed))

    def test_20000_records_take_seconds_and_little_memory(self) -> None:
        # Before, rows and trees of all records took 390 MB, and status twice as long.
        config = self.many(70, 8)
        self.write("r", [dumped(record) for record in self.records_of(config)])
        chosen = Path(config).read_text() + "where = { n = 32, reorder = \"rcm\" }\n"
        (self.folder / "chosen.toml").write_text(chosen)
        chosen_config = str(self.folder / "chosen.toml")
        for most, call in ((120, ["status", config]), (120, ["figure", chosen_config]),
                           (250, ["figure", config])):
            with self.subTest(call=call[0]):
                start = time.monotonic()
                peak = self.peak_megabytes(*call, "--as-written", "--out", str(self.folder / "r"))
                self.assertLess(peak, most)
                self.assertLess(time.monotonic() - start, 30)

    def test_a_figure_is_the_same_from_what_it_needs_and_from_all_columns(self) -> None:
        config = self.many(3, 3)
        records = self.records_of(config)
        self.write("r", [dumped(record) for record in records])
        text = Path(config).read_text()
        where = "where = { kernel = [\"acc_spmm\", \"smat\"], n = [8, 16] }\n"
        derived = "[[derive]]\nname = \"twice\"\nexpr = \"2 * gflops\"\n"
        for name, changed in (("all", text), ("some", text + where),
                              ("derived", text.replace("y = \"gflops\"", "y = \"twice\"") +
                               where + derived)):
            path = self.folder / f"{name}.toml"
            path.write_text(changed)
            with self.subTest(name):
                found = []
                for more in ([], ["--macros", str(self.folder / "macros.tex")]):
                    self.tessera("figure", str(path), "--out", "r", "--to", "f", "--format", "svg",
                                 *more)
                    found.append([(self.folder / "f" / file).read_text()
                                  for file in ("time.json", "time.csv")])
                self.assertEqual(found[0], found[1])

    def test_points_of_one_matrix_are_those_of_a_plan_of_that_matrix_alone(self) -> None:
        config = self.many(5, 2)
        together = self.tessera("plan", config, "--json").stdout.splitlines()
        apart: list[str] = []
        for i in range(5):
            alone = f'grid.matrix=["rmat(scale=8, edge_factor=4, seed={i})"]'
            apart += self.tessera("plan", config, "--json", "--set", alone).stdout.splitlines()
        self.assertEqual(together, apart)

    def test_status_counts_each_request_once_whatever_else_is_in_the_file(self) -> None:
        config = self.many(4, 2)
        records = self.records_of(config)
        unknown = records[0] | {"params_hash": "f" * 16, "point_id": "unknown"}
        failed = records[1] | {"status": "failed", "reason": "the process died"}
        spaced = json.dumps(records[2])
        lines = [dumped(unknown), dumped(failed)] + [dumped(r) for r in records[:200]] + [spaced]
        self.write("r", lines, end='\n{"schema":1,"type":"point","poi')
        status = json.loads(self.tessera("status", config, "--out", "r", "--json").stdout)
        self.assertEqual(status["points"], len(records))
        self.assertEqual(status["left"], len(records) - 200)
        self.assertEqual(status["by_status"], {"ok": 192, "skipped": 4, "wrong": 4})
        self.assertEqual([skip["points"] for skip in status["skips"]], [4])

    def test_merge_writes_the_last_line_of_every_point_and_every_column(self) -> None:
        records = self.records_of(self.many(2, 2))
        environment = {"schema": 1, "type": "env", "env_id": "e", "host": {"host": "h,1"},
                       "build": {"commit": "c", "dirty": True}}
        replaced = [r | {"status": "failed", "statistics": {"gone": 1}} for r in records[:20]]
        rare = records[30] | {"statistics": {"brick_density": 0.25}, "reason": "a \"b\", c"}
        a = self.write("a", [dumped(environment), *map(dumped, replaced + records[:40])])
        b = self.write("b", [dumped(environment), *map(dumped, records[35:]),
                             json.dumps(rare | {"finished_at": "2027-01-01T00:00:00Z"})])
        done = self.tessera("merge", a, b, "--out", "m")
        self.assertIn(f"{len(records)} points, 1 environment, 6 doubled", done.stderr)

        merged = (self.folder / "m" / "records.jsonl").read_text().splitlines()
        expected = [dumped(r) for r in records]
        expected[30] = dumped(rare | {"finished_at": "2027-01-01T00:00:00Z"})
        self.assertEqual(merged, [dumped(environment), *expected])
        with io.StringIO((self.folder / "m" / "records.csv").read_text()) as text:
            rows = list(csv.DictReader(text))
        self.assertEqual(len(rows), len(records))
        self.assertEqual(list(rows[0]), sorted(rows[0]))
        self.assertIn("kernel.precision", rows[0])
        self.assertNotIn("gone", rows[0])  # of replaced records alone
        self.assertEqual([row["brick_density"] for row in rows].count("0.25"), 1)
        self.assertEqual(rows[30]["reason"], "a \"b\", c")
        for row, line in zip(rows, merged[1:]):
            record = json.loads(line)
            self.assertEqual(float(row["gflops"]), record["gflops"])
            self.assertEqual(row["kernel"], record["params"]["kernel"]["name"])
            self.assertEqual(row["origin"], "" if record["status"] == "skipped" else "emulated")
            self.assertEqual((row["host"], row["commit"]), ("h,1", "c+changes"))

    def test_merge_names_the_place_of_a_line_that_is_no_record(self) -> None:
        records = self.records_of(self.many(1, 1))
        folder = self.write("a", [dumped(records[0]), '{"schema":1', dumped(records[1])])
        done = self.tessera("merge", folder, "--out", "m", code=2)
        self.assertIn("records.jsonl:2: not a record", done.stderr)
        self.assertFalse((self.folder / "m").exists())


if __name__ == "__main__":
    unittest.main()
