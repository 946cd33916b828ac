"""Tests of notebooks/needs.py: the interpreter that a script gets, and what is said without one.

Run with `PYTHONPATH=tests python3 tests/notebooks/needs_test.py`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))

import needs


class InterpreterTest(unittest.TestCase):
    """A folder of interpreters, and scripts that import packages of different ones."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.scripts = self.folder / "scripts"
        self.scripts.mkdir()
        shutil.copy(NOTEBOOKS / "needs.py", self.scripts)
        (self.scripts / "beside.py").write_text("import numpy\n")
        (self.scripts / "one.py").write_text(
            "import sys\nimport needs\nimport beside\nprint('ran', *sys.argv[1:])\n")

    def interpreter(self, path: str, has_numpy: bool) -> Path:
        """An interpreter in a folder of its own, with a made-up numpy or without any."""
        place = self.folder / path
        place.parent.mkdir(exist_ok=True)
        packages = self.folder / f"packages of {path.replace('/', ' ')}"
        packages.mkdir()
        if has_numpy:
            (packages / "numpy.py").write_text("")
        place.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec {sys.executable} -S -E "$@"\n'
                         .replace("-S -E", "-S"))
        place.chmod(0o755)
        return place

    def run_script(self, interpreter: Path, path: str,
                   chosen: str = "") -> subprocess.CompletedProcess:
        environment = {**os.environ, "PATH": path, "TESSERA_PYTHON": chosen}
        environment.pop("PYTHONPATH", None)
        return subprocess.run([str(interpreter), str(self.scripts / "one.py"), "a", "b"],
                              env=environment, capture_output=True, text=True, check=False)

    def test_a_script_starts_again_with_the_first_interpreter_that_has_its_packages(self) -> None:
        bare = self.interpreter("bare/python3", has_numpy=False)
        versioned = self.interpreter("full/python3.99", has_numpy=True)

        done = self.run_script(bare, f"{bare.parent}:/nonexistent:{versioned.parent}")

        self.assertEqual(done.stdout, "ran a b\n", done.stderr)
        self.assertIn(f"note: {versioned} is used, since ", done.stderr)
        self.assertIn("has no numpy", done.stderr)

    def test_an_interpreter_that_has_everything_stays(self) -> None:
        full = self.interpreter("full/python3", has_numpy=True)

        done = self.run_script(full, "")

        self.assertEqual((done.stdout, done.stderr), ("ran a b\n", ""))

    def test_without_any_the_message_names_each_its_lack_and_the_remedy(self) -> None:
        bare = self.interpreter("bare/python3", has_numpy=False)

        done = self.run_script(bare, "/nonexistent", chosen=str(bare))

        self.assertEqual(done.returncode, 2)
        self.assertNotIn("Traceback", done.stderr)
        self.assertIn(f"  {bare} has no numpy\n", done.stderr)
        self.assertIn("Tried, from $TESSERA_PYTHON:", done.stderr)
        self.assertIn("apt-get install python3-numpy", done.stderr)
        self.assertIn("python3 -m pip install numpy", done.stderr)
        absent = self.run_script(bare, "", chosen="/nonexistent/python3")
        self.assertIn("/nonexistent/python3 does not start", absent.stderr)

    def test_every_script_looks_for_its_packages_before_it_imports_them(self) -> None:
        known = set(sys.stdlib_module_names)
        for script in sorted(NOTEBOOKS.glob("*.py")):
            with self.subTest(script=script.name):
                text = script.read_text(encoding="utf-8")
                foreign = needs.imported(str(script)) - known - {
                    other.stem for other in NOTEBOOKS.glob("*.py")}
                self.assertLessEqual(foreign, needs.PACKAGES)
                if '__name__ == "__main__"' not in text or not foreign:
                    continue
                before = text.split("\nimport needs", 1)
                self.assertEqual(len(before), 2, "it does not import needs")
                self.assertIsNone(re.search(r"^(import|from) (matplotlib|numpy|pandas|scipy)",
                                            before[0], re.MULTILINE))


if __name__ == "__main__":
    unittest.main()
