"""`tessera submit --on slurm` on a real Slurm: one controller and three nodes on this machine.

Whatever happens to jobs, nodes and the controller, every point has one record in the end, and the
records are those of one process.
"""

import json
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

import slurm_cluster
from slurm_cluster import SlurmCluster

from program import POISSON, RMAT, UNIFORM, ProgramTest, records_in, results

BAND = "band(n=40)"
MATRICES = (UNIFORM, RMAT, POISSON, BAND)
# Widths: a shard takes some seconds, so that it can be hit in the middle.
MANY = list(range(1, 641))


class SlurmTest(ProgramTest):
    """One cluster for all tests, each with a folder of its own that the nodes see."""

    slurm: SlurmCluster
    whole: dict[str, dict[str, Any]] = {}  # what one process records, by the text of the config
    state: tempfile.TemporaryDirectory[str]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.state = tempfile.TemporaryDirectory(prefix="tessera-slurm-", ignore_cleanup_errors=True)
        cls.addClassCleanup(cls.state.cleanup)
        cls.slurm = SlurmCluster(Path(cls.state.name) / "cluster")
        cls.addClassCleanup(cls.slurm.close)

    def environment(self) -> dict[str, str]:
        slurm = self.slurm.environment()
        return super().environment() | {name: slurm[name] for name in ("PATH", "SLURM_CONF")}

    def submit(self, config: str, *arguments: str) -> Any:
        """`tessera submit` into self.out; its answer."""
        return self.json_of("submit", config, "--on", "slurm", "--out", str(self.out), "--json",
                            *arguments)  # fmt: skip

    def cluster_status(self, config: str) -> Any:
        """The part of `tessera status` about the cluster."""
        return self.json_of("status", config, "--out", str(self.out), "--json")["cluster"]

    def states(self, config: str) -> list[str]:
        """Of the shards."""
        return [shard["state"] for shard in self.cluster_status(config)["shards"]]

    def recorded(self, shard: int) -> int:
        """How many points a shard has recorded."""
        return len(records_in(self.out / f"records-{shard}-of-3.jsonl"))

    def wait_until_empty(self) -> None:
        """Until Slurm has nothing to do, the merge included."""
        self.slurm.wait("the queue is empty", lambda: not self.slurm.call("squeue", "--noheader"))

    def expect_what_one_process_records(self, config: str) -> None:
        """Nothing is lost, nothing twice: neither in the shards' files nor in the merged one."""
        text = Path(config).read_text()
        if text not in self.whole:
            alone = self.folder / "alone"
            self.tessera("run", config, "--out", str(alone))
            self.whole[text] = results(records_in(alone / "records.jsonl"))
        whole = self.whole[text]
        lines = [record for path in self.out.glob("*.jsonl") for record in records_in(path)]
        self.assertEqual(max(Counter(record["params_hash"] for record in lines).values()), 1)
        self.assertEqual(results(lines), whole)
        self.assertEqual(results(records_in(self.out / "merged" / "records.jsonl")), whole)

    def test_three_shards_on_three_nodes_give_the_records_of_one_process(self) -> None:
        site = self.folder / "site.toml"
        site.write_text('schema = 1\nsetup = ["export MARK=set"]\n[slurm]\npartition = "all"\n'
                        'time = "5"\ncpus = 1\noptions = ["--comment=a"]\n')  # fmt: skip
        config = self.config(*MATRICES, kernels='"csr_spmm", "acc_spmm"')

        answer = self.submit(config, "--shards", "3", "--site", str(site))
        self.wait_until_empty()

        self.assertEqual((answer["submitted"], answer["left"]), ([1, 2, 3], 16))
        self.expect_what_one_process_records(config)
        files = {record["params"]["matrix"]: path.name for path in self.out.glob("records-*")
                 for record in records_in(path)}  # fmt: skip
        for path in self.out.glob("records-*"):  # a matrix is read by one shard only
            self.assertEqual({files[record["params"]["matrix"]] for record in records_in(path)},
                             {path.name})  # fmt: skip
        status = self.cluster_status(config)
        self.assertEqual([(shard["state"], shard["left"], shard["detail"])
                          for shard in status["shards"]], [("done", 0, "COMPLETED")] * 3)  # fmt: skip
        self.assertEqual(status["merge"], f"job {answer['merge']}, ended (COMPLETED)")
        self.assertIn("merged", (self.out / "cluster" / "merge.log").read_text())
        self.assertIn("nothing to submit: every point has a record",
                      self.tessera("submit", config, "--on", "slurm", "--out",
                                   str(self.out)).stdout)  # fmt: skip

    def test_a_killed_shard_is_submitted_again_and_the_others_are_not(self) -> None:
        config = self.config(UNIFORM, RMAT, POISSON, n=MANY)
        answer = self.submit(config, "--shards", "3")
        self.slurm.wait("shard 1 is at work", lambda: self.recorded(1) >= 3)
        self.slurm.call("scancel", "--signal=KILL", "--full", f"{answer['job']}_1")
        self.slurm.wait("shard 1 has ended", lambda: self.states(config)[0] != "running")
        killed = self.cluster_status(config)["shards"][0]

        again = self.submit(config)
        self.wait_until_empty()

        self.assertEqual(killed["state"], "failed")
        self.assertGreater(killed["left"], 0)
        self.assertEqual((again["submitted"], again["left"]), ([1], killed["left"]))
        self.assertEqual(self.states(config), ["done"] * 3)
        self.expect_what_one_process_records(config)

    def test_shards_that_wait_or_run_are_not_submitted_again(self) -> None:
        config = self.config(UNIFORM, RMAT, POISSON, n=MANY)
        self.slurm.call("scontrol", "update", "nodename=node2,node3", "state=drain", "reason=test")
        try:
            self.submit(config, "--shards", "3")
            self.slurm.wait("one shard runs", lambda: "running" in self.states(config))
            waiting = self.cluster_status(config)["shards"]
            again = self.submit(config)
            other = self.tessera("submit", config, "--on", "slurm", "--shards", "2", "--out",
                                 str(self.out), code=2).stderr  # fmt: skip
        finally:
            self.slurm.call("scontrol", "update", "nodename=node2,node3", "state=resume")
        self.wait_until_empty()

        self.assertEqual(Counter(shard["state"] for shard in waiting),
                         {"running": 1, "queued": 2})  # fmt: skip
        self.assertEqual(again["submitted"], [])
        self.assertIn("shards of an earlier submission are queued or running", other)
        self.expect_what_one_process_records(config)

    def test_what_runs_on_a_node_that_goes_down_continues_by_itself(self) -> None:
        config = self.config(UNIFORM, RMAT, POISSON, n=MANY)
        answer = self.submit(config, "--shards", "3")
        self.slurm.wait("shard 1 is at work", lambda: self.recorded(1) >= 3)
        task = f"{answer['job']}_1"
        node = self.slurm.call("squeue", "--noheader", "--format=%N", f"--jobs={task}")
        self.slurm.call("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        self.slurm.start_requeued(task)
        self.wait_until_empty()

        self.assertIn("Restarts=1", self.slurm.call("scontrol", "show", "job", task))
        self.assertEqual(self.states(config), ["done"] * 3)
        self.expect_what_one_process_records(config)

    def test_a_shard_that_is_preempted_continues_by_itself(self) -> None:
        config = self.config(UNIFORM, RMAT, POISSON, n=MANY)
        answer = self.submit(config, "--shards", "3")
        self.slurm.wait("every shard is at work", lambda: all(map(self.recorded, (1, 2, 3))))
        urgent = self.slurm.call("sbatch", "--parsable", "--partition=urgent", "--output=/dev/null",
                                 "--wrap=sleep 1")  # fmt: skip
        self.slurm.wait("a shard makes room", lambda: "queued" in self.states(config))
        preempted = self.states(config).index("queued") + 1
        self.slurm.start_requeued(f"{answer['job']}_{preempted}")
        self.wait_until_empty()

        self.assertIn("COMPLETED", self.slurm.call("scontrol", "show", "job", urgent))
        self.assertEqual(self.states(config), ["done"] * 3)
        self.expect_what_one_process_records(config)

    def test_shards_run_on_while_the_controller_is_away(self) -> None:
        config = self.config(UNIFORM, RMAT, POISSON, n=MANY)
        self.submit(config, "--shards", "3")
        self.slurm.wait("every shard is at work", lambda: all(map(self.recorded, (1, 2, 3))))
        self.slurm.stop("slurmctld")
        before = sum(map(self.recorded, (1, 2, 3)))
        away = self.cluster_status(config)
        refused = self.tessera("submit", config, "--on", "slurm", "--out", str(self.out), code=2)
        after = sum(map(self.recorded, (1, 2, 3)))
        self.slurm.start_controller()
        self.wait_until_empty()

        self.assertGreater(after, before)
        self.assertIn("squeue", away["unanswered"])
        self.assertIn("squeue", refused.stderr)
        self.assertEqual(self.states(config), ["done"] * 3)
        self.expect_what_one_process_records(config)

    def test_what_slurm_refuses_is_an_error_with_its_reason(self) -> None:
        site = self.folder / "site.toml"
        site.write_text('schema = 1\n[slurm]\npartition = "nowhere"\n')

        done = self.tessera("submit", self.config(UNIFORM), "--on", "slurm", "--shards", "1",
                            "--site", str(site), "--out", str(self.out), code=2)  # fmt: skip

        self.assertIn("invalid partition", done.stderr)
        self.assertIn("sbatch", done.stderr.splitlines()[-1])
        submission = json.loads((self.out / "cluster" / "submission.json").read_text())
        self.assertEqual(submission["jobs"], [])


if __name__ == "__main__":
    if absent := slurm_cluster.missing():
        print(f"skipped: Slurm is not installed (no {', '.join(absent)}; Debian's slurm-wlm has it)")
        sys.exit(77)
    unittest.main()
