"""The commands of the README and of docs/ do as documented on a bare machine.

The short ones run here; `python3 docs/run_commands.py --long` also runs those that take minutes.
"""

import json
import sys
import tempfile
import time
import unittest
from pathlib import Path

from layers_test import ROOT

from program import BINARY

sys.path.insert(0, str(ROOT / "docs"))
import run_commands
from run_commands import Command, PageError

FENCE = "```"


def page(*blocks: tuple[str, str]) -> str:
    """A page of fenced blocks: (what stands behind the fence, lines)."""
    return "\n".join(f"{FENCE}{info}\n{text}\n{FENCE}\n" for info, text in blocks)


def faults(text: str, with_long: bool = False) -> list[str]:
    """What is wrong with each command of a page that is run."""
    return [result.fault for result in run_commands.run_page("p.md", text, BINARY, with_long)]


class BlocksTest(unittest.TestCase):
    def test_a_block_has_its_marks_and_its_commands(self) -> None:
        text = "words\n\n" + page(("sh long exit=6", "a \\\n  b\n\n# note\nc"), ("cpp", "d"),
                                  ("console", "$ e\nsays ...\n$ f"))  # fmt: skip
        first, second, third = run_commands.blocks("p.md", text)

        self.assertEqual((first.language, first.marks), ("sh", {"long": "", "exit": "6"}))
        self.assertEqual([(c.line, c.text, c.exit) for c in run_commands.commands(first)],
                         [(4, "a \\\n  b", 6), (7, "# note", 6), (8, "c", 6)])  # fmt: skip
        self.assertEqual([(c.text, c.prints) for c in run_commands.commands(third)],
                         [("e", ["says ..."]), ("f", [])])  # fmt: skip
        self.assertEqual([b.is_short() for b in (first, second, third)], [False, True, True])

    def test_an_unknown_mark_is_an_error_with_its_place(self) -> None:
        for mark in ("lnog", "exit=six", "needs=luck", "file="):
            with self.assertRaisesRegex(PageError, f"p.md:1: unknown mark '{mark.rstrip('=')}"):
                run_commands.blocks("p.md", page((f"sh {mark}", "a")))

    def test_a_command_outside_of_a_fence_is_an_error(self) -> None:
        with self.assertRaisesRegex(PageError, "p.md:2: a command outside of a fenced block"):
            run_commands.blocks("p.md", "text\n    build/tessera doctor\n")

    def test_expected_lines_are_found_in_order_with_dots_for_any_text(self) -> None:
        output = "status           ok\ntime   12.5 us, bound by L2\nlast\n"

        self.assertIsNone(run_commands.first_missing(["status ok", "time ... us, ...", "last"], output))
        self.assertEqual(run_commands.first_missing(["last", "status ok"], output), "status ok")
        self.assertEqual(run_commands.first_missing(["time ... ms"], output), "time ... ms")


class RunTest(unittest.TestCase):
    def test_commands_that_do_as_documented_have_no_fault(self) -> None:
        text = page(("toml file=sub/a.toml", "key = 1"), ("sh", "grep -q 'key = 1' sub/a.toml"),
                    ("sh exit=2", "build/tessera no_such_verb"),
                    ("console", "$ build/tessera --version\ntessera ..."))  # fmt: skip

        self.assertEqual(faults(text), ["", "", ""])

    def test_a_command_that_exits_otherwise_or_prints_otherwise_is_reported(self) -> None:
        text = page(("sh", "build/tessera no_such_verb"), ("sh exit=2", "true"),
                    ("console", "$ echo one\ntwo"))  # fmt: skip

        self.assertEqual(faults(text), ["it exited with 2, and 0 is documented",
                                        "it exited with 0, and 2 is documented",
                                        "it did not print: two"])  # fmt: skip

    def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            begun = Command("p.md", 1, "(sleep 2; touch late) & sleep 60", 0, [])
            late = run_commands.run(begun, Path(folder), 0.2)
            time.sleep(2.5)

            self.assertFalse((Path(folder) / "late").exists())
        self.assertEqual(late.fault, "it took more than 0.2 s")
        self.assertLess(late.seconds, 30)

    def test_long_blocks_run_when_asked_and_needs_never(self) -> None:
        text = page(("sh long", "true"), ("sh needs=gpu", "false"))

        self.assertEqual(faults(text), [])
        self.assertEqual(faults(text, with_long=True), [""])

    def test_the_machine_is_bare(self) -> None:
        text = page(("sh", 'test -z "$TESSERA_DATA$TESSERA_CACHE$CUDA_VISIBLE_DEVICES"'),
                    ("sh", 'test -z "$(ls -A "$HOME")" && test ! -e out && test -f README.md'))

        self.assertEqual(faults(text), ["", ""])

    def test_a_page_runs_in_the_whole_checkout_and_nothing_more(self) -> None:
        text = page(("sh", "test -x docs/build && test ! -e home && test ! -e out"))

        self.assertEqual(faults(text), [""])

    def test_what_commands_printed_is_kept(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            results = list(run_commands.run_page("p.md", page(("sh", "echo hello; exit 3")), BINARY))
            run_commands.keep(results, Path(folder))

            line = json.loads((Path(folder) / "commands.jsonl").read_text())
            self.assertEqual((line["page"], line["line"], line["exit"], line["output"]),
                             ("p.md", 2, 3, "hello\n"))  # fmt: skip
            self.assertIn("WRONG", (Path(folder) / "transcript.txt").read_text())


class PagesTest(unittest.TestCase):
    def test_the_short_commands_of_every_page_do_as_documented(self) -> None:
        ran = 0
        for name in run_commands.pages():
            text = (ROOT / name).read_text(encoding="utf-8")
            for result in run_commands.run_page(name, text, BINARY):
                ran += 1
                with self.subTest(page=name, line=result.line, command=result.command):
                    self.assertEqual(result.fault, "", f"\n{result.output[-2000:]}")
        self.assertGreater(ran, 30)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
