"""Tests of files that take their place whole, in notebooks as in the program.

Run with `PYTHONPATH=tests python3 tests/notebooks/new_file_test.py`.
"""

import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "notebooks"))

from new_file import lock, new_file


class NewFile(unittest.TestCase):
    """What was planted, and what killed processes left."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def left(self, name: str, mode: int = 0o700, age_s: float = 120) -> Path:
        """A folder that looks like one of a killed process."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "half").write_text("half")
        folder.chmod(mode)
        then = folder.stat().st_mtime - age_s
        os.utime(folder, (then, then))
        return folder

    def test_a_file_takes_its_place_at_the_end_and_leaves_nothing_beside_it(self) -> None:
        path = self.folder / "a.txt"
        path.write_text("old")

        with new_file(path) as partial:
            partial.write_text("new")
            self.assertEqual(path.read_text(), "old")
            self.assertEqual(partial.parent.stat().st_mode & 0o777, 0o700)
        self.assertEqual(path.read_text(), "new")
        with self.assertRaises(ZeroDivisionError), new_file(path) as partial:
            partial.write_text("half")
            raise ZeroDivisionError

        self.assertEqual(path.read_text(), "new")
        self.assertEqual(list(self.folder.iterdir()), [path])

    def test_what_a_killed_process_left_is_removed_and_nothing_in_use_or_of_others(self) -> None:
        stale = self.left(".tessera-new-abcdef")
        kept = [self.left(".tessera-new-fresh1", age_s=0), self.left(".tessera-new-open_1", 0o755),
                self.left(".tessera-new-a name of mine"), self.left(".tessera-new-in_use")]
        link = self.folder / ".tessera-new-linked"
        link.symlink_to(kept[2])
        held = lock(kept[3])

        with new_file(self.folder / "a.txt") as partial:
            partial.write_text("new")

        os.close(held)
        self.assertFalse(stale.exists())
        for folder in [*kept, link]:
            self.assertEqual((folder / "half").read_text(), "half", folder)


if __name__ == "__main__":
    unittest.main()
