"""dependencies.toml, both ways: everything that the sources include, import, look for or install is
in it, everything in it is used, and the versions of this machine are within its bounds.

Run with `PYTHONPATH=tests python3 tests/project/dependencies_test.py`.
"""

import ast
import re
import shutil
import subprocess
import sys
import unittest

import tomllib
from layers_test import ROOT, sources

TABLES = tomllib.loads((ROOT / "dependencies.toml").read_text())
ALONG = TABLES.pop("along")
PARTS = {"program", "build", "tests", "figures", "package", "documentation", "checks"}
LINKAGES = {"shared", "headers", "static", "host", "opened"}
KEYS = {"part", "version", "licence", "use"}
LISTS = {"debian", "optional", "cmake", "headers", "libraries", "python", "pypi"}
EXPRESSION = r"[A-Za-z][A-Za-z0-9.-]*( (OR|AND|WITH) [A-Za-z][A-Za-z0-9.-]*)*"
# Headers of the C library and of Linux; those of C++ have neither a dot nor a folder.
SYSTEM_HEADERS = re.compile(r"[a-z_]+|(sys|netinet)/.*|(unistd|netdb|fcntl|pthread|dlfcn|malloc|spawn|poll|sched|std[a-z]+|fnmatch|"
                            r"string|math|float|limits|errno|assert)\.h")


def listed(key):
    """All values of a list in dependencies.toml."""
    return {value for table in TABLES.values() for value in table.get(key, [])}


def matching(value, beginnings):
    """The beginnings that a value has."""
    return {beginning for beginning in beginnings if value.startswith(beginning)}


def included():
    """The operands of #include <...> of all sources, but for the system's."""
    found = {header for path in sources(ROOT)
             for header in re.findall(r"^\s*#\s*include <([^>]+)>", (ROOT / path).read_text(), re.MULTILINE)}
    return {header for header in found if not SYSTEM_HEADERS.fullmatch(header)}


def python_files():
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        if not path.is_file() or parts[0].startswith(("build", ".", "out", "install")):
            continue
        if path.suffix == ".py":
            yield path
        elif path.suffix == "" and path.stat().st_size < 100_000:
            with path.open("rb") as file:
                if file.readline().startswith(b"#!/usr/bin/env python3"):
                    yield path


def imported():
    """The modules that Python files import, neither Python's own nor the project's."""
    paths = list(python_files())
    own = {path.stem for path in paths} | {"tessera"}
    found = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            found |= {name.partition(".")[0] for name in names}
    return found - own - set(sys.stdlib_module_names)


def looked_for():
    """The names that CMake looks for."""
    files = [path for path in ROOT.rglob("CMakeLists.txt")
             if not path.relative_to(ROOT).parts[0].startswith("build")]
    text = "\n".join(re.sub(r"#.*", "", path.read_text()) for path in files)
    return (set(re.findall(r"find_package\((\w+)", text))
            | set(re.findall(r"find_(?:library|path|program)\(\w+ ([\w.]+)", text)))


