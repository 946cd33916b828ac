"""Writes listings of a Markdown page to the files whose names stand above them.

    python3 docs/copy_listings.py PAGE.md FILE...

A listing is a fenced block below a line that has only the file's name, as code, and a colon.
"""

import re
import sys
from pathlib import Path

LISTING = re.compile(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)


def main() -> int:
    """The command line."""
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    page, *names = sys.argv[1:]
    listings = dict(LISTING.findall(Path(page).read_text(encoding="utf-8")))
    for name in names:
        if name not in listings:
            print(f"error: {page}: there is no listing of {name}; there are "
                  f"{', '.join(listings) or 'none'}", file=sys.stderr)
            return 2
    for name in names:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(listings[name], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
