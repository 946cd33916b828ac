"""SECURITY.md and the page of mended faults name tests that exist, and no other.

Run with `PYTHONPATH=tests python3 tests/project/security_test.py`.
"""

import re
import unittest

from layers_test import ROOT


def named_tests(page, section="What is promised"):
    """The tests in the last column of the tables of a section."""
    text = page.partition(f"## {section}")[2].partition("\n## ")[0]
    rows = [line.rstrip("|").rpartition("|")[2] for line in text.splitlines() if line.startswith("| ")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def known_tests(root):
    """The names of the test cases in C++ and of the test functions in Python."""
    found = set()
    for path in (root / "tests").rglob("*_test.*"):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            found |= set(re.findall(r"def (test_\w+)\(", text))
        for literal in re.findall(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', text):
            found.add("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literal)))
    return found


class SecurityTest(unittest.TestCase):
    def test_every_promise_names_tests_that_exist(self):
        page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
        names, known = named_tests(page), known_tests(ROOT)
        self.assertGreater(len(names), 20)
        self.assertEqual([name for name in names if name not in known], [])

    def test_every_mended_fault_names_tests_that_exist(self):
        page = (ROOT / "experiments/results/robustness/README.md").read_text(encoding="utf-8")
        names, known = named_tests(page, "Faults that were found"), known_tests(ROOT)
        self.assertGreater(len(names), 40)
        self.assertEqual([name for name in names if name not in known], [])

    def test_a_name_that_no_test_has_is_found(self):
        page = "## What is promised\n\n| a | tests |\n|---|---|\n| a | `no test has this name`, `test_b` |\n\n## c\n"
        self.assertEqual(named_tests(page), ["no test has this name", "test_b"])
        self.assertNotIn("no test has this " + "name", known_tests(ROOT))


if __name__ == "__main__":
    unittest.main()
