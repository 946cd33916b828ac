"""Every C++ and CUDA file is as clang-format leaves it (.clang-format, version 14).

Other versions break lines elsewhere, so without that one the check is skipped and says so. It is
first tried on a badly formatted file.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from layers_test import ROOT, sources

VERSION = 14
SKIPPED = 77  # the exit code that ctest counts as skipped


def find_clang_format():
    """The path of clang-format in the version of the project, or None."""
    for name in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(name)
        if path is None:
            continue
        said = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        if re.search(rf"version {VERSION}\.", said):
            return path
    return None


def complaints(clang_format, paths):
    """What clang-format would change in these files; empty when nothing."""
    command = [clang_format, "--dry-run", "--Werror", f"--style=file:{ROOT / '.clang-format'}"]
    result = subprocess.run([*command, *paths], capture_output=True, text=True)
    return result.stderr if result.returncode else ""


def main():
    clang_format = find_clang_format()
    if clang_format is None:
        print(f"skipped: there is no clang-format {VERSION} on this machine")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        bad = pathlib.Path(folder) / "bad.cpp"
        bad.write_text("int  main( ){return 0 ;}\n")
        if not complaints(clang_format, [bad]):
            print("the check is broken: it took a badly formatted file")
            return 1
    found = complaints(clang_format, [ROOT / path for path in sources(ROOT)])
    print(found or "every file is as clang-format leaves it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
