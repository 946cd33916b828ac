"""The bill of materials of an installed bundle: each program and library is listed with its SHA-256
and licence, nothing else is, and a file that is added, changed or taken away is reported.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/project/sbom_test.py`.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from program import BINARY

ROOT = Path(__file__).resolve().parents[2]
BUILD = BINARY.parent
SBOM = ROOT / "experiments" / "machine" / "sbom.py"
PLACE = "share/tessera/sbom.json"


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def sbom(*arguments):
    return run(sys.executable, "-B", SBOM, *arguments)


class SbomTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.installed = Path(folder.name) / "installed"
        # What was there before is no part of the bundle.
        (cls.installed / "lib").mkdir(parents=True)
        (cls.installed / "lib" / "libbefore.so.1").write_text("not installed by tessera")
        done = run("cmake", "--install", BUILD, "--prefix", cls.installed)
        assert done.returncode == 0, done.stdout + done.stderr
        cls.document = json.loads((cls.installed / PLACE).read_text())

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bundle = Path(folder.name) / "bundle"
        shutil.copytree(self.installed, self.bundle, symlinks=True)
        (self.bundle / "lib" / "libbefore.so.1").unlink()

    def libraries(self):
        """File -> its component, of all files of libraries."""
        return {file["name"]: (file, library) for library in self.document["components"]
                for file in library.get("components", [])}  # fmt: skip

    def test_every_library_that_the_loader_takes_from_the_bundle_is_listed(self):
        loaded = run("ldd", self.installed / "bin" / "tessera").stdout
        own = {str(Path(path).resolve().relative_to(self.installed.resolve()))
               for path in re.findall(r"=> (\S+)", loaded)
               if Path(path).resolve().is_relative_to(self.installed.resolve())}  # fmt: skip
        self.assertGreater(len(own), 5)
        self.assertEqual(own - set(self.libraries()), set())

    def test_each_listed_file_is_there_with_its_sha256(self):
        programs = self.document["metadata"]["component"]["components"]
        self.assertIn("bin/tessera", [file["name"] for file in programs])
        for file in [*programs, *(file for file, _ in self.libraries().values())]:
            [digest] = file["hashes"]
            self.assertEqual(digest["alg"], "SHA-256")
            self.assertEqual(digest["content"],
                             hashlib.sha256((self.installed / file["name"]).read_bytes()).hexdigest())  # fmt: skip

    def test_it_has_the_structure_of_cyclonedx(self):
        self.assertEqual((self.document["bomFormat"], self.document["specVersion"]), ("CycloneDX", "1.5"))
        self.assertEqual(self.document["metadata"]["component"]["name"], "tessera")
        self.assertRegex(self.document["metadata"]["component"]["version"], r"^\d+\.\d+\.\d+$")
        references = []
        for library in self.document["components"]:
            with self.subTest(library.get("name")):
                self.assertEqual(library["type"], "library")
                self.assertIn(library["scope"], ("required", "optional"))
                [licence] = library["licenses"]
                self.assertRegex(licence["expression"], r"^[A-Za-z][\w. -]+$")
                [linkage] = library["properties"]
                self.assertEqual("components" in library, linkage["value"] == "shared")
                self.assertRegex(library.get("purl", "pkg:deb/x/y@1?arch=z"),
                                 r"^pkg:deb/\w+/[\w.+-]+@[\w.%~-]+\?arch=\w+$")  # fmt: skip
                references.append(library["bom-ref"])
        self.assertEqual(len(set(references)), len(references))
        [graph] = self.document["dependencies"]
        self.assertEqual((graph["ref"], graph["dependsOn"]), ("tessera", references))
        names = {library["name"] for library in self.document["components"]}
        self.assertLessEqual({"fmt", "libcurl", "OpenSSL", "JSON for Modern C++", "GNU C library"}, names)

    def test_libraries_have_the_versions_of_their_packages(self):
        if not shutil.which("dpkg-query"):
            self.skipTest("this is neither Debian nor Ubuntu")
        for name, (_, library) in self.libraries().items():
            self.assertRegex(library.get("version", ""), r"^\d", name)
        [fmt] = [library for library in self.document["components"] if library["name"] == "fmt"]
        self.assertIn(f"@{fmt['version'].replace('+', '%2B')}", fmt["purl"])

    def test_a_bundle_as_it_was_installed_has_no_difference(self):
        done = sbom(self.bundle, "--check")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^\d+ files, \d+ libraries, 0 differ\n$")

    def test_files_that_are_added_changed_or_taken_away_are_reported(self):
        (self.bundle / "lib" / "libevil.so.1").write_bytes(b"\x7fELF")
        changed = next((self.bundle / "lib").glob("libarchive.so.*.*"))
        changed.write_bytes(changed.read_bytes()[:-1])
        next(path for path in (self.bundle / "lib").glob("libfmt.so.*") if not path.is_symlink()).unlink()

        done = sbom(self.bundle, "--check")

        self.assertEqual(done.returncode, 1)
        self.assertIn("3 differ", done.stdout)
        self.assertIn("lib/libevil.so.1 is not listed", done.stderr)
        self.assertRegex(done.stderr, rf"lib/{changed.name} has the SHA-256 \w+, listed is \w+\n")
        self.assertRegex(done.stderr, r"lib/libfmt\.so\S+ is listed and missing")

    def test_a_library_without_a_stated_licence_is_reported(self):
        (self.bundle / "lib" / "libevil.so.1").write_bytes(b"\x7fELF")
        for arguments, code in (((), 0), (("--check",), 1)):
            done = sbom(self.bundle, "--version", "1.2.3", *arguments)
            self.assertEqual(done.returncode, code)
            self.assertIn("libevil: dependencies.toml has no licence of it", done.stderr)

    def test_the_cuda_half_adds_what_it_is_compiled_with_and_what_it_finds(self):
        def written(*arguments):
            sbom(self.bundle, "--version", "1.2.3", *arguments)
            components = json.loads((self.bundle / PLACE).read_text())["components"]
            return {library["name"]: library for library in components}

        without, cuda = written(), written("--cuda", "13.0.88")
        self.assertNotIn("CUDA runtime", without)
        self.assertEqual(cuda["CUDA runtime"]["version"], "13.0.88")
        self.assertEqual((cuda["cuSPARSE"]["scope"], cuda["GNU C library"]["scope"]), ("optional", "required"))

    def test_the_same_bundle_gives_the_same_text(self):
        before = (self.bundle / PLACE).read_text()
        version, cuda = self.document["metadata"]["component"]["version"], ""
        for library in self.document["components"]:
            if library["name"] == "CUDA runtime":
                cuda = library["version"]
        self.assertEqual(sbom(self.bundle, "--version", version, "--cuda", cuda).returncode, 0)
        self.assertEqual((self.bundle / PLACE).read_text(), before)


if __name__ == "__main__":
    if not (BUILD / "tessera_attack").exists():
        print("skipped: the programs of the bundle are not all built")
        sys.exit(77)
    unittest.main()
