"""Tests that texts from outside reach neither a terminal nor a picture with control characters.

Run with `PYTHONPATH=tests python3 tests/notebooks/safe_text_test.py`. Skipped in part without matplotlib
or pandas.
"""

import json
import tempfile
import unittest
from pathlib import Path

from figures import NEEDS_MATPLOTLIB, available, built, description, texts
from safe_text import escaped, escaped_json

HOSTILE = "a\x1b[31m\u009b\r\nb\ud800"
SAFE = r"a\x1b[31m\xc2\x9b\x0d\x0ab\xed\xa0\x80"


class Escaped(unittest.TestCase):
    """Texts, JSON, figure files and records."""

    def test_control_characters_are_escaped_and_other_text_stays(self) -> None:
        self.assertEqual(escaped("gr\u00fc\u00df \u20ac \\x $1"), "gr\u00fc\u00df \u20ac \\x $1")
        self.assertEqual(escaped(HOSTILE), SAFE)
        self.assertEqual(escaped("a\nb\r\n", kept="\n"), "a\nb\\x0d\n")

    def test_every_text_and_key_of_json_is_escaped(self) -> None:
        self.assertEqual(escaped_json({HOSTILE: [HOSTILE, 1, None, {"k": HOSTILE}], "k": True}),
                         {SAFE: [SAFE, 1, None, {"k": SAFE}], "k": True})

    @NEEDS_MATPLOTLIB
    def test_a_figure_shows_control_characters_escaped(self) -> None:
        value = description("bars")
        value["title"] = value["provenance"] = value["x"]["label"] = HOSTILE
        value["series"][0]["name"] = value["series"][0]["points"][0]["x"] = HOSTILE

        shown = texts(built(value))

        self.assertNotRegex(shown, "[\x1b\u009b\r\ud800]")
        self.assertIn(r"a\x1b[31m\xc2\x9b", shown)

    @unittest.skipUnless(available("pandas"), "pandas is not installed")
    def test_records_are_read_with_their_texts_escaped(self) -> None:
        from records import environment, read_points

        with tempfile.TemporaryDirectory() as folder:
            lines = [{"type": "env", "env_id": "e", "host": {"cpu": HOSTILE}},
                     {"point_id": "p", "env_id": "e", "reason": HOSTILE, HOSTILE: 1}]
            (Path(folder) / "records.jsonl").write_text(
                "".join(json.dumps(line) + "\n" for line in lines))

            self.assertIn(SAFE, environment(Path(folder)))
            [point] = read_points(Path(folder))

        self.assertEqual((point["reason"], point[SAFE]), (SAFE, 1))


if __name__ == "__main__":
    unittest.main()
