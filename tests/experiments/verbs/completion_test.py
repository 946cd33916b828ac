"""Tests of the shells' completion and of the manual pages.

Each shell that is installed is really started on a terminal, and the tab key pressed. Run with
`TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/verbs/completion_test.py`.
"""

import os
import pty
import select
import shutil
import subprocess
import time
import unittest
from pathlib import Path

from program import BINARY, ProgramTest


class WordsTest(ProgramTest):
    """What the program says may stand next."""

    def after(self, *words: str) -> list[str]:
        """The values offered for the last of the words."""
        lines = self.tessera("complete", "words", "--", *words).stdout.splitlines()
        return [line.partition("\t")[0] for line in lines]

    def test_verbs_and_commands_and_options_are_offered(self) -> None:
        self.assertEqual(self.after("mul"), ["multiply"])
        self.assertIn("run", self.after(""))
        self.assertEqual(self.after("matrix", "inf"), ["info"])
        self.assertEqual(self.after("multiply", "cora", "--ker"), ["--kernel"])
        self.assertIn("--help", self.after("matrix", "info", "--"))
        self.assertEqual(self.after("nonsense", "x"), [])

    def test_an_option_that_was_given_is_not_offered_again_unless_it_repeats(self) -> None:
        offered = self.after("multiply", "cora", "--kernel", "csr_spmm", "--set", "a=1", "--")
        self.assertNotIn("--kernel", offered)
        self.assertIn("--set", offered)

    def test_values_of_options_are_offered_by_every_verb(self) -> None:
        for words, value in ((["multiply", "m", "--kernel", "acc"], "acc_spmm"),
                             (["timeline", "m", "--kernel=acc"], "--kernel=acc_spmm"),
                             (["advise", "m", "--device", "h2"], "h200"),
                             (["pack", "m", "--format", "bit"], "bit_tcf"),
                             (["pack", "m", "--reorder", "rc"], "rcm"),
                             (["reorder", "m", "--with", "rc"], "rcm"),
                             (["run", "quickstart", "--backend", "emulate,mo"], "emulate,model"),
                             (["run", "quick"], "quickstart"),
                             (["run", "quickstart", "--rerun", "fa"], "failed"),
                             (["list", "kern"], "kernels"),
                             (["man", "mult"], "multiply"),
                             (["matrix", "fetch", "@real"], "@real_matrices"),
                             (["multiply", "m", "--kernel", "acc_spmm", "--set", "precision=tf32_"],
                              "precision=tf32_raw")):
            with self.subTest(words=words):
                self.assertIn(value, self.after(*words))
        self.assertEqual(self.after("multiply", "m", "--n", ""), [])

    def test_matrices_are_generators_names_and_files(self) -> None:
        (self.folder / "mine.mtx").write_text("%%MatrixMarket matrix coordinate real general\n"
                                              "1 1 1\n1 1 2\n")
        offered = self.after("multiply", "")
        self.assertIn("rmat", offered)
        self.assertIn("mine", offered)
        self.assertIn(":files", offered)
        self.assertEqual(self.after("multiply", "m", "too-many"), [])
        self.assertIn(":files", self.after("merge", "a", "b", ""))
        self.assertIn(":files", self.after("multiply", "m", "--out", ""))


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, arguments: list[str], environment: dict[str, str], folder: Path) -> None:
        child, self.end = pty.fork()
        if child == 0:
            os.chdir(folder)
            os.execvpe(arguments[0], arguments, environment)
        self.child = child
        self.text = ""

    def type(self, keys: str) -> None:
        """Presses keys."""
        os.write(self.end, keys.encode())

    def wait_for(self, part: str) -> str:
        """Reads until the text is on the screen; returns what was written since the last call."""
        limit = time.monotonic() + 60
        while part not in self.text:
            if time.monotonic() > limit:
                raise AssertionError(f"'{part}' does not appear in {self.text!r}")
            if select.select([self.end], [], [], 0.2)[0]:
                data = os.read(self.end, 4096).decode(errors="replace")
                self.text += data
                if "\033[6n" in data:  # fish asks for the place of the cursor
                    os.write(self.end, b"\033[1;1R")
                if "\033[0c" in data or "\033[c" in data:  # and for the kind of terminal
                    os.write(self.end, b"\033[?62;c")
        before, _, self.text = self.text.partition(part)
        return before + part

    def close(self) -> None:
        """Ends the shell."""
        os.close(self.end)
        os.waitpid(self.child, 0)


