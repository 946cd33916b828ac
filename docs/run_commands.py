"""Runs every command of README, CONTRIBUTING and docs/ as a newcomer would, and keeps what each printed.

    python3 docs/run_commands.py [--long] [--list] [--out FOLDER] [PAGE.md...]

A page runs in a copy of the checkout of its own, with an empty home, no $TESSERA_DATA and no GPU.
Fenced blocks say what they are behind their language:

    sh          commands, one a line; each has to exit with 0
    console     commands behind "$ ", and below each lines that it prints, "..." for any text
    file=PATH   the block is a file, which is written before the commands that follow
    exit=N      the commands of the block exit with N
    long        minutes: runs with --long only, as every night
    needs=WHAT  is never run here: WHAT is gpu, data, network, slurm or reader (a choice of theirs)

The program is $TESSERA_BINARY, or build/tessera. FOLDER (default: out/commands) gets commands.jsonl,
a line per command with page, line, exit code, seconds and output, and transcript.txt to read.

Exit codes: 0 every command did as documented, 1 one did not, 2 usage.
"""

import argparse
import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^(\s*)```+\s*([^`]*)$")
LANGUAGES = ("sh", "console")
NEEDS = ("gpu", "data", "network", "slurm", "reader")
NOT_COPIED = (".git", "build", "build-*", "out", "install")  # at the checkout's root
COMMAND = re.compile(r"^    (\$ )?(build/tessera|\./?(setup|experiments|tests)|/usr/bin/python3) ")
SECONDS = {False: 120, True: 3600}  # that a command may take: short, long


class PageError(Exception):
    """A block that is not marked as the head of this file says."""


@dataclass
class Block:
    """A fenced block: where it begins, what it is, and its lines."""

    page: str
    line: int  # of the fence
    language: str
    marks: dict[str, str]  # "exit=6" and "long" become {"exit": "6", "long": ""}
    lines: list[str] = field(default_factory=list)

    def is_short(self) -> bool:
        """True for blocks that run with every test."""
        return "long" not in self.marks and "needs" not in self.marks


@dataclass
class Command:
    """One command, and what it has to do."""

    page: str
    line: int
    text: str
    exit: int
    prints: list[str]


@dataclass
class Result:
    """What a command did; `fault` is empty when it did as documented."""

    page: str
    line: int
    command: str
    exit: int
    seconds: float
    output: str
    fault: str


def blocks(page: str, text: str) -> list[Block]:
    """The fenced blocks of a page. Commands outside of a fence are an error: no one would run them."""
    found: list[Block] = []
    open_block: Block | None = None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and open_block is None:
            language, *marks = fence.group(2).split() or [""]
            pairs = dict(mark.split("=", 1) if "=" in mark else (mark, "") for mark in marks)
            if language in LANGUAGES or "file" in pairs:
                check(f"{page}:{number}", pairs)
            open_block = Block(page, number, language, pairs)
            found.append(open_block)
        elif fence:
            open_block = None
        elif open_block is not None:
            open_block.lines.append(line)
        elif COMMAND.match(line):
            raise PageError(f"{page}:{number}: a command outside of a fenced block: {line.strip()}")
    return found


def check(place: str, marks: dict[str, str]) -> None:
    """Throws for a mark that means nothing."""
    for name, value in marks.items():
        known = {"file": bool(value), "exit": value.isdigit(), "long": value == "",
                 "needs": value in NEEDS}  # fmt: skip
        if not known.get(name, False):
            mark = f"{name}={value}" if value else name
            raise PageError(f"{place}: unknown mark '{mark}'; marks are file=PATH, exit=N, long and "
                            f"needs={'|'.join(NEEDS)}")


def commands(block: Block) -> Iterator[Command]:
    """The commands of a block; a line that ends in a backslash goes on in the next."""
    exit_code = int(block.marks.get("exit", "0"))
    command: Command | None = None
    is_continued = False
    for number, line in enumerate(block.lines, block.line + 1):
        is_new = line.startswith("$ ") if block.language == "console" else bool(line.strip())
        if is_continued and command:
            command.text += "\n" + line
        elif is_new:
            if command:
                yield command
            text = line.removeprefix("$ ") if block.language == "console" else line
            command = Command(block.page, number, text, exit_code, [])
        elif command and line.strip():
            command.prints.append(line.rstrip())
            continue
        is_continued = line.endswith("\\")
    if command:
        yield command


def first_missing(expected: list[str], output: str) -> str | None:
    """The first expected line that the output does not have below the one before it."""
    lines = iter(output.splitlines())
    for wanted in expected:
        parts = [re.escape(" ".join(part.split())) for part in wanted.split("...")]
        pattern = re.compile(r"\s*.*\s*".join(parts))
        if wanted != "..." and not any(pattern.fullmatch(" ".join(line.split())) for line in lines):
            return wanted
    return None


