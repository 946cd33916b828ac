"""The committed inputs of every fuzz target pass, a few seconds of fuzzing find nothing, and planted
faults are found: a fuzzer that cannot fail would say nothing.
"""

import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from program import BINARY

HERE = pathlib.Path(__file__).resolve().parent
FUZZERS = BINARY.parent / "tessera_fuzz"
PLANTED = BINARY.parent / "tessera_fuzz_planted"
SECONDS = 1  # of each target


def run(*arguments, program=FUZZERS):
    """Runs tests/fuzz/run with a corpus of its own."""
    with tempfile.TemporaryDirectory() as corpus:
        return subprocess.run([sys.executable, "-B", HERE / "run", "--program", program, "--jobs", "2",
                               "--corpus", corpus, *arguments],
                              capture_output=True, text=True)  # fmt: skip


def listed(kind):
    """The registered names."""
    done = subprocess.run([BINARY, "list", kind, "--json"], capture_output=True, text=True, check=True)
    return [item["name"] for item in json.loads(done.stdout)]


class FuzzTest(unittest.TestCase):
    def test_the_committed_inputs_pass_and_so_does_a_moment_of_fuzzing(self):
        done = run("--seconds", str(SECONDS))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        counts = [int(n) for n in re.findall(r": (\d+) executions in", done.stdout)]
        self.assertGreater(len(counts), 20, done.stdout)
        self.assertGreater(min(counts), 10, done.stdout)

    def test_every_registered_reader_and_format_is_a_target(self):
        known = run("--list").stdout.split()
        for prefix, kind in (("read.", "files"), ("pack.", "formats")):
            names = listed(kind)
            self.assertGreater(len(names), 4)
            for name in names:
                self.assertIn(prefix + name, known)

    def test_the_committed_inputs_belong_to_targets_and_are_small(self):
        known = run("--list").stdout.split()
        files = list((HERE / "corpus").glob("*/*"))
        self.assertGreater(len(files), 40)
        for file in files:
            self.assertTrue(any(name.split(".")[0] == file.parent.name for name in known)
                            or file.parent.name in known, file)  # fmt: skip
            self.assertLess(file.stat().st_size, 4096, file)

    def test_a_table_counts_the_executions_of_all_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "fuzzed.csv"
            counts = []
            for targets in (["read.smtx"], ["read.smtx", "read.metis"]):
                done = run("--seconds", "1", "--table", table, *targets)
                counts += re.findall(r"(read\.\w+): (\d+) executions in", done.stdout)
            with table.open(newline="") as file:
                rows = {row["target"]: row for row in csv.DictReader(file)}
        self.assertEqual(sorted(rows), ["read.metis", "read.smtx"])
        for target, row in rows.items():
            self.assertEqual(int(row["executions"]), sum(int(n) for name, n in counts if name == target))
            self.assertEqual(row["findings"], "0")
        self.assertGreater(float(rows["read.smtx"]["seconds"]), 1.9)

    def test_planted_faults_are_found_and_repeat(self):
        faults = {"crash": "heap-buffer-overflow", "exception": "no Error: planted",
                  "hang": "planted_hang-timeout-", "memory": "planted_memory-(memory|oom)-", "invalid": "invalid matrix"}  # fmt: skip
        with tempfile.TemporaryDirectory() as corpus:
            done = subprocess.run([sys.executable, "-B", HERE / "run", "--program", PLANTED, "--jobs", "2",
                                   "--corpus", corpus, "--seconds", "150", "--timeout", "5",
                                   "--memory", "500",
                                   "read.planted_*"], capture_output=True, text=True)  # fmt: skip
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("5 with a finding", done.stdout)
            for fault, words in faults.items():
                self.assertIn(f"read.planted_{fault}: ", done.stdout)
                self.assertRegex(done.stdout, words)
            crash = re.search(r"repeat: (.* --target=read\.planted_crash (\S+))", done.stdout)
            self.assertTrue(pathlib.Path(crash[2]).read_bytes().startswith(b"BUG!"))
            again = subprocess.run(crash[1].split(), capture_output=True, text=True, cwd=corpus)
            self.assertNotEqual(again.returncode, 0)
            self.assertIn("heap-buffer-overflow", again.stderr)


if __name__ == "__main__":
    if not FUZZERS.exists():
        print("skipped: tessera_fuzz is not built; it needs the address sanitizer of a compiler")
        sys.exit(77)
    unittest.main()
