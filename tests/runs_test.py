"""Tests of the program as its users meet it: whole runs, ended in every way, and every verb.

Run with `TESSERA_BINARY=build-cpu/tessera python3 tests/runs_test.py`. Matrices are generated; all
files go to a temporary folder. Whatever kills, stops or starves a run here does so from outside.
"""

import csv
import functools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path
from typing import Any, Callable

BINARY = Path(os.environ.get("TESSERA_BINARY",
                             Path(__file__).resolve().parent.parent / "build-cpu" / "tessera"))
UNIFORM = "uniform(rows=60, cols=50, density=0.1)"
RMAT = "rmat(scale=6)"
POISSON = "poisson2d(nx=9, ny=7)"
# Many seconds of work at SLOW_N columns of B, next to nothing at few.
SLOW = "uniform(rows=3000, density=0.3)"
SLOW_N = 8192

# What of a record two runs of one point may differ in.
ATTEMPT_KEYS = ("attempt_s", "finished_at", "prep", "emulate_s", "experiment", "config_hash",
                "env_id")


@functools.cache
def machine() -> dict[str, Any]:
    """What `tessera doctor` says, which looks at everything and takes its time."""
    found = subprocess.run([BINARY, "doctor", "--json"], capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


def records_in(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a record file that are points."""
    if not path.exists():
        return []
    whole = path.read_bytes().rpartition(b"\n")[0]
    lines = [json.loads(line) for line in whole.splitlines()]
    return [line for line in lines if line["type"] == "point"]


def result_of(record: dict[str, Any]) -> dict[str, Any]:
    """What of a record has to be the same every time."""
    return {key: value for key, value in record.items() if key not in ATTEMPT_KEYS}


def results(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Results by point id; no id twice."""
    found = {record["point_id"]: result_of(record) for record in records}
    assert len(found) == len(records), "a point has two records"
    return found


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Looks every few milliseconds; gives up after half a minute."""
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.005)


def children_of(pid: int) -> list[int]:
    """Processes that a process started."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


class ProgramTest(unittest.TestCase):
    """A temporary folder with a cache of its own, and ways to call the program in it."""

    cache: tempfile.TemporaryDirectory[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.cache = tempfile.TemporaryDirectory(prefix="tessera-cache-")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.cache.cleanup()

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tessera-runs-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out"
        self.records = self.out / "records.jsonl"

    def environment(self) -> dict[str, str]:
        """Nothing of the user's."""
        return {**os.environ, "TESSERA_CACHE": self.cache.name, "TESSERA_DATA": str(self.folder)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The program, running."""
        process = subprocess.Popen([BINARY, *arguments], cwd=self.folder, text=True,
                                   env=self.environment(), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def tessera(self, *arguments: str, code: int = 0, given: str | None = None,
                **options: Any) -> subprocess.CompletedProcess[str]:
        """The program, run to its end, which has to be `code`."""
        done = subprocess.run([BINARY, *arguments], cwd=self.folder, text=True, input=given,
                              env=self.environment(), capture_output=True, check=False, **options)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def json_of(self, *arguments: str, code: int = 0) -> Any:
        """stdout as JSON."""
        return json.loads(self.tessera(*arguments, code=code).stdout)

    def config(self, *matrices: str, n: list[int] | None = None, kernels: str = '"csr_spmm"',
               experiment: str = "", backends: str = '"emulate"', rest: str = "") -> str:
        """Path of a new config: matrices x kernels x n."""
        path = self.folder / "c.toml"
        names = ", ".join(f'"{matrix}"' for matrix in matrices)
        path.write_text(f'schema = 1\n[experiment]\nid = "c"\nbackends = [{backends}]\n'
                        f"{experiment}\n[grid]\nmatrix = [{names}]\nn = {n or [4, 8]}\n"
                        f'kernel = [{kernels}]\ndevice = "h200"\n{rest}\n')
        return str(path)

    def run_config(self, config: str, *arguments: str, code: int = 0,
                   **options: Any) -> subprocess.CompletedProcess[str]:
        """`tessera run` into self.out."""
        return self.tessera("run", config, "--out", str(self.out), *arguments, code=code, **options)

    def statuses(self) -> Counter[str]:
        """Of the records in self.records."""
        return Counter(record["status"] for record in records_in(self.records))


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
                table = self.json_of("run", config, "--out", str(self.out), "--json")
                self.assertEqual(len(table), 1)

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

    def test_max_seconds_starts_no_more_points(self) -> None:
        config = self.config(UNIFORM, RMAT)

        done = self.run_config(config, "--max-seconds", "0.000001")

        self.assertIn("c: 0 run now, 4 left", done.stderr)
        self.assertIn("4 run now, 4 ok", self.run_config(config, "--max-seconds", "600").stderr)


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
        self.assertIn("16 points, 1 environments, 0 doubled", merged.stderr)
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
        self.assertIn("4 points, 1 environments, 2 doubled", done.stderr)
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

    def test_a_shard_that_is_none_is_refused(self) -> None:
        config = self.config(UNIFORM)
        for shard in ("0/3", "4/3", "1", "a/b", "1/3x", "1/0"):
            with self.subTest(shard=shard):
                self.run_config(config, "--shard", shard, code=2)


class BrokenOffTest(ProgramTest):
    """Runs that are killed or interrupted, and go on."""

    def sweep(self) -> str:
        """Points enough to be in the middle of them for a while."""
        return self.config("uniform(rows=1500)", "rmat(scale=10)", n=list(range(100, 125)),
                           kernels='"csr_spmm", "acc_spmm"')

    def start_sweep(self, config: str, records: int) -> subprocess.Popen[str]:
        """A run that has written some records and is not through."""
        process = self.start("run", config, "--out", str(self.out))
        wait_for(lambda: process.poll() is not None or len(records_in(self.records)) >= records,
                 f"{records} records")
        self.assertIsNone(process.poll(), "the sweep ended before anything could happen to it")
        return process

    def test_a_run_that_was_killed_goes_on_and_no_record_is_lost_or_doubled(self) -> None:
        config = self.sweep()
        process = self.start_sweep(config, 10)
        worker = children_of(process.pid)
        process.kill()
        process.wait()
        kept = self.records.read_bytes()
        kept = kept[:kept.rindex(b"\n") + 1]
        with open(self.records, "ab") as file:
            file.write(b'{"schema":1,"type":"point","point_id":"torn')

        done = self.run_config(config)

        self.assertEqual(len(worker), 1)
        wait_for(lambda: not Path(f"/proc/{worker[0]}").exists(), "the end of the worker")
        self.assertTrue(self.records.read_bytes().startswith(kept))
        self.assertEqual(len(results(records_in(self.records))), 100)
        before = kept.count(b'"type":"point"')
        self.assertGreaterEqual(before, 10)
        self.assertIn(f"c: {100 - before} run now, 100 ok", done.stderr)
        self.assertEqual(self.statuses(), {"ok": 100})

    def test_an_interrupted_run_ends_with_130_and_keeps_what_is_done(self) -> None:
        config = self.sweep()
        for name in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=name):
                shutil.rmtree(self.out, ignore_errors=True)
                process = self.start_sweep(config, 5)
                process.send_signal(name)
                _, messages = process.communicate(timeout=20)

                self.assertEqual(process.returncode, 130)
                kept = len(results(records_in(self.records)))
                self.assertTrue(self.records.read_bytes().endswith(b"\n"))
                self.assertIn(f"c: {kept} run now, {kept} ok, {100 - kept} left", messages)
        self.assertEqual(self.statuses(), {"ok": kept})
        self.assertIn(f"c: {100 - kept} run now, 100 ok", self.run_config(config).stderr)

    def test_ctrl_c_reaches_the_whole_group_and_costs_no_point(self) -> None:
        config = self.sweep()
        process = subprocess.Popen([BINARY, "run", config, "--out", str(self.out)],
                                   cwd=self.folder, env=self.environment(), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        wait_for(lambda: len(records_in(self.records)) >= 5, "5 records")

        os.killpg(process.pid, signal.SIGINT)

        process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(set(self.statuses()), {"ok"})

    def test_two_runs_do_not_write_one_file(self) -> None:
        config = self.config(SLOW, n=[SLOW_N])
        process = self.start("run", config, "--out", str(self.out))
        wait_for(lambda: bool(children_of(process.pid)), "a worker")

        refused = self.run_config(config, code=2)

        self.assertIn("another run is writing to it", refused.stderr)
        self.assertIsNone(process.poll())


class FailingPointTest(ProgramTest):
    """Points that end badly: the sweep goes on."""

    def slow_config(self, timeout: float) -> str:
        """A quick point, one that takes long, and a quick one, of one matrix."""
        return self.config(SLOW, n=[1, SLOW_N, 2], kernels='"acc_spmm"',
                           experiment=f"timeout_s = {timeout}")

    def by_n(self) -> dict[int, dict[str, Any]]:
        """Records by columns of B."""
        return {record["params"]["n"]: record for record in records_in(self.records)}

    def test_a_point_that_takes_too_long_is_given_up(self) -> None:
        config = self.slow_config(3)

        self.tessera("matrix", "info", SLOW)  # in the cache from here on
        done = self.run_config(config, code=3)

        found = self.by_n()
        self.assertEqual([found[n]["status"] for n in (1, SLOW_N, 2)], ["ok", "timeout", "ok"])
        self.assertEqual(found[SLOW_N]["reason"], "not finished after 3.0 s")
        self.assertIn("c: 3 run now, 2 ok, 1 timeout", done.stderr)
        self.assertIn(f"timeout: uniform(rows=3000, density=0.3) n={SLOW_N}", done.stderr)
        again = self.run_config(config, code=3)
        self.assertIn("c: 0 run now, 2 ok, 1 timeout", again.stderr)

    def kill_worker(self, name: signal.Signals) -> subprocess.CompletedProcess[str]:
        """Sends a signal to the process that is at the slow point."""
        process = self.start("run", self.slow_config(600), "--out", str(self.out))
        wait_for(lambda: len(records_in(self.records)) == 1, "the first point")
        [worker] = children_of(process.pid)
        time.sleep(0.2)
        os.kill(worker, name)
        output, messages = process.communicate(timeout=30)
        return subprocess.CompletedProcess("", process.returncode, output, messages)

    def test_a_point_that_crashes_is_marked_and_can_be_run_again(self) -> None:
        done = self.kill_worker(signal.SIGSEGV)

        found = self.by_n()
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual([found[n]["status"] for n in (1, SLOW_N, 2)], ["ok", "failed", "ok"])
        self.assertIn("the process died: ", found[SLOW_N]["reason"])
        self.assertIn("c: 3 run now, 1 failed, 2 ok", done.stderr)
        self.assertIn("0 run now", self.run_config(self.slow_config(600), code=3).stderr)
        again = self.run_config(self.slow_config(1), "--rerun", "failed", code=3)
        self.assertIn("c: 1 run now, 2 ok, 1 timeout", again.stderr)

    def test_a_process_the_system_kills_counts_as_out_of_memory(self) -> None:
        done = self.kill_worker(signal.SIGKILL)

        found = self.by_n()
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual([found[n]["status"] for n in (1, SLOW_N, 2)], ["ok", "oom", "ok"])

    def test_a_point_that_does_not_fit_in_memory_is_marked(self) -> None:
        if re.search("address|thread", machine()["build"]["flags"]):
            self.skipTest("a sanitizer needs all of the address space")
        limit = 4 << 30
        config = self.config(UNIFORM, n=[4, 60_000_000, 8])

        self.run_config(config, code=3, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_AS, (limit, limit)))

        found = self.by_n()
        self.assertEqual([found[n]["status"] for n in (4, 60_000_000, 8)], ["ok", "oom", "ok"])
        self.assertEqual(found[60_000_000]["reason"], "out of memory")

    def test_a_broken_matrix_file_fails_its_points_until_it_is_mended(self) -> None:
        matrix = self.folder / "a.mtx"
        matrix.write_text("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1\n9 9 1\n")
        config = self.config("a.mtx", UNIFORM)

        self.run_config(config, code=3)
        self.assertEqual(self.statuses(), {"failed": 2, "ok": 2})
        self.assertIn("a.mtx:4", records_in(self.records)[0]["reason"])
        self.assertIn("0 run now", self.run_config(config, code=3).stderr)

        matrix.write_text("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 1 1\n")
        self.assertIn("2 run now, 4 ok", self.run_config(config, "--rerun", "failed").stderr)
        self.assertEqual(self.statuses(), {"failed": 2, "ok": 4})

    def test_a_matrix_that_is_absent_is_skipped_and_run_once_it_is_there(self) -> None:
        config = self.config("absent_a", UNIFORM)

        self.run_config(config)
        lines = self.records.read_text()
        self.run_config(config)

        self.assertEqual(self.statuses(), {"skipped": 2, "ok": 2})
        self.assertIn("there is no matrix 'absent_a'", records_in(self.records)[0]["reason"])
        self.assertEqual(self.records.read_text(), lines, "the same reason is told once")
        (self.folder / "absent_a.mtx").write_text(
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1.5\n")
        self.assertIn("2 run now, 4 ok", self.run_config(config).stderr)

    def plant(self, **fields: Any) -> None:
        """Changes the first record."""
        lines = self.records.read_text().splitlines()
        lines[1] = json.dumps({**json.loads(lines[1]), **fields})
        self.records.write_text("\n".join(lines) + "\n")

    def test_rerun_chooses_by_status(self) -> None:
        config = self.config(UNIFORM)
        for status, rerun, ran, code in (("failed", "failed", 1, 0), ("timeout", "failed", 1, 0),
                                         ("oom", "failed", 1, 0), ("wrong", "failed", 0, 4),
                                         ("wrong", "wrong", 1, 0), ("failed", "wrong", 0, 3),
                                         ("failed", "wrong,failed", 1, 0), ("ok", "all", 2, 0)):
            with self.subTest(status=status, rerun=rerun):
                shutil.rmtree(self.out, ignore_errors=True)
                self.run_config(config)
                self.plant(status=status, reason="planted")
                done = self.run_config(config, "--rerun", rerun, code=code)
                self.assertIn(f"c: {ran} run now", done.stderr)

    def test_wrong_numbers_end_with_4_before_anything_else(self) -> None:
        config = self.config(UNIFORM)
        self.run_config(config)
        self.plant(status="wrong", reason="planted")

        self.assertIn("1 ok, 1 wrong", self.run_config(config, code=4).stderr)

    def test_a_record_file_that_is_damaged_in_the_middle_is_an_error_with_its_place(self) -> None:
        config = self.config(UNIFORM)
        self.run_config(config)
        lines = self.records.read_text().splitlines()
        self.records.write_text("\n".join([lines[0], lines[1][:40], lines[2]]) + "\n")

        self.assertIn("records.jsonl:2: ", self.run_config(config, code=2).stderr)


class ExitCodeTest(ProgramTest):
    """The codes that scripts go by."""

    def test_2_is_for_what_was_asked_wrongly(self) -> None:
        config = self.config(UNIFORM)
        for arguments in ((), ("nonsense",), ("run",), ("run", "absent.toml"), ("run", "quickstrat"),
                          ("run", config, "--set", "grid.n=0"), ("run", config, "--rerun", "some"),
                          ("run", config, "--backend", "emulat"), ("run", config, "--jobs", "0"),
                          ("list", "kernel"), ("matrix",), ("matrix", "info", "absent_a"),
                          ("multiply", "absent_a", "--kernel", "csr_spmm"),
                          ("multiply", UNIFORM, "--kernel", "csr_spnm"),
                          ("reorder", UNIFORM, "--with", "rmc"), ("pack", UNIFORM, "--format", "cs"),
                          ("point", "--json", "{"), ("point", "--json", "[1]"),
                          ("merge", "absent", "--out", "m"), ("status", "absent.toml"),
                          ("figure", config)):
            with self.subTest(arguments=arguments):
                done = self.tessera(*arguments, code=2)
                self.assertEqual(done.stdout, "")
                self.assertNotEqual(done.stderr, "")
                self.assertNotIn("json.exception", done.stderr)

    def test_5_is_for_what_this_machine_or_the_program_has_not(self) -> None:
        asked = self.tessera("multiply", UNIFORM, "--kernel", "cusparse", code=5)
        self.assertIn("skipped", asked.stdout)
        if machine()["backends"]["gpu"] != "works":
            config = self.config(UNIFORM)
            done = self.run_config(config, "--require", "gpu", code=5)
            self.assertIn("backend gpu is required", done.stderr)
            self.assertFalse(self.out.exists())
            self.run_config(config, "--backend", "gpu")
            self.assertEqual(self.statuses(), {"skipped": 2})

    def test_6_is_for_an_expectation_that_is_not_met(self) -> None:
        expect = ('[[expect]]\nname = "fill"\nsource = "Table 9"\ncolumn = "nnz"\n'
                  'statistic = "max"\ntrend = "{}"\nvalue = 300\n')

        met = self.run_config(self.config(UNIFORM, rest=expect.format("at_most")))
        missed = self.run_config(self.config(UNIFORM, rest=expect.format("at_least")), "--set",
                                 "expect.0.value=301", code=6)

        self.assertRegex(met.stderr, "fill: .*: met")
        self.assertRegex(missed.stderr, "fill: .*: NOT met")

    def test_the_worst_of_several_configs_counts(self) -> None:
        good = self.config(UNIFORM)
        bad = self.folder / "bad.toml"
        (self.folder / "a.mtx").write_text("no matrix\n")
        bad.write_text(Path(good).read_text().replace('id = "c"', 'id = "bad"')
                       .replace(UNIFORM, "a.mtx"))

        self.tessera("run", str(bad), good, code=3)

        self.assertEqual(len(records_in(self.folder / "out" / "c" / "records.jsonl")), 2)
        self.assertEqual(len(records_in(self.folder / "out" / "bad" / "records.jsonl")), 2)


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
        self.assertIn("0 run now, 4 ok", self.tessera("run", config, "--out", str(one.parent /
                      "taken"), "--dry-run").stdout + self.taken(config, one))

    def taken(self, config: str, records: Path) -> str:
        """Messages of a run that finds these records."""
        folder = self.folder / "taken"
        folder.mkdir()
        shutil.copy(records, folder / "records.jsonl")
        return self.tessera("run", config, "--out", str(folder)).stderr

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

        self.assertEqual(found, {"experiment": "c", "points": 6, "left": 2,
                                 "by_status": {"ok": 2, "skipped": 2}})
        self.assertEqual([line.split() for line in text.splitlines()],
                         [["2", "ok"], ["2", "skipped"], ["2", "left", "of", "6"]])
        self.assertEqual((nothing["left"], nothing["by_status"]), (6, {}))


def python_draws() -> bool:
    """Whether the Python of the figures has matplotlib."""
    python = os.environ.get("TESSERA_PYTHON", "/usr/bin/python3")
    return subprocess.run([python, "-c", "import matplotlib"], capture_output=True,
                          check=False).returncode == 0


class FigureTest(ProgramTest):
    """tessera figure."""

    REST = "".join(f'[[figure]]\nid = "{name}"\nkind = "bars"\nx = "matrix"\ny = "gflops"\n'
                   'series = "kernel"\nwhere = { n = 4 }\n' for name in ("one", "two"))

    @unittest.skipUnless(python_draws(), "there is no Python with matplotlib")
    def test_figures_are_drawn_from_the_records_with_the_data_behind_them(self) -> None:
        config = self.config(UNIFORM, RMAT, backends='"model"', rest=self.REST)
        self.run_config(config)

        drawn = self.tessera("figure", config, "--out", str(self.out), "--only", "two")

        self.assertEqual(drawn.stdout.splitlines(),
                         [str(self.out / "two.pdf"), str(self.out / "two.png")])
        self.assertTrue((self.out / "two.pdf").read_bytes().startswith(b"%PDF"))
        self.assertTrue((self.out / "two.png").read_bytes().startswith(b"\x89PNG"))
        data = json.loads((self.out / "two.json").read_text())
        self.assertEqual([series["origin"] for series in data["series"]], ["modelled"])
        self.assertEqual(len((self.out / "two.csv").read_text().splitlines()), 1 + 2)
        self.assertFalse((self.out / "one.pdf").exists())

    def test_a_figure_that_cannot_be_drawn_is_an_error(self) -> None:
        config = self.config(UNIFORM, backends='"model"', rest=self.REST)

        absent = self.tessera("figure", config, "--out", str(self.out), code=2)
        self.run_config(config)
        unknown = self.tessera("figure", config, "--out", str(self.out), "--only", "tow",
                               code=2)
        empty = self.tessera("figure", config, "--out", str(self.out), "--set",
                             "figure.0.where.n=5", "--only", "one", code=2)

        self.assertIn("no such record file or folder", absent.stderr)
        self.assertIn("did you mean 'two'", unknown.stderr)
        self.assertIn("figure 'one' has no rows", empty.stderr)


class MatrixTest(ProgramTest):
    """tessera matrix."""

    def test_info_tells_the_same_of_a_matrix_in_every_file_format(self) -> None:
        [generated] = self.json_of("matrix", "info", POISSON, "--json")
        self.assertEqual((generated["rows"], generated["cols"]), (63, 63))
        self.assertTrue(generated["synthetic"])

        for ending in ("mtx", "mtx.gz", "npz"):
            with self.subTest(ending=ending):
                file = self.folder / f"p.{ending}"
                self.tessera("matrix", "generate", POISSON, str(file))
                [read] = self.json_of("matrix", "info", str(file), "--json")
                self.assertEqual(read["hash"], generated["hash"])
                self.assertFalse(read["synthetic"])
        self.assertIn("63", self.tessera("matrix", "info", POISSON, RMAT).stdout)
        self.assertIn("not a generator", self.tessera("matrix", "generate", "p.mtx", "q.mtx",
                                                      code=2).stderr)

    def test_convert_keeps_the_content_and_refuses_endings_it_does_not_know(self) -> None:
        self.tessera("matrix", "generate", RMAT, "r.mtx")

        self.tessera("matrix", "convert", "r.mtx", "r.npz")

        before, after = self.json_of("matrix", "info", "r.mtx", "r.npz", "--json")
        self.assertEqual(before["hash"], after["hash"])
        self.tessera("matrix", "convert", "r.mtx", "r.xyz", code=2)

    def test_an_order_is_written_and_applied(self) -> None:
        self.tessera("matrix", "generate", f"shuffle(of={POISSON})", "s.mtx")
        for file in ("order.txt", "order.npy"):
            with self.subTest(file=file):
                told = self.json_of("reorder", "s.mtx", "--with", "rcm", "--out", file, "--json")

                [info] = self.json_of("matrix", "info", "s.mtx", "--apply", file, "--symmetric",
                                      "--json")

                self.assertEqual(info["bandwidth"], told["after"]["bandwidth"])
                self.assertLess(told["after"]["bandwidth"], told["before"]["bandwidth"])
        order = [int(line) for line in (self.folder / "order.txt").read_text().split()]
        self.assertEqual(sorted(order), list(range(63)))
        (self.folder / "short.txt").write_text("0\n1\n")
        self.tessera("matrix", "info", "s.mtx", "--apply", "short.txt", code=2)

    def test_verify_knows_right_from_wrong(self) -> None:
        self.tessera("matrix", "generate", RMAT, "r.mtx")
        [info] = self.json_of("matrix", "info", "r.mtx", "--json")

        right = self.tessera("matrix", "verify", "r.mtx", "--hash", info["hash"]).stdout
        wrong = self.tessera("matrix", "verify", "r.mtx", "--hash", "0" * 32, code=4).stdout

        self.assertTrue(right.endswith(": right\n"))
        self.assertIn("WRONG", wrong)

    def test_fetch_says_what_it_cannot_do(self) -> None:
        for name, mirror in (("bcsstk17", "http://127.0.0.1:9"), ("HB/bcsstk17",
                                                                  "http://127.0.0.1:9")):
            with self.subTest(name=name):
                done = self.tessera("matrix", "fetch", name, "--mirror", mirror, code=2)
                self.assertIn("bcsstk17", done.stderr)


class OneShotTest(ProgramTest):
    """Verbs that answer one question."""

    def test_reorder_tells_before_and_after(self) -> None:
        told = self.json_of("reorder", RMAT, "--with", "degree", "--json")

        self.assertEqual(set(told["before"]), set(told["after"]))
        self.assertGreater(told["before"]["mean_nnz_tc_8x8"], 0)
        self.assertGreaterEqual(told["reorder_s"], 0)
        self.assertIn("rmat", self.tessera("reorder", RMAT, "--with", "none").stdout)
        self.assertIn("does not move columns",
                      self.tessera("reorder", RMAT, "--with", "none", "--out-cols", "c.txt",
                                   code=2).stderr)

    def test_pack_adds_up(self) -> None:
        for name in ("csr", "bit_tcf"):
            with self.subTest(format=name):
                told = self.json_of("pack", RMAT, "--format", name, "--json")

                self.assertTrue(told["round_trip_exact"])
                self.assertEqual(told["footprint_bytes"],
                                 sum(array["bytes"] for array in told["arrays"]))
        self.assertIn("round trip exact",
                      self.tessera("pack", RMAT, "--format", "csr", "--reorder", "rcm").stdout)

    def test_multiply_checks_its_product_and_writes_it(self) -> None:
        record = self.json_of("multiply", RMAT, "--kernel", "acc_spmm", "--n", "8", "--reorder",
                              "degree", "--set", "rounding=raw", "--out", "c.npy", "--json")
        text = self.tessera("multiply", RMAT, "--kernel", "acc_spmm", "--n", "8").stdout
        again = self.json_of("multiply", RMAT, "--kernel", "csr_spmm", "--b", "c.npy", "--json")
        model = self.json_of("multiply", RMAT, "--kernel", "csr_spmm", "--backend", "model",
                             "--device", "a100-80gb", "--json")

        self.assertEqual(record["status"], "ok")
        self.assertEqual(record["params"]["kernel"], {"name": "acc_spmm", "rounding": "raw"})
        self.assertLessEqual(record["check"]["bound_ratio"], 1)
        self.assertIn("worst element", text)
        self.assertEqual(again["params"]["n"], 8)
        self.assertEqual(model["origin"], "modelled")
        self.assertGreater(model["gflops"], 0)
        self.assertEqual((self.folder / "c.npy").read_bytes()[:6], b"\x93NUMPY")
        self.assertEqual(self.json_of("multiply", UNIFORM, "--kernel", "csr_spmm", "--b", "c.npy",
                                      "--json", code=3)["status"], "failed")

    def test_list_knows_everything_with_a_name(self) -> None:
        expected = {"formats": "bit_tcf", "reorderings": "rcm", "kernels": "acc_spmm",
                    "models": "roofline", "devices": "h200", "generators": "rmat",
                    "experiments": "quickstart", "backends": "emulate", "columns": "gflops",
                    "files": None}
        for kind, name in expected.items():
            with self.subTest(kind=kind):
                items = self.json_of("list", kind, "--json")
                self.assertTrue(all(item["summary"] for item in items))
                names = [item["name"] for item in items]
                self.assertEqual(len(set(names)), len(names))
                if name:
                    self.assertIn(name, names)
                text = self.tessera("list", kind).stdout
                self.assertTrue(all(item in text for item in names))

    def test_doctor_tells_what_is_missing_and_what_that_disables(self) -> None:
        found = machine()
        text = self.tessera("doctor")

        self.assertEqual(found["backends"]["emulate"], "works")
        self.assertTrue(found["machine"]["host"]["available"])
        for tool in found["tools"]:
            self.assertTrue(tool["disables"])
            self.assertIn(tool["name"], text.stdout)
        self.assertEqual(text.stderr, "")

    def test_every_verb_has_help(self) -> None:
        verbs = re.findall(r"^  (\w+) +\S", self.tessera("--help").stdout.split("ommands:")[1],
                           re.MULTILINE)
        self.assertEqual(sorted(verbs), ["doctor", "figure", "list", "matrix", "merge", "multiply",
                                         "pack", "plan", "point", "reorder", "run", "status"])
        calls = [(verb,) for verb in verbs]
        calls += [("matrix", name) for name in ("info", "convert", "generate", "verify", "fetch")]
        for call in calls:
            with self.subTest(call=call):
                done = self.tessera(*call, "--help")
                self.assertIn("--help", done.stdout)
                self.assertEqual(done.stderr, "")
        self.assertRegex(self.tessera("--version").stdout, r"^tessera \d+\.\d+")


if __name__ == "__main__":
    unittest.main()
