"""Tests of whole runs: records, shards, points one by one, exit codes.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/run/runs_test.py`. Matrices are
generated; all files go to a temporary folder.
"""

import csv
import json
import shutil
import unittest
from pathlib import Path

from program import POISSON, RMAT, UNIFORM, ProgramTest, machine, records_in, result_of, results


class RunTest(ProgramTest):
    """What a run does, and what it does not do again."""

    def test_every_point_gets_one_record_that_says_what_it_is_of(self) -> None:
        config = self.config(UNIFORM, RMAT, kernels='"csr_spmm", "acc_spmm"',
                             backends='"emulate", "model"')

        done = self.run_config(config)

        records = records_in(self.records)
        self.assertEqual(len(results(records)), 2 * 2 * 2 * 2)
        environment = json.loads(self.records.read_text().splitlines()[0])
        self.assertEqual(environment["type"], "env")
        for record in records:
            self.assertEqual(record["status"], "ok", record)
            self.assertEqual(record["schema"], 1)
            self.assertEqual(record["env_id"], environment["env_id"])
            self.assertEqual(record["experiment"], "c")
            self.assertEqual(record["origin"], {"emulate": "emulated", "model": "modelled"}
                             [record["params"]["backend"]])
            self.assertTrue(record["matrix"]["synthetic"])
            self.assertGreaterEqual(record["prep"]["reorder_s"], 0)
            self.assertGreaterEqual(record["prep"]["pack_s"], 0)
            self.assertEqual("check" in record, record["params"]["backend"] == "emulate")
            self.assertEqual("gflops" in record, record["params"]["backend"] == "model")
        self.assertEqual(len(done.stdout.splitlines()), 2 + 16)
        self.assertIn("c: 16 run now, 16 ok", done.stderr)
        with open(self.out / "table.csv", encoding="utf-8", newline="") as table:
            self.assertEqual(len(list(csv.DictReader(table))), 16)

    def test_columns_without_a_value_are_named_and_not_printed(self) -> None:
        config = self.config(UNIFORM, rest='[table]\ncolumns = ["matrix", "time_us", "smape_pct"]\n')

        done = self.run_config(config)
        header = (self.out / "table.csv").read_text().splitlines()[0]

        self.assertEqual(done.stdout.splitlines()[0].split(), ["matrix", "smape_pct"])
        self.assertIn("columns without a value, not shown: time_us", done.stderr)
        self.assertEqual(header, "matrix,time_us,smape_pct")

    def test_a_second_run_does_nothing(self) -> None:
        config = self.config(UNIFORM, RMAT)
        first = self.run_config(config)
        before = self.records.read_bytes()

        second = self.run_config(config)

        self.assertIn("c: 0 run now, 4 ok", second.stderr)
        self.assertEqual(self.records.read_bytes(), before)
        self.assertEqual(second.stdout, first.stdout)

    def test_what_a_config_gains_is_all_that_is_run(self) -> None:
        self.run_config(self.config(UNIFORM, n=[4]))

        done = self.run_config(self.config(UNIFORM, RMAT, n=[4, 8]))

        self.assertIn("c: 3 run now, 4 ok", done.stderr)
        self.assertEqual(len(results(records_in(self.records))), 4)

    def test_a_matrix_file_that_changed_is_run_again_and_back_again(self) -> None:
        matrix = self.folder / "a.mtx"
        config = self.config("a.mtx", n=[4])
        texts = {seed: f"%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 {seed}.5\n"
                       "3 2 -0.25\n" for seed in (1, 2)}
        matrix.write_text(texts[1])
        self.run_config(config)

        for seed, expected in ((1, 0), (2, 1), (2, 0), (1, 1), (1, 0)):
            matrix.write_text(texts[seed])
            with self.subTest(seed=seed, expected=expected):
                self.assertIn(f"c: {expected} run now, 1 ok", self.run_config(config).stderr)
                found = self.json_of("run", config, "--out", str(self.out), "--json")
                self.assertEqual(len(found["table"]), 1)

    def test_a_cache_that_was_emptied_costs_no_result(self) -> None:
        config = self.config(UNIFORM, RMAT)
        self.run_config(config)
        before = self.records.read_bytes()
        shutil.rmtree(self.cache.name)

        done = self.run_config(config)

        self.assertIn("c: 0 run now, 4 ok", done.stderr)
        self.assertEqual(self.records.read_bytes(), before)

    def test_two_labels_of_one_point_run_it_once(self) -> None:
        case = '[[case]]\nname = "{}"\nreorder = "none"\n'

        done = self.run_config(self.config(UNIFORM, n=[4],
                                           rest=case.format("one") + case.format("two")))

        self.assertIn("c: 1 run now, 1 ok", done.stderr)
        self.assertEqual(len(records_in(self.records)), 1)
        self.assertEqual(len(done.stdout.splitlines()), 2 + 2)

    def test_set_overrides_a_key(self) -> None:
        config = self.config(UNIFORM)

        self.run_config(config, "--set", "grid.n=32", "--set", "experiment.seed=7")

        [record] = records_in(self.records)
        self.assertEqual((record["params"]["n"], record["params"]["seed"]), (32, 7))
        self.assertIn("grid.m", self.run_config(config, "--set", "grid.m.n.o", code=2).stderr)

    def test_a_dry_run_counts_and_runs_nothing(self) -> None:
        config = self.config(UNIFORM, RMAT)

        before = self.run_config(config, "--dry-run").stdout
        self.assertFalse(self.out.exists())
        self.run_config(self.config(UNIFORM))
        after = self.run_config(self.config(UNIFORM, RMAT), "--dry-run").stdout

        self.assertIn("4 points in all, 4 of them without a record", before)
        self.assertRegex(before, r"2 points  rmat\(scale=6\)")
        self.assertIn("4 points in all, 2 of them without a record", after)

    def test_several_matrices_at_a_time_give_the_same_results(self) -> None:
        config = self.config(UNIFORM, RMAT, POISSON, kernels='"csr_spmm", "acc_spmm"')
        self.run_config(config)
        one = results(records_in(self.records))
        shutil.rmtree(self.out)

        self.run_config(config, "--jobs", "3")

        self.assertEqual(results(records_in(self.records)), one)

    def test_workers_that_share_gpus_give_the_same_results(self) -> None:
        matrices = [f"rmat(scale=6, seed={seed})" for seed in range(7)]
        config = self.config(UNIFORM, *matrices, kernels='"csr_spmm", "acc_spmm"')
        self.run_config(config)
        one = results(records_in(self.records))

        for gpus in ("all", "1"):
            shutil.rmtree(self.out)
            self.run_config(config, "--gpus", gpus)
            self.assertEqual(results(records_in(self.records)), one)
        self.assertIn("0 run now", self.run_config(config, "--gpus", "1").stderr)

    def test_max_seconds_starts_no_more_points(self) -> None:
        config = self.config(UNIFORM, RMAT)

        for seconds in ("0", "0.000001"):
            done = self.run_config(config, "--max-seconds", seconds)
            self.assertIn("c: 0 run now, 4 left", done.stderr)
            self.assertIn("the same command continues with what is left", done.stderr)
        whole = self.run_config(config, "--max-seconds", "1e10")
        self.assertIn("4 run now, 4 ok", whole.stderr)
        self.assertNotIn("the same command", whole.stderr)
        for seconds in ("nan", "-1", "soon"):
            self.assertIn("max-seconds", self.run_config(config, "--max-seconds", seconds,
                                                         code=2).stderr)

    def test_json_has_the_table_the_counts_and_the_verdicts(self) -> None:
        expect = ('[[expect]]\nname = "fill"\nsource = "Table 9"\ncolumn = "nnz"\n'
                  'statistic = "max"\ntrend = "at_most"\nvalue = 300\n')
        config = self.config(UNIFORM, n=[4], rest=expect)

        found = self.json_of("run", config, "--out", str(self.out), "--json")

        self.assertEqual((found["experiment"], found["points"], found["ran"], found["left"]),
                         ("c", 1, 1, 0))
        self.assertEqual((found["by_status"], found["skips"]), ({"ok": 1}, []))
        self.assertEqual(len(found["table"]), 1)
        [claim] = found["expectations"]
        self.assertEqual((claim["verdict"], claim["matrices"], claim["needed_matrices"]),
                         ("met", 1, 1))
        self.assertTrue((self.out / "table.csv").exists())


