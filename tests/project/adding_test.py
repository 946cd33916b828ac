"""The examples of experiments/adding.md compile without a warning and are laid out as all code is,
and experiments/config_reference.md has every key that configs may use.

Each listing is written to a temporary tree under the path that stands above it and compiled there,
with the project's headers behind it, syntax only. The check is first tried on a broken example.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import tomllib
from format_test import complaints, find_clang_format
from layers_test import ROOT

PAGE = ROOT / "experiments" / "adding.md"
REFERENCE = ROOT / "experiments" / "config_reference.md"
KEY = re.compile(r"""reader\.(?:text|texts|read|read_choice|find)\(\s*"(\w+)"|read_where\(reader, "(\w+)"\)""")
LISTING = re.compile(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMPILE = ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion",
           "-Wno-sign-conversion", "-Werror"]  # fmt: skip


def listings() -> dict[str, str]:
    """The text of every listing by its path."""
    return dict(LISTING.findall(PAGE.read_text(encoding="utf-8")))


def errors_of(files: dict[str, str]) -> str:
    """What the compiler says to these sources; empty when nothing."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        sources = [pathlib.Path(folder) / name for name in files if name.endswith(".cpp")]
        command = [*COMPILE, f"-I{folder}", f"-I{ROOT}", *sources]
        return subprocess.run(command, capture_output=True, text=True).stderr


class AddingTest(unittest.TestCase):
    def test_the_page_has_an_example_of_everything(self):
        folders = {name.split("/")[0] for name in listings()}

        self.assertEqual(folders, {"formats", "reorder", "kernels", "model", "experiments"})

    @unittest.skipUnless(shutil.which("g++"), "there is no g++")
    def test_every_example_compiles(self):
        self.assertEqual(errors_of(listings()), "")

        broken = listings()["model/dram_only.cpp"].replace("time_us =", "time_ms =")
        self.assertIn("time_us", errors_of({"model/dram_only.cpp": broken}))

    def test_the_reference_has_every_key_of_a_config(self):
        page = REFERENCE.read_text(encoding="utf-8")
        named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", page))))
        keys = set()
        for path in (ROOT / "experiments" / "config").glob("*.cpp"):
            for found in KEY.findall(path.read_text(encoding="utf-8")):
                keys.update(filter(None, found))

        self.assertGreater(len(keys), 50)
        self.assertEqual(keys - named, set())
        self.assertEqual({"ghost"} - named, {"ghost"})

    def test_the_experiment_is_toml(self):
        self.assertEqual(tomllib.loads(listings()["experiments/configs/first.toml"])["schema"], 1)

    @unittest.skipUnless(find_clang_format(), "there is no clang-format 14")
    def test_every_example_is_as_clang_format_leaves_it(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in listings().items():
                path = pathlib.Path(folder) / pathlib.PurePosixPath(name).name
                path.write_text(text, encoding="utf-8")
                if path.suffix in (".hpp", ".cpp"):
                    self.assertEqual(complaints(find_clang_format(), [path]), "")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
