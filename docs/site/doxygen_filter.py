"""Turns the comments of one header into docstrings for doxygen, on stdout.

The lines that open a file describe the file, a comment behind a member describes that member, and
`///` is a docstring already. What looks like a command of doxygen in a comment is text. The project's
namespace is left out: every page would declare it anew, which Sphinx takes for a fault.
"""

import re
import sys
from pathlib import Path

COMMENT = re.compile(r"(?<!:)//(/?)\s?(.*)$")  # not the // of https://
NAMESPACE = re.compile(r"^(namespace tessera \{|\}  // namespace tessera)$|(?<=^namespace )tessera::",
                       re.MULTILINE)


def opening(text: str, name: str) -> tuple[list[str], str]:
    """The docstring of the file from the comment that opens it, and the rest of the file. Lines that
    are set in are code or pictures, and stay as they are."""
    lines, rest = [f"/*! \\file {name}", ""], text.splitlines()
    is_verbatim = False
    while rest and rest[0].startswith("//"):
        words = rest.pop(0)[2:].removeprefix(" ").replace("*/", "* /")
        if is_verbatim != words.startswith("  "):
            is_verbatim = not is_verbatim
            lines.append("\\verbatim" if is_verbatim else "\\endverbatim")
        lines.append(words if is_verbatim else escaped(words))
    return lines + (["\\endverbatim"] if is_verbatim else []) + ["*/"], "\n".join(rest)


def escaped(words: str) -> str:
    """A comment without what doxygen would take for a command, a tag or a link."""
    return re.sub(r"([\\@<>#&%])", r"\\\1", words)


def docstrings(text: str, name: str) -> str:
    """The header with docstrings that doxygen knows."""
    lines, rest = opening(text, name)
    is_behind = False
    for line in re.sub(NAMESPACE, "", rest).splitlines():
        found = COMMENT.search(line)
        if found is None or line.startswith("}"):
            is_behind = False
            lines.append(line)
            continue
        code, words = line[: found.start()], escaped(found.group(2))
        is_behind = bool(code.strip()) or (is_behind and code != "" and not found.group(1))
        lines.append(f"{code.rstrip()}  ///< {words}" if is_behind
                     else f"{code}//{found.group(1)} {words}")  # fmt: skip
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    sys.stdout.write(docstrings(path.read_text(encoding="utf-8"), path.as_posix()))
