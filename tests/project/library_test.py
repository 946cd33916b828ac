"""The library from outside: installed, found by CMake in another project, and the worked example
built there. Where there is a GPU the example's numbers have to be right as well.

Skipped where the program was built without CUDA, which has no such library.
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from program import BINARY

BUILD = BINARY.parent
ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77  # the exit code that ctest counts as skipped

PROJECT = """\
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
find_package(tessera REQUIRED)
add_executable(user {source})
target_link_libraries(user PRIVATE tessera::spmm)
"""


class Library(unittest.TestCase):
    def run_command(self, *command, codes=(0,)):
        ran = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        self.assertIn(ran.returncode, codes, ran.stdout + ran.stderr)
        return ran

    def test_another_project_builds_the_worked_example(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix, user = Path(folder) / "prefix", Path(folder) / "user"
            user.mkdir()
            source = ROOT / "kernels" / "spmm" / "plan" / "example" / "spmm_plan.cpp"
            (user / "CMakeLists.txt").write_text(PROJECT.format(source=source), encoding="utf-8")

            self.run_command("cmake", "--install", BUILD, "--component", "library",
                             "--prefix", prefix)  # fmt: skip
            self.run_command("cmake", "-S", user, "-B", user / "build",
                             f"-DCMAKE_PREFIX_PATH={prefix}")  # fmt: skip
            self.run_command("cmake", "--build", user / "build")
            ran = self.run_command(user / "build" / "user", "20000", codes=(0, 5))

            if ran.returncode == 5:
                self.assertIn("no usable GPU", ran.stderr)
            else:
                self.assertEqual(ran.stdout.count("the emulation's bits"), 3)


if __name__ == "__main__":
    if not (BUILD / "libtessera_spmm.a").exists():
        print(f"skipped: {BUILD} has no library: it was built without CUDA")
        sys.exit(SKIPPED)
    unittest.main()