class SkipTest(ProgramTest):
    """Every skip has its cause, wherever points are counted."""

    def config_of_skips(self) -> str:
        """Of 12 points two run: two matrices are absent, one kernel has neither half."""
        return self.config("absent_a", "shuffle(of=absent_b)", UNIFORM, n=[4],
                           kernels='"csr_spmm", "cusparse"', backends='"emulate", "model"')

    def test_a_run_ends_with_its_skips_by_cause(self) -> None:
        done = self.run_config(self.config_of_skips())

        lines = [line for line in done.stderr.splitlines() if " skipped: " in line]
        self.assertEqual(len(lines), 3, done.stderr)
        self.assertIn("c: 8 skipped: 2 matrices not found (absent_a, absent_b); set $TESSERA_DATA",
                      lines[0])
        self.assertIn("`tessera matrix fetch`", lines[0])
        self.assertRegex(done.stderr, "c: 1 skipped: kernel cusparse, backend emulate: .*emulated")
        self.assertRegex(done.stderr, "c: 1 skipped: kernel cusparse, backend model: .*work")
        self.assertEqual(done.stderr.splitlines()[-3:], lines)

    def test_records_status_plan_and_dry_run_agree_on_the_causes(self) -> None:
        config = self.config_of_skips()

        plan = [json.loads(line) for line in self.tessera("plan", config, "--json")
                .stdout.splitlines()]
        foreseen = self.run_config(config, "--dry-run").stdout
        told = self.tessera("plan", config).stderr
        found = self.json_of("run", config, "--out", str(self.out), "--json")
        status = self.json_of("status", config, "--out", str(self.out), "--json")
        text = self.tessera("status", config, "--out", str(self.out)).stdout

        self.assertEqual({entry["hash"]: {"part": entry["skip"]["part"],
                                          "name": entry["skip"]["name"]}
                          for entry in plan if "skip" in entry},
                         {record["params_hash"]: record["skip"]
                          for record in records_in(self.records) if "skip" in record})
        self.assertEqual(status["skips"], found["skips"])
        self.assertEqual([group["points"] for group in found["skips"]], [8, 1, 1])
        self.assertEqual(found["skips"][0]["matrices"], ["absent_a", "absent_b"])
        for group in found["skips"]:
            self.assertIn(group["text"], text)
            for output in (foreseen, told):
                self.assertIn(group["text"].replace("skipped", "would be skipped here"), output)

    def test_a_point_without_a_result_has_no_origin(self) -> None:
        (self.folder / "a.mtx").write_text("no matrix\n")
        done = self.run_config(self.config("a.mtx", "absent_a", UNIFORM, n=[4],
                                           rest='[table]\ncolumns = ["matrix", "origin"]\n'
                                           'where = { status = ["ok", "skipped", "failed"] }\n'),
                               code=3)

        self.assertEqual({record["status"]: record.get("origin")
                          for record in records_in(self.records)},
                         {"failed": None, "skipped": None, "ok": "emulated"})
        self.assertEqual([line.split()[1:] for line in done.stdout.splitlines()[2:4]], [[], []])

    def test_an_older_record_of_a_skip_has_no_origin_in_a_table(self) -> None:
        config = self.config("absent_a", n=[4])
        self.run_config(config, code=8)
        lines = self.records.read_text().splitlines()
        record = {**json.loads(lines[1]), "origin": "measured", "status": "timeout"}
        del record["skip"]
        self.records.write_text(lines[0] + "\n" + json.dumps(record) + "\n")

        self.tessera("merge", str(self.out), "--out", str(self.folder / "m"))

        self.assertNotIn("measured", (self.folder / "m" / "records.csv").read_text())


