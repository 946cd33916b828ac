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


def docstrings(text: str, name: str) -> str:
    """The header with docstrings that doxygen knows."""
    lines, is_opening, is_behind = [], True, False
    for line in re.sub(NAMESPACE, "", text).splitlines():
        found = COMMENT.search(line)
        if found is None or line.startswith("}"):
            is_opening = is_behind = False
            lines.append(line)
            continue
        code, words = line[: found.start()], re.sub(r"([\\@<>#&%])", r"\\\1", found.group(2))
        is_behind = bool(code.strip()) or (is_behind and code != "" and not found.group(1))
        if is_opening and not code:
            lines.append(f"/// \\file {name}\n/// {words}" if not lines else f"/// {words}")
        elif is_behind:
            lines.append(f"{code.rstrip()}  ///< {words}")
        else:
            lines.append(f"{code}//{found.group(1)} {words}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    sys.stdout.write(docstrings(path.read_text(encoding="utf-8"), path.as_posix()))
