"""The JavaScript libraries of a page, as Debian installs them. None is part of this repository.

Chart.js draws the figures, DataTables (with jQuery) sorts and filters the tables; all three have
the MIT licence. Together they add 0.4 MB to a page.
"""

import os
from pathlib import Path

# File below the folder of libraries: the package that installs it.
LIBRARIES = {
    "jquery/jquery.min.js": "libjs-jquery",
    "jquery-datatables/jquery.dataTables.min.js": "libjs-jquery-datatables",
    "chart.js/chart.min.js": "libjs-chart.js",
}


class MissingLibraryError(Exception):
    """A library is not installed."""


def folder() -> Path:
    """$TESSERA_JAVASCRIPT, or where Debian and Ubuntu install JavaScript."""
    return Path(os.environ.get("TESSERA_JAVASCRIPT", "/usr/share/javascript"))


def missing_packages() -> list[str]:
    """The packages whose library is not there."""
    return [package for file, package in LIBRARIES.items() if not (folder() / file).is_file()]


def scripts() -> list[str]:
    """The text of every library, in the order in which a page needs them."""
    if missing := missing_packages():
        raise MissingLibraryError(
            f"a page needs JavaScript libraries that are not in {folder()}: "
            f"apt-get install {' '.join(missing)} (or name their folder in $TESSERA_JAVASCRIPT)")
    return [(folder() / file).read_text(encoding="utf-8") for file in LIBRARIES]