class ShardTest(ProgramTest):
    """Parts of a run, and their union."""

    def test_shards_and_merge_equal_one_whole_run(self) -> None:
        config = self.config(UNIFORM, RMAT, POISSON, "band(n=40)",
                             kernels='"csr_spmm", "acc_spmm"')
        self.run_config(config)
        whole = results(records_in(self.records))
        shards = self.folder / "shards"

        sizes = []
        for index in (1, 2, 3):
            self.tessera("run", config, "--out", str(shards), "--shard", f"{index}/3")
            sizes.append(len(records_in(shards / f"records-{index}-of-3.jsonl")))
        merged = self.tessera("merge", str(shards), "--out", str(self.folder / "merged"))

        self.assertEqual(sum(sizes), 16)
        self.assertGreater(min(sizes), 0)
        self.assertEqual(results(records_in(self.folder / "merged" / "records.jsonl")), whole)
        self.assertIn("16 points, 1 environment, 0 doubled", merged.stderr)
        with open(self.folder / "merged" / "records.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 16)
        self.assertEqual({row["status"] for row in rows}, {"ok"})
        self.assertIn("0 run now, 16 ok",
                      self.tessera("run", config, "--out", str(self.folder / "merged")).stderr)

    def test_merging_what_overlaps_keeps_one_record_of_each_point_and_the_better(self) -> None:
        config = self.config(UNIFORM, RMAT)
        self.run_config(config)
        lines = self.records.read_text().splitlines()
        worse = [json.loads(line) for line in lines[1:3]]
        for record in worse:
            record.update(status="failed", reason="planted", finished_at="2999-01-01T00:00:00Z")
        other = self.folder / "other.jsonl"
        other.write_text("".join(json.dumps(record) + "\n" for record in worse))

        done = self.tessera("merge", str(self.out), str(other), "--out", str(self.folder / "m"))

        merged = records_in(self.folder / "m" / "records.jsonl")
        self.assertIn("4 points, 1 environment, 2 doubled", done.stderr)
        self.assertEqual({record["status"] for record in merged}, {"ok"})

    def test_a_later_attempt_counts_whichever_file_it_is_in(self) -> None:
        config = self.config(UNIFORM)
        self.run_config(config)
        lines = [json.loads(line) for line in self.records.read_text().splitlines()]
        for record in lines[1:]:
            record.update(status="failed", reason="planted", finished_at="2020-01-01T00:00:00Z")
        self.records.write_text("".join(json.dumps(record) + "\n" for record in lines))

        self.run_config(config, "--shard", "1/1", "--rerun", "failed")

        self.assertEqual(self.json_of("status", config, "--out", str(self.out),
                                      "--json")["by_status"], {"ok": 2})
        self.assertIn("0 run now, 2 ok", self.run_config(config).stderr)

    def test_a_failed_record_dated_in_the_future_is_replaced_by_running_it_again(self) -> None:
        config = self.config(UNIFORM)
        self.run_config(config)
        lines = [json.loads(line) for line in self.records.read_text().splitlines()]
        for record in lines[1:]:
            record.update(status="failed", reason="planted", finished_at="2999-01-01T00:00:00Z")
        (self.out / "other.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.records.unlink()

        self.run_config(config, "--rerun", "failed")
        merged = self.folder / "merged"
        self.tessera("merge", str(self.out / "other.jsonl"), str(self.out), "--out", str(merged))

        for out in (str(self.out), str(merged)):
            with self.subTest(out=out):
                self.assertEqual(self.json_of("status", config, "--out", out, "--json")["by_status"],
                                 {"ok": 2})
                again = self.tessera("run", config, "--out", out, "--rerun", "failed")
                self.assertIn("0 run now, 2 ok", again.stderr)

    def test_a_shard_that_is_none_is_refused(self) -> None:
        config = self.config(UNIFORM)
        for shard in ("0/3", "4/3", "1", "a/b", "1/3x", "1/0", "1/4294967297", "1 /3", "/3", "1/"):
            with self.subTest(shard=shard):
                self.run_config(config, "--shard", shard, code=2)


class PlanAndPointTest(ProgramTest):
    """The two verbs of cluster schedulers, and status."""

    def test_points_of_a_plan_run_one_by_one_give_the_records_of_a_run(self) -> None:
        config = self.config(UNIFORM, RMAT, kernels='"csr_spmm", "acc_spmm"', n=[4])
        self.run_config(config)
        whole = results(records_in(self.records))
        one = self.folder / "one.jsonl"

        plan = self.tessera("plan", config, "--json").stdout.splitlines()
        printed = [json.loads(self.tessera("point", "--json", "-", "--out", str(one),
                                           given=line).stdout) for line in plan]

        self.assertEqual(results(printed), whole)
        self.assertEqual(results(records_in(one)), whole)
        self.assertEqual({json.loads(line)["hash"] for line in plan},
                         {record["params_hash"] for record in printed})
        taken = self.folder / "taken"
        taken.mkdir()
        shutil.copy(one, taken / "records.jsonl")
        self.assertIn("0 run now, 4 ok", self.tessera("run", config, "--out", str(taken)).stderr)

    def test_what_is_no_point_is_one_plain_error(self) -> None:
        deep = "[" * 1_000_000
        (self.folder / "deep.json").write_text(f'{{"point": {deep}')
        for given, message in ((str(self.folder), "a folder, a file was expected"),
                               ("deep.json", "a point nests at most 100 levels"),
                               ('{"n":', "--json is not JSON")):
            with self.subTest(given=given):
                done = self.tessera("point", "--json", given, code=2)
                self.assertIn(message, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_a_point_that_has_its_record_is_not_run_again(self) -> None:
        [line] = self.tessera("plan", self.config(UNIFORM, n=[4]), "--json").stdout.splitlines()
        one = str(self.folder / "one.jsonl")

        first = self.tessera("point", "--json", line, "--out", one).stdout
        second = self.tessera("point", "--json", line, "--out", one).stdout

        self.assertEqual(json.loads(first), json.loads(second))
        self.assertEqual(len(records_in(Path(one))), 1)

    def test_a_record_can_be_run_again_from_itself(self) -> None:
        self.run_config(self.config(RMAT, n=[4], kernels='"acc_spmm"'))
        [record] = records_in(self.records)
        file = self.folder / "record.json"
        file.write_text(json.dumps(record))

        for given in (json.dumps(record), json.dumps(record["params"]), str(file)):
            with self.subTest(given=given[:20]):
                again = self.json_of("point", "--json", given)
                self.assertEqual(result_of(again), result_of(record))

    def test_a_point_with_a_key_too_many_is_refused(self) -> None:
        [line] = self.tessera("plan", self.config(UNIFORM, n=[4]), "--json").stdout.splitlines()
        point = json.loads(line)["point"]

        self.assertIn("'m'", self.tessera("point", "--json", json.dumps({**point, "m": 1}),
                                          code=2).stderr)
        del point["n"]
        self.assertIn("'n'", self.tessera("point", "--json", json.dumps(point), code=2).stderr)

    def test_status_tells_what_is_done_and_left(self) -> None:
        self.run_config(self.config(UNIFORM, "absent_a"))
        config = self.config(UNIFORM, "absent_a", RMAT)

        found = self.json_of("status", config, "--out", str(self.out), "--json")
        text = self.tessera("status", config, "--out", str(self.out)).stdout
        nothing = self.json_of("status", config, "--out", "nowhere", "--json")

        self.assertEqual((found["experiment"], found["points"], found["left"], found["by_status"]),
                         ("c", 6, 2, {"ok": 2, "skipped": 2}))
        self.assertEqual([line.split() for line in text.splitlines()[:3]],
                         [["2", "ok"], ["2", "skipped"], ["2", "left", "of", "6"]])
        self.assertEqual((nothing["left"], nothing["by_status"]), (6, {}))


class ExitCodeTest(ProgramTest):
    """The exit codes that scripts rely on."""

    def test_2_is_for_what_was_asked_wrongly(self) -> None:
        config = self.config(UNIFORM)
        for arguments in ((), ("nonsense",), ("run",), ("run", "absent.toml"),
                          ("run", "quickstrat"),
                          ("run", config, "--set", "grid.n=0"), ("run", config, "--rerun", "some"),
                          ("run", config, "--backend", "emulat"), ("run", config, "--jobs", "0"),
                          ("run", config, "--gpus", "0"), ("run", config, "--gpus", "two"),
                          ("run", config, "--gpus", "1", "--jobs", "2"),
                          ("list", "kernel"), ("matrix",), ("matrix", "info", "absent_a"),
                          ("multiply", "absent_a", "--kernel", "csr_spmm"),
                          ("multiply", UNIFORM, "--kernel", "csr_spnm"),
                          ("reorder", UNIFORM, "--with", "rmc"),
                          ("pack", UNIFORM, "--format", "cs"),
                          ("point", "--json", "{"), ("point", "--json", "[1]"),
                          ("merge", "absent", "--out", "m"), ("status", "absent.toml"),
                          ("figure", config)):
            with self.subTest(arguments=arguments):
                done = self.tessera(*arguments, code=2)
                self.assertEqual(done.stdout, "")
                self.assertNotEqual(done.stderr, "")
                self.assertNotIn("json.exception", done.stderr)

    def test_4_is_for_wrong_numbers_and_not_for_an_overflow_that_is_meant(self) -> None:
        matrix = "uniform(rows=1024, cols=8192, per_row=32)"  # beyond 65504 for some e^(3 z)
        config = self.config(matrix, kernels='{ name = "mma_csr", precision = "fp16" }')
        values = 'grid.values=["lognormal"]'

        self.run_config(config, "--set", values, code=4)
        self.run_config(config, "--set", values, "--set", "check.overflow_fails=false")
        self.assertEqual(self.statuses(), {"wrong": 2})

    def test_5_is_for_what_this_machine_or_the_program_has_not(self) -> None:
        asked = self.tessera("multiply", UNIFORM, "--kernel", "cusparse", code=5)
        self.assertIn("skipped", asked.stdout)
        if machine()["backends"]["gpu"] != "works":
            config = self.config(UNIFORM)
            done = self.run_config(config, "--require", "gpu", code=5)
            self.assertIn("backend gpu is required", done.stderr)
            self.assertFalse(self.out.exists())
            self.run_config(config, "--backend", "gpu", code=8)
            self.assertEqual(self.statuses(), {"skipped": 2})

    def test_6_is_for_an_expectation_that_is_not_met(self) -> None:
        expect = ('[[expect]]\nname = "fill"\nsource = "Table 9"\ncolumn = "nnz"\n'
                  'statistic = "max"\ntrend = "{}"\nvalue = 300\n')

        met = self.run_config(self.config(UNIFORM, rest=expect.format("at_most")))
        missed = self.run_config(self.config(UNIFORM, rest=expect.format("at_least")), "--set",
                                 "expect.0.value=301", code=6)

        self.assertRegex(met.stderr, "fill: .*: met")
        self.assertRegex(missed.stderr, "fill: .*: NOT met")

    def test_7_is_for_an_expectation_that_too_few_results_can_judge(self) -> None:
        expect = ('[[expect]]\nname = "fill"\nsource = "Table 9"\ncolumn = "nnz"\n'
                  'statistic = "max"\ntrend = "at_most"\nvalue = 300\n{}')

        few = self.run_config(self.config(UNIFORM, "absent_a", n=[4], rest=expect.format("")),
                              code=7)
        enough = self.run_config(self.config(UNIFORM, "absent_a", n=[4],
                                             rest=expect.format("matrices = 1\n")))
        stand_in = self.run_config(self.config("absent_a", n=[4], rest=expect.format("")), "--set",
                                   f'grid.matrix=["{UNIFORM}"]', code=7)

        self.assertIn("fill: not judged: 1 of 2 matrices (Table 9)", few.stderr)
        self.assertIn("fill: max nnz over 1 is 300, expected at most 300 (Table 9): met",
                      enough.stderr)
        self.assertIn("fill: not judged: 0 of 1 matrix (Table 9)", stand_in.stderr)
        self.assertNotIn("met", few.stderr + stand_in.stderr)

    def test_8_is_for_a_run_whose_every_point_was_skipped(self) -> None:
        nothing = self.run_config(self.config("absent_a"), code=8)
        something = self.run_config(self.config("absent_a", UNIFORM))
        [line] = self.tessera("plan", self.config("absent_a", n=[4]), "--json").stdout.splitlines()
        point = self.tessera("point", "--json", line, code=8)

        self.assertIn("c: nothing could be run: every point was skipped", nothing.stderr)
        self.assertEqual(nothing.stdout, "")
        self.assertNotIn("nothing could be run", something.stderr)
        self.assertIn("skipped: there is no matrix 'absent_a'", point.stderr)

    def test_the_worst_of_several_configs_counts(self) -> None:
        good = self.config(UNIFORM)
        bad = self.folder / "bad.toml"
        (self.folder / "a.mtx").write_text("no matrix\n")
        bad.write_text(Path(good).read_text().replace('id = "c"', 'id = "bad"')
                       .replace(UNIFORM, "a.mtx"))

        self.tessera("run", str(bad), good, code=3)

        self.assertEqual(len(records_in(self.folder / "out" / "c" / "records.jsonl")), 2)
        self.assertEqual(len(records_in(self.folder / "out" / "bad" / "records.jsonl")), 2)


if __name__ == "__main__":
    unittest.main()
