#!/usr/bin/env python3
"""Prints why tests were skipped, by reason, from the log of ctest; ctest itself names only the tests.

CTest runs this after the tests (CTestCustom.cmake), when its log still has a temporary name.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

TEST = re.compile(r"^\d+/\d+ Testing: (.*?)$(.*?)(?=^\d+/\d+ Testing: |\Z)", re.MULTILINE | re.DOTALL)
# As a test program prints it, or doctest for one.
REASON = re.compile(r"^(?:.*MESSAGE: )?skipped: (.*)", re.MULTILINE)


def skips(log):
    """The names of the skipped tests in the text of a log, by reason."""
    by_reason = defaultdict(list)
    for name, output in TEST.findall(log):
        reason = REASON.search(output.partition("\nOutput:\n")[2])
        if reason and "\nTest Failed." not in output:
            by_reason[reason[1].strip()].append(name)
    return by_reason


def text(by_reason):
    """One line for each reason, that of most tests first; empty without skips."""
    lines = []
    for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        which = f" ({names[0]})" if len(names) == 1 else ""
        lines.append(f"{len(names):6} skipped: {reason}{which}")
    return "\n".join(lines)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    log = folder / "LastTest.log.tmp"
    log = log if log.exists() else folder / "LastTest.log"
    if log.exists() and (lines := text(skips(log.read_text(errors="replace")))):
        print(lines)
