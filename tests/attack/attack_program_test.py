"""tessera_attack goes on where it was, counts every case once, and says what is wrong with a call."""

import json
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from program import BINARY

ATTACK = pathlib.Path(BINARY).with_name("tessera_attack")
CASES = pathlib.Path(__file__).with_name("cases")


def attack(*args: object) -> subprocess.CompletedProcess:
    """Runs the program on the arguments."""
    return subprocess.run([ATTACK, *map(str, args)], capture_output=True, text=True, check=False)


class AttackProgram(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_to(self, seed: int, state: str) -> dict:
        done = attack("--from", 5, "--to", seed, "--state", self.folder / state,
                      "--failures", self.folder / "failures")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads((self.folder / state).read_text())

    def test_two_runs_of_one_state_count_what_one_run_counts(self) -> None:
        first = self.run_to(40, "parts")
        self.assertEqual(first["next"], 40)
        self.assertEqual(self.run_to(100, "parts"), self.run_to(100, "whole"))
        self.assertFalse((self.folder / "failures").exists())

    def test_a_state_of_another_run_is_refused_and_left_as_it_is(self) -> None:
        before = self.run_to(10, "state")
        refused = attack("--from", 6, "--state", self.folder / "state")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("its run began at seed 5, not at 6", refused.stderr)
        self.assertEqual(json.loads((self.folder / "state").read_text()), before)

    def test_a_time_limit_ends_a_run(self) -> None:
        done = attack("--max-seconds", 0.2)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("all ", done.stdout)

    def test_a_crash_names_the_seed_that_repeats_it(self) -> None:
        run = subprocess.Popen([ATTACK, "--from", "50", "--max-seconds", "60", "--state",
                                self.folder / "state"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
        while not (self.folder / "state").exists():
            time.sleep(0.05)
        run.send_signal(signal.SIGSEGV)
        said = run.communicate()[1]
        self.assertEqual(run.returncode, -signal.SIGSEGV)
        self.assertRegex(said, r"crashed: --case \d+\n")

    def test_one_seed_and_one_saved_case_are_repeated(self) -> None:
        self.assertIn("right", attack("--case", 7).stdout)
        for case in sorted(CASES.glob("*.json")):
            self.assertIn("right", attack("--replay", case).stdout)
        broken = self.folder / "broken.json"
        broken.write_text("{")
        refused = attack("--replay", broken)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("broken.json", refused.stderr)


if __name__ == "__main__":
    unittest.main()
