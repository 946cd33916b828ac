"""Tests of runs that only find orders, and of orders that runs take from the cache.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/run/reordering_runs_test.py`. Matrices are
generated; all files go to a temporary folder.
"""

import json
import os
import tempfile
import unittest
from typing import Any

from program import ProgramTest, records_in

# Whose order takes long enough to be kept.
LARGE = "rmat(scale=13)"


class ReorderingTest(ProgramTest):
    """Backend reorder, from a config to its table, and the cache of orders."""

    def setUp(self) -> None:
        super().setUp()
        own = tempfile.TemporaryDirectory(prefix="tessera-cache-")
        self.addCleanup(own.cleanup)
        self.own = own.name

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "TESSERA_CACHE": self.own}

    def reordering(self, backend: str = "reorder", rest: str = "") -> str:
        """Path of a config: two orders of one matrix."""
        path = self.folder / "c.toml"
        path.write_text(f'schema = 1\n[experiment]\nid = "c"\nbackends = ["{backend}"]\n'
                        f'[grid]\nmatrix = "{LARGE}"\nreorder = ["none", "affinity"]\n{rest}\n')
        return str(path)

    def by_order(self) -> dict[str, dict[str, Any]]:
        """Records by the name of the reordering."""
        return {r["params"]["reorder"]["name"]: r for r in records_in(self.records)}

    def test_every_order_is_timed_and_the_matrix_described_in_it(self) -> None:
        self.run_config(self.reordering(rest='[table]\ncolumns = ["reorder", "mean_nnz_tc_8x8", '
                                             '"reorder_s", "reorder_peak_bytes", "threads"]'))

        found = self.by_order()
        self.assertEqual(self.statuses(), {"ok": 2})
        for record in found.values():
            self.assertEqual(set(record["params"]), {"backend", "matrix", "reorder", "threads"})
            self.assertEqual(record["origin"], "measured")
            self.assertGreater(record["time"]["median_us"], 0)
            self.assertFalse(record["prep"]["reorder_from_cache"])
            self.assertEqual(record["statistics"]["nnz"], record["matrix"]["nnz"])
        self.assertGreater(found["affinity"]["statistics"]["mean_nnz_tc_8x8"],
                           found["none"]["statistics"]["mean_nnz_tc_8x8"])

        self.assertIn("c: 0 run now, 2 ok", self.run_config(self.reordering()).stderr)

    def test_points_of_a_plan_run_one_by_one_and_threads_are_an_axis(self) -> None:
        config = self.reordering(rest="threads = [0, 1]")

        lines = self.tessera("plan", config, "--json").stdout.splitlines()
        self.assertEqual([json.loads(line)["point"]["threads"] for line in lines], [0, 1, 0, 1])
        self.tessera("point", "--json", lines[3], "--out", str(self.records))

        [record] = records_in(self.records)
        self.assertEqual(record["prep"]["reorder_threads"], 1)

    def test_an_order_is_kept_for_the_next_run_unless_a_fresh_one_is_asked_for(self) -> None:
        config = self.reordering("pack", rest='format = "csr"')
        runs = []
        for more in ((), ("--rerun", "all"), ("--rerun", "all", "--fresh-orders")):
            self.run_config(config, *more)
            runs.append(self.by_order()["affinity"])

        self.assertEqual([r["prep"]["reorder_from_cache"] for r in runs], [False, True, False])
        self.assertEqual(runs[1]["prep"]["reorder_s"], runs[0]["prep"]["reorder_s"])
        self.assertEqual(runs[1]["statistics"], runs[2]["statistics"])
        self.assertFalse(self.by_order()["none"]["prep"]["reorder_from_cache"])

    def test_a_damaged_order_is_computed_again(self) -> None:
        config = self.reordering("pack", rest='format = "csr"')
        self.run_config(config)
        [kept] = [os.path.join(self.own, "orders", name)
                  for name in os.listdir(os.path.join(self.own, "orders"))]
        with open(kept, "r+b") as file:
            file.seek(200)
            file.write(b"\xff")

        done = self.run_config(config, "--rerun", "all")

        self.assertIn("it is damaged", done.stderr)
        self.assertEqual(self.statuses(), {"ok": 4})
        self.assertFalse(self.by_order()["affinity"]["prep"]["reorder_from_cache"])


if __name__ == "__main__":
    unittest.main()
