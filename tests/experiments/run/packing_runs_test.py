"""Tests of runs that only pack: records, resuming, shards, points one by one, tables and figures.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/run/packing_runs_test.py`. Matrices are generated;
all files go to a temporary folder.
"""

import json
import unittest
from typing import Any

from program import POISSON, RMAT, UNIFORM, ProgramTest, machine, records_in


class PackingTest(ProgramTest):
    """Backend pack, from a config to its table."""

    def packing(self, *matrices: str, rest: str = "", backends: str = '"pack"',
                other_order: str = "degree") -> str:
        """Path of a config: matrices x orders x formats."""
        path = self.folder / "c.toml"
        names = ", ".join(f'"{matrix}"' for matrix in matrices)
        path.write_text(f'schema = 1\n[experiment]\nid = "c"\nbackends = [{backends}]\n'
                        f'[grid]\nmatrix = [{names}]\nreorder = ["none", "{other_order}"]\n'
                        f'format = ["csr", "bit_tcf"]\n{rest}\n')
        return str(path)

    def counted(self) -> list[dict[str, Any]]:
        """What of the records has to be the same every time."""
        return [{"id": r["point_id"], "statistics": r["statistics"], "check": r["check"],
                 "arrays": r["prep"]["arrays"]} for r in records_in(self.records)]

    def test_every_point_is_timed_weighed_and_unpacked(self) -> None:
        self.run_config(self.packing(UNIFORM, POISSON))

        records = records_in(self.records)
        self.assertEqual(len(records), 8)
        for record in records:
            self.assertEqual(record["status"], "ok", record)
            self.assertEqual(record["origin"], "measured")
            self.assertTrue(record["check"]["round_trip_exact"])
            self.assertGreaterEqual(record["time"]["n"], 3)
            prep = record["prep"]
            self.assertEqual(sum(prep["arrays"].values()), prep["footprint_bytes"])
            self.assertEqual(prep["index_bytes"] + prep["value_bytes"], prep["footprint_bytes"])
            self.assertEqual(record["statistics"]["nnz"], record["matrix"]["nnz"])
            self.assertEqual(set(record["params"]),
                             {"backend", "matrix", "values", "seed", "reorder", "format"})

    def test_statistics_are_of_the_matrix_in_its_new_order(self) -> None:
        self.run_config(self.packing("shuffle(of=poisson2d(nx=30, ny=30))", other_order="rcm"))

        bandwidth = {r["params"]["reorder"]["name"]: r["statistics"]["bandwidth"]
                     for r in records_in(self.records)}
        self.assertLess(bandwidth["rcm"], bandwidth["none"])

    def test_a_second_run_does_nothing_and_shards_give_the_same(self) -> None:
        config = self.packing(UNIFORM, RMAT)
        self.run_config(config)
        whole = self.counted()

        self.assertIn("c: 0 run now, 8 ok", self.run_config(config).stderr)
        status = self.json_of("status", config, "--out", str(self.out), "--json")
        self.assertEqual(status, {"experiment": "c", "points": 8, "left": 0,
                                  "by_status": {"ok": 8}, "skips": []})
        self.assertIn("8 points in all, 0 of them without a record",
                      self.run_config(config, "--dry-run").stdout)
        self.records.unlink()
        for shard in ("1/2", "2/2"):
            self.run_config(config, "--shard", shard)
        parts = [r for path in self.out.glob("*.jsonl") for r in records_in(path)]
        self.assertEqual({r["point_id"] for r in parts}, {entry["id"] for entry in whole})

    def test_points_of_a_plan_run_one_by_one(self) -> None:
        config = self.packing(UNIFORM)
        plan = self.tessera("plan", config, "--json").stdout.splitlines()

        for line in plan:
            self.tessera("point", "--json", "-", "--out", str(self.records), given=line)
        one_by_one = self.counted()
        self.records.unlink()
        self.run_config(config)

        self.assertEqual(one_by_one, self.counted())
        self.assertIn("degree bit_tcf", self.tessera("plan", config).stdout)
        self.assertIn("'n'", self.tessera("point", "--json", json.dumps(
            {**json.loads(plan[0])["point"], "n": 8}), code=2).stderr)

    def test_columns_of_statistics_make_tables_figures_and_expectations(self) -> None:
        rest = ('[statistics]\nsquare = true\n'
                '[[derive]]\nname = "ratio"\nexpr = "predicted_bytes_tcf / footprint_bytes"\n'
                '[[unfold]]\nname = "blocks"\nof = "tiles_per_block_row_histogram_16x16"\n'
                '[table]\ncolumns = ["matrix", "reorder", "format", "square_products", "ratio"]\n'
                '[[figure]]\nkind = "heatmap"\nx = "blocks"\ny = "share"\nseries = "matrix"\n'
                'where = { unfolded = "blocks", reorder = "none", format = "csr" }\n'
                '[[expect]]\nname = "tiles"\nsource = "Table 1"\ncolumn = "square_products"\n'
                'statistic = "min"\ntrend = "at_least"\nvalue = 1\n')
        config = self.packing(POISSON, RMAT, rest=rest)

        done = self.run_config(config)

        self.assertIn("tiles: min square_products over 8", done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 2 + 8)
        self.tessera("figure", config, "--out", str(self.out))
        [figure] = self.out.rglob("heatmap.json")
        described = json.loads(figure.read_text())
        self.assertEqual({s["origin"] for s in described["series"]}, {"counted"})
        for series in described["series"]:
            self.assertAlmostEqual(sum(point["y"] for point in series["points"]), 1)

    def test_a_config_that_mixes_packing_with_products_is_refused(self) -> None:
        config = self.packing(UNIFORM, rest='kernel = "csr_spmm"')

        self.assertIn("kernel is of a product", self.run_config(config, code=2).stderr)
        self.assertIn("no kernel is given", self.run_config(
            self.packing(UNIFORM), "--backend", "emulate", code=2).stderr)

    def test_packing_on_a_gpu_is_skipped_with_its_reason_where_there_is_none(self) -> None:
        if machine()["backends"]["pack_gpu"] == "works":
            self.skipTest("there is a GPU")
        config = self.packing(UNIFORM, backends='"pack", "pack_gpu"')

        left_out = self.run_config(config)
        self.assertEqual(self.statuses(), {"ok": 4})
        self.assertIn("here pack runs", left_out.stderr)
        self.run_config(config, "--as-written")

        self.assertEqual(self.statuses(), {"ok": 4, "skipped": 4})
        [reason] = {r["reason"] for r in records_in(self.records) if r["status"] == "skipped"}
        self.assertEqual(reason, machine()["backends"]["pack_gpu"])
        self.run_config(config, "--require", "pack_gpu", code=5)


if __name__ == "__main__":
    unittest.main()