def numbers(version):
    """1:3.9.1+~0.2.1-2 -> (3, 9, 1)"""
    return tuple(int(n) for n in re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", version)[1].split("."))


def within(version, bounds):
    """True when a version is within bounds such as ">=13.0,<14"."""
    for bound in bounds.split(","):
        least = re.fullmatch(r"(>=|<)([\d.]+)", bound)
        if (numbers(version) >= numbers(least[2])) != (least[1] == ">="):
            return False
    return True


class DependenciesTest(unittest.TestCase):
    def test_every_table_has_its_keys_and_no_other(self):
        self.assertGreater(len(TABLES), 40)
        for name, table in TABLES.items():
            with self.subTest(name):
                self.assertEqual(set(table) - LISTS, KEYS | ({"linkage"} if "linkage" in table else set()))
                self.assertIn(table["part"], PARTS)
                self.assertEqual("linkage" in table, table["part"] == "program")
                self.assertIn(table.get("linkage", "shared"), LINKAGES)
                self.assertRegex(table["version"], r"^(>=[\d.]+)(,<[\d.]+)?$")
        for name, licence in [*ALONG.items(), *((n, table["licence"]) for n, table in TABLES.items())]:
            self.assertRegex(licence, f"^{EXPRESSION}$", name)
        names = [library for table in TABLES.values() for library in table.get("libraries", [])]
        self.assertEqual(len({*names, *ALONG}), len(names) + len(ALONG), "a library is listed twice")

    def test_every_included_header_belongs_to_a_dependency_and_every_header_is_included(self):
        found = included()
        self.assertGreater(len(found), 20)
        self.assertEqual({header for header in found if not matching(header, listed("headers"))}, set())
        used = set().union(*(matching(header, listed("headers")) for header in found))
        self.assertEqual(listed("headers") - used, set())

    def test_every_imported_module_belongs_to_a_dependency_and_every_module_is_imported(self):
        self.assertEqual(imported(), listed("python"))

    def test_cmake_looks_for_what_is_listed_and_for_nothing_else(self):
        self.assertEqual(looked_for(), listed("cmake"))
        least = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", (ROOT / "CMakeLists.txt").read_text())
        self.assertEqual(TABLES["CMake"]["version"], f">={least[1]}")

    def test_pyproject_has_the_same_packages_and_bounds(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        asked = [*project["build-system"]["requires"], *project["project"]["dependencies"],
                 *project["project"]["optional-dependencies"]["all"]]
        bounds = dict(re.fullmatch(r"([\w-]+)(.*)", text).groups() for text in asked)
        self.assertEqual(set(bounds), listed("pypi"))
        for table in TABLES.values():
            for name in table.get("pypi", []):
                self.assertIn(bounds[name], ("", table["version"]), name)

    def test_setup_installs_exactly_the_packages_that_are_listed(self):
        printed = subprocess.run([ROOT / "setup", "--print"], capture_output=True, text=True, check=True)
        packages = printed.stdout.split("--no-install-recommends ")[1].split()
        self.assertEqual(sorted(packages), sorted(listed("debian")))

    def test_workflows_install_nothing_else(self):
        asked = set()
        for path in (ROOT / ".github" / "workflows").glob("*.yml"):
            for line in re.findall(r"apt-get install --yes --no-install-recommends (.*)", path.read_text()):
                asked |= set(line.split())
        self.assertGreater(len(asked), 5)
        self.assertEqual(asked - listed("debian") - listed("optional"), set())

    def test_bounds_are_compared_as_numbers(self):
        for version, bounds in (("4:12.2.0-3", ">=12"), ("3.25.1-1", ">=3.9"), ("13.0", ">=13.0,<14")):
            self.assertTrue(within(version, bounds), version)
        for version, bounds in (("9.0.9", ">=9.1"), ("14.0.1", ">=13.0,<14"), ("3.9", ">=3.25")):
            self.assertFalse(within(version, bounds), version)

    def test_installed_packages_are_within_the_bounds(self):
        if not shutil.which("dpkg-query"):
            self.skipTest("this is neither Debian nor Ubuntu")
        names = sorted(listed("debian") | listed("optional"))
        shown = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status} ${Package} ${Version}\n", *names],
                               capture_output=True, text=True).stdout  # fmt: skip
        versions = {line.split()[1]: line.split()[2] for line in shown.splitlines()
                    if line.startswith("installed")}
        self.assertTrue(versions)
        for name, table in TABLES.items():
            # The first is the library itself; ca-certificates have dates for versions.
            for package in (table.get("debian", []) + table.get("optional", []))[:1]:
                if package in versions:
                    self.assertTrue(within(versions[package], table["version"]),
                                    f"{name}: {package} {versions[package]}, not {table['version']}")


if __name__ == "__main__":
    unittest.main()
