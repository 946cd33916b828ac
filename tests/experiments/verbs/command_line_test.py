"""Tests of the command line itself: misspelt names, plain errors, help, colours, a full disk.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3
tests/experiments/verbs/command_line_test.py`.
"""

import os
import pty
import re
import subprocess
import unittest
from pathlib import Path

from program import BINARY, POISSON, RMAT, ProgramTest

RED = "\033[1;31m"


class CommandLineTest(ProgramTest):
    """What every verb shares."""

    def verbs(self) -> list[str]:
        """Every verb, as --help lists them."""
        text = self.tessera("--help").stdout.split("\nCommands:\n")[1].split("\n\n")[0]
        return re.findall(r"^  (\w+)", text, re.MULTILINE)

    def test_a_misspelt_name_is_answered_with_the_nearest_one(self) -> None:
        for words, message, helpful in (
                (["mutiply"], "unknown verb 'mutiply', did you mean 'multiply'", "tessera --help"),
                (["multiply", RMAT, "--kernal", "csr_spmm"],
                 "unknown option '--kernal', did you mean '--kernel'?", "tessera multiply --help"),
                (["multiply", RMAT, "--kernal=csr_spmm"], "did you mean '--kernel'?",
                 "tessera multiply --help"),
                (["pack", "-format", "csr", RMAT], "did you mean '--format'?",
                 "tessera pack --help"),
                (["matrix", "inof", RMAT], "unknown command 'inof', did you mean 'info'",
                 "tessera matrix --help"),
                (["matrix", "info", RMAT, "--jsno"], "did you mean '--json'?",
                 "tessera matrix info --help"),
                (["list", "kernles"], "did you mean 'kernels'", "tessera list --help"),
                (["run", "quickstart", "--rerun", "faild"], "did you mean 'failed'",
                 "tessera run --help")):
            with self.subTest(words=words):
                done = self.tessera(*words, code=2)
                error, hint = done.stderr.splitlines()
                self.assertTrue(error.startswith("error: "), error)
                self.assertIn(message, error)
                self.assertEqual(hint, f"see `{helpful}`")
                self.assertEqual(done.stdout, "")

    def test_every_verb_answers_a_misspelt_option(self) -> None:
        for verb in self.verbs():
            with self.subTest(verb=verb):
                done = self.tessera(verb, "--hepl", code=2)
                self.assertIn("unknown option '--hepl', did you mean '--help'?", done.stderr)

    def test_what_is_unlike_every_name_gets_no_suggestion(self) -> None:
        self.assertNotIn("did you mean", self.tessera("quux", code=2).stderr)
        self.assertNotIn("did you mean", self.tessera("pack", "-x", code=2).stderr)

    def test_wrong_values_and_missing_ones_are_one_plain_line(self) -> None:
        for words, message in (
                (["multiply", RMAT, "--n", "0"], "--n: expected a positive number, not '0'"),
                (["multiply", RMAT, "--n", "-4"], "--n: expected a positive number, not '-4'"),
                (["multiply", RMAT, "--n", "many"], "--n: expected a whole number, not 'many'"),
                (["multiply", RMAT, "--n", "9" * 30], f"--n: {'9' * 30} is too large"),
                (["run", "quickstart", "--max-seconds", "nan"],
                 "--max-seconds: expected a finite number, not 'nan'"),
                (["run", "quickstart", "--max-seconds", "inf"],
                 "--max-seconds: expected a finite number, not 'inf'"),
                (["advise", RMAT, "--max-seconds=-nan"], "expected a finite number, not '-nan'"),
                (["multiply", RMAT, "--seed", "-1"], "expected a whole number, not negative"),
                (["multiply", RMAT, "--n"], "--n needs a value"),
                (["multiply", RMAT, "--n", "4", "--n", "8"], "--n is given more than once"),
                (["multiply"], "MATRIX is missing"),
                (["pack", RMAT], "--format FORMAT is missing"),
                (["pack", RMAT, "more", "--format", "csr"], "'more' is one argument too many"),
                (["matrix"], "a command is missing"),
                ([], "a command is missing"),
                (["validate", "--outputs", "0"], "expected a number from 1 to 1e+15, not '0'")):
            with self.subTest(words=words):
                done = self.tessera(*words, code=2)
                self.assertIn(message, done.stderr.splitlines()[0])
                self.assertEqual(len(done.stderr.splitlines()), 2)

    def test_every_help_has_a_summary_a_usage_and_an_example(self) -> None:
        calls = [[verb] for verb in self.verbs()]
        calls += [["matrix", name] for name in ("info", "convert", "generate", "verify", "fetch")]
        calls += [["counters", name] for name in ("check", "list")]
        for call in calls:
            with self.subTest(call=call):
                text = self.tessera(*call, "--help").stdout
                name = " ".join(call)
                self.assertRegex(text, rf"\Atessera {name}: \S")
                self.assertIn(f"\nUsage: tessera {name}", text)
                self.assertTrue("\nExamples:\n    " in text or "\nCommands:\n" in text)
                self.assertLessEqual(max(map(len, text.split("\nExamples:")[0].splitlines())), 100)

    def test_help_tells_defaults_and_choices(self) -> None:
        text = " ".join(self.tessera("multiply", "--help").stdout.split())
        self.assertIn("--device DEVICE described device, for every backend but gpu (default h200)",
                      text)
        self.assertIn("--seed SEED seed of drawn values (default 42)", text)
        self.assertIn("backends, ", self.tessera("list", "--help").stdout)

    def test_a_full_disk_is_noticed(self) -> None:
        for words in (["list", "kernels"], ["--help"], ["matrix", "info", POISSON, "--json"]):
            with self.subTest(words=words), open("/dev/full", "w") as full:
                done = subprocess.run([BINARY, *words], stdout=full, stderr=subprocess.PIPE,
                                      text=True, check=False, env=self.environment())
                self.assertEqual(done.returncode, 3)
                self.assertIn("No space left on device", done.stderr)

    def test_a_closed_stdout_is_noticed_and_no_file_takes_its_place(self) -> None:
        config = self.config(RMAT, n=[4], rest='[table]\ncolumns = ["matrix"]')
        other = self.folder / "other.toml"
        other.write_text(Path(config).read_text(encoding="utf-8").replace('"c"', '"other"'))
        for words in (["list", "kernels"], ["--help"], ["plan", config],
                      ["run", config, str(other)]):
            with self.subTest(words=words):
                done = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', str(BINARY), *words],
                                      cwd=self.folder, stderr=subprocess.PIPE, text=True,
                                      check=False, env=self.environment())
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("cannot", done.stderr)
        # The table of the first experiment is no part of the records of the second.
        for name in (config, str(other)):
            self.assertIn("1 ok", self.tessera("status", name).stdout)

    def on_terminal(self, *words: str, **variables: str) -> str:
        """What the program writes to a terminal, colours included."""
        ours, theirs = pty.openpty()
        environment = {**self.environment(), "TERM": "xterm", **variables}
        for name in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
            if name not in variables:
                environment.pop(name, None)
        with subprocess.Popen([BINARY, *words], stdout=theirs, stderr=theirs, env=environment,
                              cwd=self.folder):
            os.close(theirs)
            text = b""
            try:
                while part := os.read(ours, 4096):
                    text += part
            except OSError:  # the terminal's other end is closed
                pass
        os.close(ours)
        return text.decode()

    def test_colours_are_for_terminals_and_can_be_refused_and_forced(self) -> None:
        self.assertIn(f"{RED}error:\033[0m unknown verb", self.on_terminal("mutiply"))
        for name, value in (("NO_COLOR", "1"), ("TERM", "dumb"), ("CLICOLOR", "0")):
            self.assertNotIn("\033[", self.on_terminal("mutiply", **{name: value}), name)
        self.assertNotIn("\033", self.tessera("mutiply", code=2).stderr)
        forced = subprocess.run([BINARY, "mutiply"], capture_output=True, text=True, check=False,
                                env={**self.environment(), "CLICOLOR_FORCE": "1", "NO_COLOR": ""})
        self.assertIn(RED, forced.stderr)
        product = self.on_terminal("multiply", RMAT, "--n", "4", "--kernel", "csr_spmm")
        self.assertIn("\033[32mok\033[0m", product)


