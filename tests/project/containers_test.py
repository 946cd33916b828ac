"""The container files copy the bundle by the name that CMake gives it, and call the program in it.

They are not built here: that takes Docker or Apptainer, and a network. Their shell commands are
only parsed.
"""

import json
import re
import subprocess
import unittest

from layers_test import ROOT

FOLDER = ROOT / "experiments" / "cluster" / "containers"


def copied(text: str) -> list[tuple[str, str]]:
    """What is copied into the image, and where to, by either kind of file."""
    files = re.search(r"^%files\n((?: +\S+ \S+\n)+)", text, re.MULTILINE)
    lines = files[1].splitlines() if files else re.findall(r"^COPY (.*)$", text, re.MULTILINE)
    return [(source.rstrip("/"), target.rstrip("/")) for source, target in map(str.split, lines)]


def commands(text: str) -> str:
    """The shell commands of either kind of file."""
    sections = re.findall(r"^%(?:post|environment|runscript|test)\n((?: +.*\n)+)", text, re.MULTILINE)
    return "".join(sections) or "\n".join(re.findall(r"^RUN ((?:.*\\\n)*.*)$", text, re.MULTILINE))


def parses(shell: str) -> bool:
    """Whether a POSIX shell can read these commands; it runs none of them."""
    return subprocess.run(["sh", "-n"], input=shell, text=True, check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


class ContainersTest(unittest.TestCase):
    def setUp(self) -> None:
        cmake = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        [version] = re.findall(r"^project\(tessera VERSION (\S+)", cmake, re.MULTILINE)
        self.assertIn("set(bundle ${PROJECT_NAME}-${PROJECT_VERSION})", cmake)
        self.assertIn("--prefix bundle/${bundle}", cmake)
        self.bundle = f"tessera-{version}"
        presets = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))
        self.assertIn("release", [preset["name"] for preset in presets["configurePresets"]])

    def test_both_files_copy_the_bundle(self) -> None:
        context = "build-release/bundle"  # of docker build; Apptainer starts at the root
        for name, source in (("Dockerfile", self.bundle), ("tessera.def", f"{context}/{self.bundle}")):
            text = (FOLDER / name).read_text(encoding="utf-8")
            self.assertEqual(copied(text), [(source, "/opt/tessera")], name)
            self.assertIn("/opt/tessera/bin:$", text)
            self.assertIn(f"experiments/cluster/containers/{name}", text)
        self.assertIn(f"--tag tessera {context}\n", (FOLDER / "Dockerfile").read_text())

    def test_the_shell_commands_parse(self) -> None:
        for name, last in (("Dockerfile", "rm -rf"), ("tessera.def", "--version")):
            shell = commands((FOLDER / name).read_text(encoding="utf-8"))
            self.assertIn(last, shell, name)
            self.assertTrue(parses(shell), name)
        self.assertFalse(parses("exec tessera \"$@\n"))

    def test_another_name_is_noticed(self) -> None:
        self.assertEqual(copied("COPY a/ /b/\n"), [("a", "/b")])
        self.assertEqual(copied("%files\n    a /b\n    c /d\n\n%post\n"), [("a", "/b"), ("c", "/d")])


if __name__ == "__main__":
    unittest.main()
