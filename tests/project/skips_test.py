#!/usr/bin/env python3
"""ctest ends by saying why tests were skipped: skipped ones alone, by reason."""

import subprocess
import sys
import tempfile
from pathlib import Path

import skips

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(planted NONE)
enable_testing()
add_test(NAME no-tool COMMAND sh -c "echo 'skipped: there is no tool'; exit 77")
add_test(NAME no-tool-either COMMAND sh -c "echo 'skipped: there is no tool'; exit 77")
add_test(NAME no-gpu COMMAND sh -c "echo 'a.cpp:3: MESSAGE: skipped: no GPU'; echo 'Status: SUCCESS!'")
add_test(NAME passes COMMAND sh -c "echo 'nothing was skipped: all ran'")
add_test(NAME fails COMMAND sh -c "echo 'skipped: a failure is no skip'; exit 1")
set_tests_properties(no-tool no-tool-either PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(no-gpu PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: .*Status: SUCCESS!")
file(WRITE ${CMAKE_BINARY_DIR}/CTestCustom.cmake
     "set(CTEST_CUSTOM_POST_TEST \\"\\\\\\"PYTHON\\\\\\" \\\\\\"SKIPS\\\\\\" Testing/Temporary\\")\\n")
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        project = PROJECT.replace("PYTHON", sys.executable).replace("SKIPS", skips.__file__)
        Path(folder, "CMakeLists.txt").write_text(project)
        build = Path(folder, "build")
        subprocess.run(["cmake", "-S", folder, "-B", build], check=True, capture_output=True)
        said = subprocess.run(["ctest"], cwd=build, capture_output=True, text=True).stdout
    lines = [line.strip() for line in said.splitlines() if " skipped: " in line]
    assert lines == ["2 skipped: there is no tool", "1 skipped: no GPU (no-gpu)"], said
    assert skips.text(skips.skips("")) == ""


main()