class PlainAnswerTest(ProgramTest):
    """Requests that used to be answered with riddles."""

    def test_multiply_chooses_a_kernel_when_none_is_named(self) -> None:
        chosen = self.tessera("multiply", RMAT, "--n", "16").stdout
        named = self.json_of("multiply", RMAT, "--n", "16", "--kernel", "auto", "--json")

        [line] = [line for line in chosen.splitlines() if line.startswith("kernel ")]
        self.assertIn(named["advice"]["kernel"].partition("(")[0], line)
        self.assertRegex(line, r"[num]s predicted on h200: .*; runner-up ")
        self.assertIn(named["advice"]["reason"].partition(";")[0], line)

    def test_options_of_the_other_kind_of_product_are_refused(self) -> None:
        for words, message in (
                (["--kernel", "csr_spmm", "--right", "self"], "--right is of a sparse B; kernel "),
                (["--kernel", "csr_spgemm", "--n", "64"], "--n is of a dense B; kernel csr_spgemm")):
            done = self.tessera("multiply", POISSON, *words, code=2)
            self.assertIn(message, done.stderr)

    def test_a_product_of_extents_that_overflows_is_a_plain_error(self) -> None:
        for backend in ("emulate", "simulate", "model"):
            for kernel in ("csr_spmm", "auto"):
                with self.subTest(backend=backend, kernel=kernel):
                    record = self.json_of("multiply", RMAT, "--n", "9000000000000000000",
                                          "--backend", backend, "--kernel", kernel, "--json",
                                          code=3)
                    self.assertIn("64 x 9000000000000000000 fits no memory", record["reason"])
        self.assertIn("fits no memory", self.tessera(
            "timeline", RMAT, "--kernel", "csr_spmm", "--n", "9000000000000000000", code=2).stderr)

    def test_a_file_that_is_no_matrix_is_told_from_one_that_is_absent(self) -> None:
        (self.folder / "x.csv").write_text("a,b\n1,2\n")

        there = self.tessera("matrix", "info", "x.csv", code=2).stderr
        absent = self.tessera("matrix", "info", "y.csv", code=2).stderr

        self.assertIn("x.csv is a file that is not read as a matrix: its name ends in none of", there)
        self.assertIn(".mtx", there)
        self.assertIn("there is no matrix 'y.csv'", absent)

    def test_reorder_ends_after_a_time_limit_with_a_unit(self) -> None:
        mesh = "shuffle(of=poisson2d(nx=64, ny=64))"

        cut = self.json_of("reorder", mesh, "--time-limit", "0.001ms", "--fresh-orders", "--json")
        whole = self.json_of("reorder", mesh, "--time-limit", "5min", "--json")

        self.assertTrue(cut["reorder_cut_short"])
        self.assertEqual(cut["after"], cut["before"])
        self.assertFalse(whole.get("reorder_cut_short", False))
        self.assertLess(whole["after"]["tiles_8x8"], whole["before"]["tiles_8x8"])
        for time in ("3", "0s", "-2s", "nans", "3 hours"):
            with self.subTest(time=time):
                refused = self.tessera("reorder", mesh, f"--time-limit={time}", code=2)
                self.assertIn("write it as in 500ms", refused.stderr)
        twice = self.tessera("reorder", mesh, "--time-limit", "1s", "--set", "time_limit_s=1",
                             code=2)
        self.assertIn("give one of them", twice.stderr)

    def test_reorder_writes_the_matrix_or_says_what_out_takes(self) -> None:
        shuffled = f"shuffle(of={POISSON})"

        told = self.json_of("reorder", shuffled, "--with", "rcm", "--out", "o.mtx", "--json")
        [info] = self.json_of("matrix", "info", "o.mtx", "--json")
        refused = self.tessera("reorder", shuffled, "--out", "o.png", code=2)

        self.assertEqual(info["bandwidth"], told["after"]["bandwidth"])
        self.assertNotEqual(told["before"]["bandwidth"], told["after"]["bandwidth"])
        self.assertIn("neither like a permutation (.txt, .npy) nor like a matrix", refused.stderr)
        self.assertIn("a permutation is written to .txt or .npy",
                      self.tessera("reorder", shuffled, "--out-cols", "o.mtx", code=2).stderr)

    def test_simulated_numbers_have_sensible_digits_and_units(self) -> None:
        text = self.tessera("multiply", RMAT, "--n", "64", "--kernel", "acc_spmm", "--backend",
                            "simulate").stdout

        self.assertNotRegex(text, r"\d\.\d{5,}")
        self.assertNotRegex(text, r"\b0\.0+ ")
        self.assertRegex(text, r"dram__bytes_read\.sum +\d+ [kM]?B\n")
        self.assertRegex(text, r"gpu__time_duration\.sum +[\d.]+ [num]s\n")
        self.assertRegex(text, r"hit_rate\.pct +[\d.]+ %\n")
        self.assertIn("1 launch\n", text)
        exact = self.json_of("multiply", RMAT, "--n", "64", "--kernel", "acc_spmm", "--backend",
                             "simulate", "--json")
        self.assertNotEqual(exact["counters"]["gpu__time_duration.sum"] % 1, 0)

    def test_doctor_names_the_python_of_the_figures(self) -> None:
        python = self.json_of("doctor", "--json")["python"]
        text = self.tessera("doctor").stdout

        self.assertIn(f"python of figures  {python['used']}", text)
        for module in python.get("missing", []):
            self.assertIn(f"python {module['name']}", text)


if __name__ == "__main__":
    unittest.main()
