"""Tests of runs that are killed or interrupted, and of points that end badly.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/run/broken_runs_test.py`. Matrices are
generated; all files go to a temporary folder.
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path
from typing import Any

from program import (
    BINARY,
    UNIFORM,
    ProgramTest,
    children_of,
    machine,
    records_in,
    results,
    wait_for,
)

# Many seconds of work at SLOW_N columns of B, next to nothing at few.
SLOW = "uniform(rows=3000, density=0.3)"
SLOW_N = 8192


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

    def test_a_run_whose_worker_and_which_itself_is_killed_goes_on(self) -> None:
        matrices = [f"uniform(rows={rows})" for rows in range(1500, 1506)]
        config = self.config(*matrices, n=list(range(100, 110)), kernels='"csr_spmm", "acc_spmm"')
        process = self.start("run", config, "--out", str(self.out), "--gpus", "1")
        wait_for(lambda: len(records_in(self.records)) >= 5, "5 records")
        workers = children_of(process.pid)
        os.kill(workers[0], signal.SIGKILL)
        wait_for(lambda: children_of(process.pid) not in ([], workers) or process.poll() is not None,
                 "another worker")
        again = len(records_in(self.records))
        wait_for(lambda: len(records_in(self.records)) >= min(again + 5, 120), "its records")
        process.kill()
        process.wait()
        kept = records_in(self.records)

        done = self.run_config(config, "--gpus", "1", "--rerun", "failed")

        self.assertEqual(len(workers), 1)
        # Of the points that its lanes worked on, none is lost, and at most one is blamed.
        self.assertLessEqual(sum(record["status"] != "ok" for record in kept), 1)
        last = {record["params_hash"]: record["status"] for record in records_in(self.records)}
        self.assertEqual(list(last.values()), ["ok"] * 120)
        tried = [record["params_hash"] for record in records_in(self.records)
                 if record["status"] == "ok"]
        self.assertEqual(len(set(tried)), len(tried), done.stderr)

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
        self.assertEqual(
            found[60_000_000]["reason"],
            "this machine has too little memory for a dense matrix of 50 x 60000000",
        )

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

    def test_the_end_of_its_time_stops_a_run_within_a_point_which_is_left(self) -> None:
        config = self.slow_config(600)
        self.tessera("matrix", "info", SLOW)

        began = time.monotonic()
        done = self.run_config(config, "--max-seconds", "3")
        took = time.monotonic() - began

        self.assertEqual({n: one["status"] for n, one in self.by_n().items()}, {1: "ok"})
        self.assertIn("c: 1 run now, 1 ok, 2 left", done.stderr)
        self.assertIn("c: stopped after 3.0 s; the same command continues", done.stderr)
        self.assertLess(took, 10)
        self.assertIn("1 ok, 2 left", self.run_config(config, "--max-seconds", "1").stderr)

    def test_a_matrix_that_is_absent_is_skipped_and_run_once_it_is_there(self) -> None:
        config = self.config("absent_a", UNIFORM)

        self.run_config(config)
        lines = self.records.read_text()
        self.run_config(config)

        self.assertEqual(self.statuses(), {"skipped": 2, "ok": 2})
        self.assertIn("there is no matrix 'absent_a'", records_in(self.records)[0]["reason"])
        self.assertEqual(self.records.read_text(), lines, "the same reason is recorded once")
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


if __name__ == "__main__":
    unittest.main()