class ShellTest(ProgramTest):
    """The tab key in each shell."""

    STARTS = {
        "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(tessera complete bash)"'),
        "zsh": (["zsh", "-f", "-i"],
                'autoload -Uz compinit; compinit -u -d dump; eval "$(tessera complete zsh)"'),
        "fish": (["fish", "--no-config", "-i"], "tessera complete fish | source"),
    }

    def start(self, shell: str) -> Terminal:  # type: ignore[override]
        """The shell with the completion loaded."""
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed")
        command, load = self.STARTS[shell]
        environment = {**self.environment(), "PATH": f"{BINARY.resolve().parent}:{os.environ['PATH']}",
                       "TERM": "xterm" if shell == "fish" else "dumb", "HOME": str(self.folder),
                       "PS1": "> ", "COLUMNS": "200"}
        environment.pop("LS_COLORS", None)
        terminal = Terminal(command, environment, self.folder)
        self.addCleanup(terminal.close)
        terminal.type(f"{load}; echo lo''aded\n")
        terminal.wait_for("loaded")
        return terminal

    def check_shell(self, shell: str) -> None:
        """Words are completed where only one fits, values after = as well."""
        (self.folder / "a_file.toml").write_text("schema = 1\n")
        terminal = self.start(shell)
        for typed, completed in (("mult\t", "multiply "),
                                 ("multiply cora --kern\tacc_s\t", "--kernel acc_spmm "),
                                 ("multiply cora --kernel=acc_s\t", "--kernel=acc_spmm"),
                                 ("matrix fetch @real\t", "@real_matrices"),
                                 ("list micro\t", "microbenchmarks"),
                                 ("run a_fi\t", "a_file.toml")):
            with self.subTest(shell=shell, typed=typed):
                # The word is told apart from its echo: what was completed is printed by echo.
                terminal.type(f"tessera {typed}")
                time.sleep(1.0)
                terminal.type("\001echo '[' \005 ']'\n")
                shown = terminal.wait_for(" ]\r\n") if shell != "fish" else terminal.wait_for(" ]")
                self.assertIn(completed.strip(), shown)

    def test_bash_completes(self) -> None:
        self.check_shell("bash")

    def test_zsh_completes(self) -> None:
        self.check_shell("zsh")

    def test_fish_completes(self) -> None:
        self.check_shell("fish")


class ManualTest(ProgramTest):
    """The manual pages."""

    def pages(self) -> list[Path]:
        """All of them, written anew."""
        self.tessera("man", "--out", "man1")
        return sorted((self.folder / "man1").iterdir())

    def test_every_verb_has_a_page_that_says_what_help_says(self) -> None:
        names = {page.name for page in self.pages()}
        self.assertIn("tessera.1", names)
        self.assertIn("tessera-multiply.1", names)
        self.assertEqual(len(names), 1 + self.tessera("complete", "words", "--", "").stdout.count("\n"))
        page = self.tessera("man", "multiply").stdout
        self.assertIn("described device, for every backend but gpu (default h200)", page)
        self.assertIn("--kernel", page.replace("\\-", "-"))
        self.assertIn("did you mean 'multiply'", self.tessera("man", "mutiply", code=2).stderr)

    def test_man_reads_every_page_without_a_warning(self) -> None:
        if shutil.which("man") is None:
            self.skipTest("man is not installed")
        for page in self.pages():
            with self.subTest(page=page.name):
                done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z",
                                       str(page)], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_mandoc_finds_nothing_to_complain_of(self) -> None:
        if shutil.which("mandoc") is None:
            self.skipTest("mandoc is not installed")
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *map(str, self.pages())],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
