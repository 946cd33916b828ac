"""tests/sanitize_gpu runs every tool over every part once, keeps a table, and goes on where it was.

Run with `PYTHONPATH=tests python3 tests/project/sanitize_gpu_test.py`. Programs that stand in for
compute-sanitizer, the driver's tool and the build print what those print.
"""

import csv
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from layers_test import ROOT

KERNELS = ('[{"name": "good", "b": "dense"}, {"name": "bad", "b": "sparse"}, '
           '{"name": "hosted", "b": "sampled"}]')  # fmt: skip
# memcheck finds two errors in the kernel "bad", and the kernel "hosted" has no device half.
SANITIZER = """
case "$*" in
  *--tool=memcheck*--subcase=bad*) echo "ERROR SUMMARY: 2 errors"; status=99 ;;
  *--tool=racecheck*) echo "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" ;;
  *--subcase=slow*) sleep 30 & echo $! > "$0.child"; wait ;;
  *) echo "ERROR SUMMARY: 0 errors" ;;
esac
case "$*" in *--subcase=hosted*) count=0 ;; *) count=7 ;; esac
echo "[doctest] assertions: $count | $count passed | 0 failed |"
[ -e "$0.fails" ] && echo "[doctest] Status: FAILURE!" || echo "[doctest] Status: SUCCESS!"
echo "$*" >> "$0.calls"
echo "$CUDA_VISIBLE_DEVICES" >> "$0.gpus"
exit ${status:-0}
"""


def load_script():
    loader = importlib.machinery.SourceFileLoader("sanitize_gpu", str(ROOT / "tests/sanitize_gpu"))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(script)
    return script


class SanitizeGpuTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.table = self.folder / "table.csv"
        self.stand_in("compute-sanitizer", SANITIZER)
        self.stand_in("nvidia-smi", "echo NVIDIA H200")
        self.of_commit("0123456789ab")

    def stand_in(self, name, body):
        path = self.folder / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def of_commit(self, commit, kernels=KERNELS):
        self.stand_in("tessera", f"""
            case "$*" in
              "list kernels --json") echo '{kernels}' ;;
              "list formats --json") echo '[{{"name": "tiles"}}]' ;;
              --version) echo 'tessera 0.1.0 (commit {commit})' ;;
            esac""")

    def sanitize(self, *arguments, code=0):
        done = subprocess.run([sys.executable, "-B", ROOT / "tests/sanitize_gpu", "--tessera", self.folder / "tessera",
                               "--program", "tests", "--table", self.table, "--logs", self.folder / "logs", *arguments],
                              capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})  # fmt: skip
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def rows(self):
        with self.table.open(newline="") as file:
            return {(row["tool"], row["part"]): row for row in csv.DictReader(file)}

    def calls(self):
        path = self.folder / "compute-sanitizer.calls"
        return path.read_text().splitlines() if path.exists() else []

    def test_every_tool_has_a_row_for_every_part_with_its_commit(self):
        parts = self.sanitize("--list").stdout.split("\n")[:-1]
        done = self.sanitize(code=1)

        rows = self.rows()
        self.assertEqual(len(rows), 4 * len(parts))
        self.assertEqual(rows["memcheck", "bad: a hub"]["result"], "reported")
        self.assertEqual(rows["memcheck", "bad: a hub"]["errors"], "2")
        self.assertIn("2 errors", (self.folder / "logs" / "memcheck-bad_a_hub.log").read_text())
        self.assertEqual(rows["racecheck", "good"]["result"], "clean")
        self.assertEqual(rows["initcheck", "hosted"]["result"], "nothing to run")
        self.assertEqual({row["commit"] for row in rows.values()}, {"0123456789ab"})
        self.assertEqual({row["gpu"] for row in rows.values()}, {"NVIDIA H200"})
        self.assertIn(f"{len(rows)} runs of 0123456789ab, 2 with a report or without an end, 0 left", done.stdout)

    def test_runs_share_the_gpus_that_are_named(self):
        used = self.folder / "compute-sanitizer.gpus"
        self.sanitize("good", "--gpus", "1,3", "--jobs", "2")
        self.assertLessEqual(set(used.read_text().split()), {"1", "3"})
        used.unlink()
        self.of_commit("ba9876543210")
        self.sanitize("good", "--gpus", "5", "--jobs", "2")
        self.assertEqual(used.read_text().split(), ["5"] * 4)

    def test_parts_are_divided_by_subcases_and_formats_are_parts(self):
        self.sanitize("bad*", "pack*", "plan in order: a mesh*", "--tools", "synccheck", "--jobs", "1")
        chosen = [call.rpartition("--subcase=")[2] for call in self.calls()]
        self.assertEqual(chosen, ["bad,small factors", "bad,a hub", "tiles", "a mesh,narrow", "a mesh,wide"])
        self.assertIn(("synccheck", "pack: tiles"), self.rows())

    def test_what_no_commit_has_as_clean_runs_first_or_alone_and_parts_that_are_no_more_go(self):
        (self.folder / "compute-sanitizer.fails").touch()
        self.sanitize("plan", "--tools", "memcheck", code=1)
        (self.folder / "compute-sanitizer.fails").unlink()
        self.sanitize("good", "--tools", "memcheck", code=1)
        self.of_commit("ba9876543210", KERNELS.replace("hosted", "other"))
        (self.folder / "compute-sanitizer.calls").unlink()

        self.sanitize("other", "good", "plan", "--missing", "--tools", "memcheck", "--jobs", "1")
        self.assertEqual(["other" in call for call in self.calls()], [True, False])
        self.assertEqual(self.rows()["memcheck", "plan"]["result"], "clean")
        self.assertEqual(self.rows()["memcheck", "good"]["commit"], "0123456789ab")
        (self.folder / "compute-sanitizer.calls").unlink()
        self.sanitize("good", "rows of C", "plan", "--tools", "memcheck", "--jobs", "1")
        self.assertEqual(["rows are restored" in call for call in self.calls()], [True, False])
        self.of_commit("ba9876543210")
        self.sanitize("good", "--tools", "synccheck")
        self.assertNotIn(("memcheck", "other"), self.rows())

    def test_the_same_command_goes_on_and_another_commit_begins_anew(self):
        self.sanitize("good", "--tools", "memcheck")
        self.sanitize("good", "--tools", "memcheck,synccheck")
        self.assertEqual(len(self.calls()), 2)
        self.of_commit("ba9876543210+changes")
        self.sanitize("good", "--tools", "memcheck")
        self.assertEqual(len(self.calls()), 3)
        self.assertEqual(self.rows()["memcheck", "good"]["commit"], "ba9876543210+changes")
        self.assertEqual(self.rows()["synccheck", "good"]["commit"], "0123456789ab")

    def test_the_row_of_a_part_that_was_divided_counts_until_its_pieces_have_theirs(self):
        lines = ["tool,part,assertions,errors,result,seconds,commit,gpu,day"]
        lines += [f"{tool},bad,1,0,{result},1.0,000000000000,GPU,2026-11-27"
                  for tool, result in (("synccheck", "clean"), ("initcheck", "not finished in 60.0 s"))]  # fmt: skip
        self.table.write_text("\n".join([*lines, ""]))
        self.sanitize("bad*", "--missing", "--tools", "synccheck,initcheck", "--jobs", "1")
        self.assertEqual([call.rpartition("=")[2] for call in self.calls()], ["bad,small factors", "bad,a hub"])
        self.assertTrue(all("--tool=initcheck" in call for call in self.calls()))
        self.assertIn(("synccheck", "bad"), self.rows())
        self.assertNotIn(("initcheck", "bad"), self.rows())

        self.sanitize("--count", self.folder / "counts.csv")
        with (self.folder / "counts.csv").open(newline="") as file:
            counts = {row["tool"]: row for row in csv.DictReader(file)}
        parts = len(self.sanitize("--list").stdout.splitlines())
        self.assertEqual(counts["initcheck"], {"tool": "initcheck", "parts": str(parts), "clean": "2",
                                               "share": f"{2 / parts:.4f}"})  # fmt: skip
        self.assertEqual(counts["synccheck"]["clean"], "2")
        self.assertEqual(counts["racecheck"]["clean"], "0")

    def test_what_takes_too_long_is_told_and_what_the_time_does_not_allow_is_left(self):
        self.of_commit("0123456789ab", '[{"name": "slow", "b": "dense"}]')
        self.sanitize("slow", "--tools", "memcheck", "--timeout", "1", code=1)
        self.assertEqual(self.rows()["memcheck", "slow"]["result"], "not finished in 1.0 s")

        self.table.unlink()
        done = self.sanitize("slow", "--tools", "synccheck", "--max-seconds", "2", code=9)
        self.assertIn("1 left", done.stdout)
        self.assertFalse(self.table.exists())
        child = (self.folder / "compute-sanitizer.child").read_text().strip()
        stat = Path(f"/proc/{child}/stat")
        ended = not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"
        self.assertTrue(ended, "what the tool had started goes on")

    def test_a_test_that_fails_or_a_tool_that_says_nothing_is_not_clean(self):
        (self.folder / "compute-sanitizer.fails").touch()
        self.sanitize("good", "--tools", "memcheck", code=1)
        self.assertEqual(self.rows()["memcheck", "good"]["result"], "the test failed, exit code 0")
        self.stand_in("compute-sanitizer", "exit 3")
        self.sanitize("good", "--tools", "racecheck", code=1)
        self.assertEqual(self.rows()["racecheck", "good"]["result"], "no summary, exit code 3")

    def test_races_in_kernels_of_a_library_alone_are_told_and_count_as_none(self):
        def log(*kernels):
            races = [f"Warning: Race reported between Write access at void {kernel}<int>(const T5 *)+0x3e90\n"
                     f"    and Read access at void {kernel}<int>(const T5 *)+0x3f00 [7 hazards]" for kernel in kernels]  # fmt: skip
            return "\n".join([*races, f"RACECHECK SUMMARY: {len(kernels)} hazards displayed",
                              "[doctest] assertions: 24 | 24 passed", "[doctest] Status: SUCCESS!"])  # fmt: skip

        script = load_script()
        of_library = log("cusparse::values_kernel", "cublasLt::splitK")
        self.assertEqual(script.verdict(of_library, 99, "racecheck"), (24, 2, script.LIBRARY_ALONE))
        self.assertIn(script.LIBRARY_ALONE, script.GOOD)
        of_ours = log("cusparse::values_kernel", "tessera::rows_spmm::multiply")
        self.assertEqual(script.verdict(of_ours, 99, "racecheck"), (24, 2, "reported"))
        not_shown = of_library.replace("2 hazards displayed", "3 hazards displayed")
        self.assertEqual(script.verdict(not_shown, 99, "racecheck"), (24, 3, "reported"))

    def test_a_machine_without_a_gpu_and_a_name_that_is_none_are_refused(self):
        self.assertIn("no part is called nothing", self.sanitize("nothing", code=2).stderr)
        self.assertIn("no tool is called check", self.sanitize("--tools", "check", code=2).stderr)
        self.stand_in("nvidia-smi", "exit 9")
        self.assertIn("no GPU on this machine", self.sanitize(code=5).stderr)

    def test_every_test_that_it_names_is_one_of_the_device_tests(self):
        texts = "".join(path.read_text() for path in (ROOT / "tests").rglob("*_device_test.*"))
        script = load_script()
        tests = {script.OF_FORMATS: ()}
        for test, *levels in [*script.OF_KERNELS.values(), *script.OTHERS.values()]:
            tests[test] = [subcase for level in levels for subcase in level]
        self.assertGreater(len(tests), 10)
        for test, subcases in tests.items():
            self.assertIn(f'"{test.rstrip("*")}', texts)
            for subcase in subcases:
                self.assertIn(f'{{"{subcase}"', texts)


if __name__ == "__main__":
    unittest.main()
