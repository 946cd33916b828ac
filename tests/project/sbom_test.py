"""The bill of materials of an installed bundle: each program and library is listed with its SHA-256
and licence, nothing else is, and a file that is added, changed or taken away is reported. The licence
text of each library is part of the bundle.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/project/sbom_test.py`.
"""

import hashlib
import importlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from program import BINARY

ROOT = Path(__file__).resolve().parents[2]
BUILD = BINARY.parent
SBOM = ROOT / "experiments" / "machine" / "sbom.py"
PLACE = "share/tessera/sbom.json"


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def module(name):
    """One of the modules beside sbom.py."""
    with unittest.mock.patch.object(sys, "path", [str(SBOM.parent), *sys.path]):
        return importlib.import_module(name)


def sbom(*arguments):
    return run(sys.executable, "-B", SBOM, *arguments)


@unittest.skipUnless(shutil.which("dpkg-query"), "this is neither Debian nor Ubuntu")
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
        for arguments in ((), ("--check",)):
            done = sbom(self.bundle, "--version", "1.2.3", *arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn("libevil: dependencies.toml has no licence of it", done.stderr)

    def test_every_library_has_the_licence_text_of_the_package_that_owns_it(self):
        texts = self.installed / "share" / "tessera"
        carried = [path for path in (self.installed / "lib").glob("*.so*")
                   if path.is_file() and not path.is_symlink() and path.name != "libbefore.so.1"]  # fmt: skip
        self.assertGreater(len(carried), 5)
        for path in carried:
            file, _ = self.libraries()[f"lib/{path.name}"]
            owners = {line.split(":")[0] for line in run("dpkg-query", "-S", f"*/{path.name}").stdout.splitlines()}
            [own, *common] = [reference["url"] for reference in file["externalReferences"]]
            with self.subTest(path.name):
                self.assertIn(Path(own).name, owners)
                self.assertEqual((texts / own).read_bytes(),
                                 Path(f"/usr/share/doc/{Path(own).name}/copyright").read_bytes())
                for url in common:
                    self.assertIn(f"/usr/share/{url.removeprefix('licences/')}".encode(), (texts / own).read_bytes())
                    self.assertGreater((texts / url).stat().st_size, 1000)
        files = [path for path in (texts / "licences").rglob("*") if not path.is_dir()]
        self.assertFalse(any(path.is_symlink() for path in files))
        # Also of what is compiled in, by the package that has the headers.
        compiled_in = {library["name"]: library for library in self.document["components"]
                       if library["properties"][0]["value"] == "headers" and "purl" in library}  # fmt: skip
        self.assertEqual(set(compiled_in), {"JSON for Modern C++", "CLI11", "Boost"})
        for library in compiled_in.values():
            [own, *_] = [reference["url"] for reference in library["externalReferences"]]
            self.assertTrue(library["purl"].split("@")[0].endswith(Path(own).name))
            self.assertGreater((texts / own).stat().st_size, 1000)
        self.assertIn("Boost Software License",
                      (texts / compiled_in["Boost"]["externalReferences"][0]["url"]).read_text())

    def test_a_licence_text_that_is_taken_away_or_changed_is_reported(self):
        [fmt] = [file for path, (file, _) in self.libraries().items() if "/libfmt." in path]
        [curl] = [file for path, (file, _) in self.libraries().items() if "/libcurl." in path]
        texts = self.bundle / "share" / "tessera"
        (texts / fmt["externalReferences"][0]["url"]).unlink()
        (texts / curl["externalReferences"][0]["url"]).write_text("all rights reserved")

        done = sbom(self.bundle, "--check")

        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"licences/libfmt\S+, a licence text of {fmt['name']}, is missing\n")
        self.assertRegex(done.stderr, rf"licences/libcurl4\w*, a licence text of {curl['name']}, has the SHA-256 ")

        document = (self.bundle / PLACE).read_text().replace('"externalReferences"', '"none"')
        (self.bundle / PLACE).write_text(document)
        done = sbom(self.bundle, "--check")
        self.assertEqual(done.returncode, 1)
        for path in self.libraries():
            self.assertIn(f"{path} has no licence text\n", done.stderr)

    def install_elsewhere(self, path):
        return subprocess.run([shutil.which("cmake"), "--install", BUILD, "--prefix", self.bundle.parent / "other"],
                              capture_output=True, text=True, env={"PATH": str(path)})  # fmt: skip

    def test_a_library_whose_licence_text_is_not_found_fails_the_installation(self):
        with tempfile.TemporaryDirectory() as folder:
            query = Path(folder) / "dpkg-query"  # which knows no package
            query.write_text("#!/bin/sh\nexit 1\n")
            query.chmod(0o755)
            done = self.install_elsewhere(folder)
        self.assertEqual(done.returncode, 1)
        for path in self.libraries():
            self.assertIn(f"{path}: no Debian package here has this file, so its licence text is not known", done.stderr)

        licences = module("sbom").LicenceTexts()
        self.assertEqual(licences.references("lib/libnone.so.1", "libnone1"), [])
        [sentence] = licences.missing
        self.assertIn("lib/libnone.so.1: its licence text: ", sentence)
        self.assertIn("/usr/share/doc/libnone1/copyright", sentence)

    def test_a_system_without_packages_of_debian_installs_a_bundle_and_says_that_it_has_no_texts(self):
        done = self.install_elsewhere("/nonexistent")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("this system has no dpkg-query, so the bundle has no licence texts", done.stderr)

    def test_links_to_a_licence_text_are_followed_and_so_are_its_references(self):
        share = self.bundle.parent / "share"
        for name, text in (("doc/gcc-base/copyright", "GPL: /usr/share/common-licenses/GPL.\n"
                            "Not here: /usr/share/common-licenses/GPL-2.0"), ("common-licenses/GPL-3", "the GPL")):
            (share / name).parent.mkdir(parents=True, exist_ok=True)
            (share / name).write_text(text)
        (share / "doc" / "libstdc++6").symlink_to("gcc-base")
        (share / "common-licenses" / "GPL").symlink_to("GPL-3")

        texts = module("debian_packages").licence_texts("libstdc++6", share)

        self.assertEqual(list(texts), ["libstdc++6", "common-licenses/GPL"])
        self.assertEqual(texts["common-licenses/GPL"], b"the GPL")

    def test_the_cuda_half_adds_what_it_is_compiled_with_and_what_it_finds(self):
        def written(*arguments):
            sbom(self.bundle, "--version", "1.2.3", *arguments)
            components = json.loads((self.bundle / PLACE).read_text())["components"]
            return {library["name"]: library for library in components}

        without, cuda = written(), written("--cuda", "13.0.88")
        self.assertNotIn("CUDA runtime", without)
        self.assertEqual(cuda["CUDA runtime"]["version"], "13.0.88")
        self.assertEqual((cuda["cuSPARSE"]["scope"], cuda["GNU C library"]["scope"]), ("optional", "required"))

    def test_the_agreement_of_the_cuda_toolkit_is_in_a_bundle_that_has_its_runtime(self):
        toolkit = self.bundle.parent / "cuda"
        toolkit.mkdir()
        done = sbom(self.bundle, "--cuda", "13.0.88", "--toolkit", toolkit)
        self.assertIn("has no licence text, so the bundle has none of NVIDIA's", done.stderr)

        for place in ("dist-info/nvidia_cuda_runtime-13.0.96.dist-info/licenses/License.txt", "EULA.txt"):
            (toolkit / place).parent.mkdir(parents=True, exist_ok=True)
            (toolkit / place).write_text(f"the agreement in {place}")
            with self.subTest(place):
                done = sbom(self.bundle, "--cuda", "13.0.88", "--toolkit", toolkit)
                components = json.loads((self.bundle / PLACE).read_text())["components"]
                [runtime] = [library for library in components if library["name"] == "CUDA runtime"]
                [reference] = runtime["externalReferences"]
                text = (self.bundle / PLACE).parent / reference["url"]
                self.assertNotIn("NVIDIA's", done.stderr)
                self.assertEqual(text.read_text(), f"the agreement in {place}")
        text.write_text("another agreement")
        self.assertIn("NVIDIA-CUDA-EULA, a licence text of CUDA runtime, has the SHA-256",
                      sbom(self.bundle, "--check").stderr)  # fmt: skip

    def test_the_same_bundle_gives_the_same_text(self):
        before = (self.bundle / PLACE).read_text()
        arguments = ["--version", self.document["metadata"]["component"]["version"]]
        for library in self.document["components"]:
            if library["name"] == "CUDA runtime":
                toolkit = re.findall(r'"(--toolkit=.+)"', (BUILD / "cmake_install.cmake").read_text())
                arguments += ["--cuda", library["version"], *toolkit]
        self.assertEqual(sbom(self.bundle, *arguments).returncode, 0)
        self.assertEqual((self.bundle / PLACE).read_text(), before)


if __name__ == "__main__":
    if not (BUILD / "tessera_attack").exists():
        print("skipped: the programs of the bundle are not all built")
        sys.exit(77)
    unittest.main()