def run(command: Command, folder: Path, seconds: float) -> Result:
    """Runs a command in a folder, without what a bare machine would not have."""
    unwanted = ("TESSERA_DATA", "TESSERA_CACHE", "XDG_CACHE_HOME")
    environment = {key: value for key, value in os.environ.items() if key not in unwanted}
    environment.setdefault("CCACHE_DIR", str(Path.home() / ".cache" / "ccache"))  # saves minutes
    environment |= {"HOME": str(folder.parent / "home"), "CUDA_VISIBLE_DEVICES": "", "NO_COLOR": "1"}
    begin = time.monotonic()
    with subprocess.Popen(["bash", "-c", command.text], cwd=folder, env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            printed, _ = process.communicate(timeout=seconds)
            code = process.returncode
        except BaseException as end:
            os.killpg(process.pid, signal.SIGKILL)  # with all that it started
            if not isinstance(end, subprocess.TimeoutExpired):
                raise
            printed, code = process.communicate()[0], 124
    output = printed.decode("utf-8", "replace")
    fault = ""
    if code == 124:
        fault = f"it took more than {seconds:g} s"
    elif code != command.exit:
        fault = f"it exited with {code}, and {command.exit} is documented"
    elif (missing := first_missing(command.prints, output)) is not None:
        fault = f"it did not print: {missing}"
    return Result(command.page, command.line, command.text, code,
                  round(time.monotonic() - begin, 2), output, fault)


def checkout(folder: Path, program: Path) -> Path:
    """A copy of the checkout with the program at build/tessera, as ./setup leaves it."""
    copy = folder / "tessera"

    def not_copied(source: str, names: list[str]) -> set[str]:
        patterns = ("__pycache__", *(NOT_COPIED if Path(source) == ROOT else ()))
        return {name for name in names if any(fnmatch.fnmatch(name, one) for one in patterns)}

    shutil.copytree(ROOT, copy, ignore=not_copied, symlinks=True)
    (folder / "home").mkdir()
    built = copy / "build-given"
    built.mkdir()
    (built / "tessera").symlink_to(program)
    (built / "libtessera.so.1").symlink_to(program.parent / "libtessera.so.1")
    (copy / "build").symlink_to(built.name)
    return copy


def run_page(page: str, text: str, program: Path, with_long: bool = False) -> Iterator[Result]:
    """Runs the commands of a page one after another, in a new checkout."""
    found = blocks(page, text)
    with tempfile.TemporaryDirectory(prefix="tessera-page-") as folder:
        copy = checkout(Path(folder), program)
        for block in found:
            if "needs" in block.marks or ("long" in block.marks and not with_long):
                continue
            if "file" in block.marks:
                path = copy / block.marks["file"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("\n".join(block.lines) + "\n", encoding="utf-8")
            elif block.language in LANGUAGES:
                for command in commands(block):
                    yield run(command, copy, SECONDS["long" in block.marks])


def pages() -> list[str]:
    """The pages whose commands are run."""
    return ["README.md", "CONTRIBUTING.md", *(path.relative_to(ROOT).as_posix()
                           for path in sorted((ROOT / "docs").rglob("*.md")))]  # fmt: skip


def keep(results: list[Result], folder: Path) -> None:
    """Writes what the commands printed."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(asdict(result), ensure_ascii=False) + "\n" for result in results]
    (folder / "commands.jsonl").write_text("".join(lines), encoding="utf-8")
    parts = [f"{'=' * 80}\n{result.page}:{result.line}  exit {result.exit}, {result.seconds} s"
             f"{'  WRONG: ' + result.fault if result.fault else ''}\n$ {result.command}\n"
             f"{result.output.rstrip()}\n" for result in results]  # fmt: skip
    (folder / "transcript.txt").write_text("\n".join(parts), encoding="utf-8")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--long", action="store_true", help="also run the blocks marked long")
    parser.add_argument("--list", action="store_true", help="print the commands, and run none")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "commands", help="see above")
    parser.add_argument("page", nargs="*", metavar="PAGE.md", help="default: all of these")
    given = parser.parse_args()
    program = Path(os.environ.get("TESSERA_BINARY", ROOT / "build" / "tessera")).resolve()
    if not given.list and not os.access(program, os.X_OK):
        print(f"error: there is no program {program}; see ./setup --build", file=sys.stderr)
        return 2
    results: list[Result] = []
    try:
        for page in given.page or pages():
            text = (ROOT / page).read_text(encoding="utf-8")
            if given.list:
                for block in blocks(page, text):
                    for command in commands(block) if block.language in LANGUAGES else ():
                        marks = " ".join(shlex.quote("=".join(filter(None, mark)))
                                         for mark in block.marks.items())  # fmt: skip
                        print(f"{page}:{command.line}: [{marks}] {command.text}")
                continue
            for result in run_page(page, text, program, given.long):
                verdict = f"WRONG: {result.fault}" if result.fault else "ok"
                print(f"{result.seconds:7.2f} s  {page}:{result.line}  {result.command}  {verdict}",
                      file=sys.stderr)
                results.append(result)
    except (OSError, PageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.list:
        return 0
    keep(results, given.out)
    wrong = sum(bool(result.fault) for result in results)
    print(f"{len(results)} commands, {wrong} wrong, {sum(r.seconds for r in results):.0f} s; what "
          f"they printed is in {given.out}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
