"""`tessera merge` of records of several machines; that of shards is tested with the runs."""

import itertools
import json
import unittest

from program import UNIFORM, ProgramTest, records_in

# Machine, year and status of the records of one point: m1 has a result, m2 two, m3 a failure.
PARTS = (("m1", 2002, "ok"), ("m2", 2003, "ok"), ("m2", 2001, "ok"), ("m3", 2004, "failed"))


class MergeTest(ProgramTest):
    def test_the_results_of_every_machine_stay_and_the_latest_counts(self) -> None:
        config = self.config(UNIFORM)
        self.run_config(config)
        lines = [json.loads(line) for line in self.records.read_text().splitlines()]
        parts = []
        for machine, year, status in PARTS:
            for line in lines:
                line["env_id"] = machine
                if line["type"] == "point":
                    line |= {"finished_at": f"{year}-01-01T00:00:00Z", "status": status}
            parts.append(self.folder / f"{machine}-{year}.jsonl")
            parts[-1].write_text("".join(json.dumps(line) + "\n" for line in lines))

        for order in itertools.permutations(map(str, parts)):
            with self.subTest(order):
                done = self.tessera("merge", *order, "--out", str(self.folder / "m"))
                merged = records_in(self.folder / "m" / "records.jsonl")

                self.assertEqual(sorted((record["env_id"], record["finished_at"][:4])
                                        for record in merged),
                                 [("m1", "2002")] * 2 + [("m2", "2003")] * 2)  # fmt: skip
                last = {record["point_id"]: record["env_id"] for record in merged}
                self.assertEqual(list(last.values()), ["m2"] * 2)
                self.assertIn("2 points, 3 environments, 4 doubled, 2 results of another machine",
                              done.stderr)  # fmt: skip


if __name__ == "__main__":
    unittest.main()
