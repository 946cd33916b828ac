"""`tessera submit` where no cluster is needed: scripts, site files, divisions, and a stand-in for hq."""

import json
import unittest
from pathlib import Path

import tomllib

from program import POISSON, RMAT, UNIFORM, ProgramTest, records_in, results

# Runs the tasks of a job definition file one after another, and answers as HyperQueue documents it.
HQ = '''#!/usr/bin/python3
import json, pathlib, subprocess, sys, tomllib
state = pathlib.Path(__file__).parent / "jobs.json"
jobs = json.loads(state.read_text()) if state.exists() else {}
mode, *command = sys.argv[1:]
assert mode == "--output-mode=json"
if command[:2] == ["job", "submit-file"]:
    job = tomllib.loads(pathlib.Path(command[2]).read_text())
    ended, tasks = {}, []
    for task in job["task"]:
        assert all(ended[one] == 0 for one in task.get("deps", []))
        with open(task["stdout"], "w") as log:
            done = subprocess.run(task["command"], stdout=log, stderr=log)
        ended[task["id"]] = done.returncode
        tasks.append({"id": task["id"], "state": "finished" if done.returncode == 0 else "failed"})
    jobs[str(len(jobs) + 1)] = tasks
    state.write_text(json.dumps(jobs))
    print(json.dumps({"id": len(jobs)}))
else:
    assert command[:2] == ["task", "list"], command
    print(json.dumps({one: jobs[one] for one in command[2].split(",")}))
'''

SITE = """\
schema = 1
container = "/images/tessera one.sif"
setup = ["module load cuda"]
[slurm]
partition = "gpu"
account = "p1"
qos = "long"
time = "04:00:00"
gres = "gpu:1"
cpus = 8
memory = "32G"
constraint = "h200"
at_once = 2
options = ["--exclusive"]
merge_partition = "cpu"
"""


class SubmitTest(ProgramTest):
    """No scheduler is reached."""

    def setUp(self) -> None:
        super().setUp()
        self.programs = self.folder / "programs"
        self.programs.mkdir()
        (self.programs / "bash").symlink_to("/bin/bash")

    def environment(self) -> dict[str, str]:
        return super().environment() | {"PATH": str(self.programs)}

    def site(self, text: str) -> str:
        """Path of a new site file."""
        path = self.folder / "site.toml"
        path.write_text(text)
        return str(path)

    def scripts(self, config: str, scheduler: str, *arguments: str) -> dict[str, str]:
        """Those of a dry run, by file name."""
        answer = self.json_of("submit", config, "--on", scheduler, "--out", str(self.out),
                              "--dry-run", "--json", *arguments)  # fmt: skip
        return {Path(path).name: text for path, text in answer["scripts"].items()}

    def divided(self, config: str, shards: int, *arguments: str) -> dict[str, int]:
        """Submits by the stand-in for hq; the shard of every matrix."""
        self.tessera("submit", config, "--on", "hyperqueue", "--shards", str(shards), "--out",
                     str(self.out), *arguments)  # fmt: skip
        return json.loads((self.out / "cluster" / "submission.json").read_text())["matrices"]

    def plant_hq(self) -> None:
        """Puts the stand-in on the path."""
        (self.programs / "hq").write_text(HQ)
        (self.programs / "hq").chmod(0o755)

    def test_a_dry_run_prints_scripts_with_all_that_the_site_file_says(self) -> None:
        config = self.config(UNIFORM, RMAT, POISSON)

        scripts = self.scripts(config, "slurm", "--shards", "2", "--site", self.site(SITE),
                               "--set", "grid.n=[3]")  # fmt: skip
        text = self.tessera("submit", config, "--on", "slurm", "--shards", "2", "--out",
                            str(self.out), "--dry-run").stdout  # fmt: skip

        folder = self.out / "cluster"
        options = [line.removeprefix("#SBATCH ") for line in scripts["shards.sh"].splitlines()
                   if line.startswith("#SBATCH ")]  # fmt: skip
        self.assertEqual(options, [
            "--job-name=tessera-c", f"--output={folder}/shard-%a.log", "--open-mode=append",
            "--account=p1", "--qos=long", "--array=1-2%2", "--requeue", "--partition=gpu",
            "--time=04:00:00", "--gres=gpu:1", "--cpus-per-task=8", "--mem=32G",
            "--constraint=h200", "--exclusive"])  # fmt: skip
        self.assertEqual(
            scripts["shards.sh"].splitlines()[-1],
            f"exec apptainer exec --nv '/images/tessera one.sif' tessera run {config} --as-written "
            f"--out {self.out} --set 'grid.n=[3]' --shard \"$SLURM_ARRAY_TASK_ID/2\"")  # fmt: skip
        self.assertIn("\nmodule load cuda\n", scripts["shards.sh"])
        self.assertIn(f"\nexport TESSERA_DATA={self.folder}\n", scripts["shards.sh"])
        self.assertIn("#SBATCH --partition=cpu\n", scripts["merge.sh"])
        self.assertNotIn("gres", scripts["merge.sh"])
        self.assertIn(f"==> {folder}/shards.sh\n#!/bin/bash\n", text)
        self.assertIn(f"==> sbatch --parsable --dependency=afterany:JOB {folder}/merge.sh", text)
        self.assertFalse(self.out.exists())

    def test_a_site_file_with_a_fault_is_refused_with_its_place(self) -> None:
        faults = {
            'schema = 1\n[slurm]\npartitoin = "gpu"\n':
                "site.toml:3:1: unknown key in [slurm] 'partitoin', did you mean 'partition'",
            'schema = 1\nslurm = 3\n': "site.toml:2:9: [slurm] takes a table, not 3",
            'schema = 1\n[slurm]\ncpus = "8"\n': "site.toml:3:8: cpus takes an integer, not '8'",
            "schema = 1\n[slurm]\ncpus = -1\n": "cpus takes 0 or more, not -1",
            'schema = 1\nsetup = ["a\\nb"]\n': "site.toml:2:10: a value of a site file has one line",
            'schema = 1\n[grid]\n': "site.toml:2:2: unknown key in the site file 'grid'",
        }  # fmt: skip
        for text, fault in faults.items():
            with self.subTest(text):
                done = self.tessera("submit", self.config(UNIFORM), "--on", "slurm", "--shards",
                                    "1", "--site", self.site(text), "--dry-run", code=2)  # fmt: skip
                self.assertIn(fault, done.stderr)

    def test_without_the_scheduler_nothing_is_submitted(self) -> None:
        for scheduler, command in (("slurm", "sbatch"), ("hyperqueue", "hq")):
            done = self.tessera("submit", self.config(UNIFORM), "--on", scheduler, "--shards", "1",
                                "--out", str(self.out), code=5)  # fmt: skip
            self.assertIn(f"there is no {command} on the PATH", done.stderr)
        self.assertFalse(self.out.exists())

    def test_the_first_submission_has_to_say_how_many_shards(self) -> None:
        done = self.tessera("submit", self.config(UNIFORM), "--on", "slurm", "--dry-run", code=2)

        self.assertIn("--shards is missing", done.stderr)

    def test_a_node_without_a_gpu_is_refused_where_points_need_one(self) -> None:
        config = self.config(UNIFORM, backends='"gpu", "emulate"')

        done = self.tessera("submit", config, "--on", "slurm", "--shards", "1", "--dry-run")

        self.assertIn(" --require gpu ", done.stdout)
        self.assertIn("its points need a GPU, and the site file asks for none", done.stderr)

    def test_a_run_of_a_shard_follows_the_division_that_was_submitted(self) -> None:
        self.plant_hq()
        config = self.config(UNIFORM, RMAT, POISSON)
        division = self.divided(config, 2)
        for path in self.out.glob("records-*"):
            path.unlink()
        submission = self.out / "cluster" / "submission.json"
        text = json.loads(submission.read_text())
        text["matrices"] = {matrix: 3 - shard for matrix, shard in division.items()}
        submission.write_text(json.dumps(text))

        self.run_config(config, "--shard", "1/2")
        changed = self.run_config(self.config(UNIFORM, RMAT, "band(n=9)"), "--shard", "1/2", code=2)

        self.assertEqual({record["params"]["matrix"]
                          for record in records_in(self.out / "records-1-of-2.jsonl")},
                         {matrix for matrix, shard in division.items() if shard == 2})  # fmt: skip
        self.assertIn("no shard has the matrix band(n=9", changed.stderr)

    def test_shards_are_balanced_by_the_times_of_earlier_records(self) -> None:
        self.plant_hq()
        matrices = [f"uniform(rows=40, cols=30, density=0.1, seed={seed})" for seed in range(4)]
        config = self.config(*matrices, n=[4])
        self.run_config(config)
        lines = [json.loads(line) for line in self.records.read_text().splitlines()]
        for line in lines:  # the first matrix takes as long as the three others together
            if line["type"] == "point":
                line["attempt_s"] = 3 if "seed=0" in line["params"]["matrix"] else 1
        times = self.folder / "times.jsonl"
        times.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.out = self.folder / "other"

        division = self.divided(config, 2, "--times", str(times))

        [alone] = {shard for matrix, shard in division.items() if "seed=0" in matrix}
        self.assertEqual(sum(shard == alone for shard in division.values()), 1)
        self.assertEqual(json.loads((self.out / "cluster" / "submission.json").read_text())
                         ["balanced_by"], "the seconds of earlier records")  # fmt: skip

    def test_hyperqueue_gets_a_task_for_each_shard_and_one_that_merges(self) -> None:
        site = self.site('schema = 1\n[hyperqueue]\ncpus = 4\ngpus = 1\ntime = "1h"\n')

        scripts = self.scripts(self.config(UNIFORM, RMAT, POISSON), "hyperqueue", "--shards", "2",
                               "--site", site)  # fmt: skip

        job = tomllib.loads(scripts["job.toml"])
        folder = self.out / "cluster"
        self.assertEqual(job["name"], "tessera-c")
        self.assertEqual(job["task"][1], {
            "id": 2, "command": ["bash", f"{folder}/shard.sh", "2"], "time_limit": "1h",
            "stdout": f"{folder}/shard-2.log", "stderr": f"{folder}/shard-2.log",
            "request": [{"resources": {"cpus": 4, "gpus/nvidia": 1}}]})  # fmt: skip
        self.assertEqual((job["task"][2]["id"], job["task"][2]["deps"]), (3, [1, 2]))
        # A task that failed would cancel the merge.
        self.assertTrue(scripts["shard.sh"].endswith(' --shard "$1/2"\nexit 0\n'))

    def test_hyperqueue_runs_and_merges_and_status_tells_it(self) -> None:
        self.plant_hq()
        config = self.config(UNIFORM, RMAT, POISSON)
        answer = self.json_of("submit", config, "--on", "hyperqueue", "--shards", "2", "--out",
                              str(self.out), "--json")  # fmt: skip
        lost = self.out / "records-1-of-2.jsonl"
        whole = results(records_in(self.out / "merged" / "records.jsonl"))
        lost.write_text("".join(line + "\n" for line in lost.read_text().splitlines()[:2]))

        failed = self.tessera("status", config, "--out", str(self.out)).stdout.splitlines()
        again = self.json_of("submit", config, "--on", "hyperqueue", "--out", str(self.out),
                             "--json")  # fmt: skip
        status = self.json_of("status", config, "--out", str(self.out), "--json")["cluster"]

        self.assertEqual((answer["job"], answer["submitted"], len(whole)), ("1", [1, 2], 6))
        self.assertEqual(failed[1].split()[:2], ["1", "failed"])
        count = str(len(records_in(self.out / "records-2-of-2.jsonl")))
        self.assertEqual(failed[2].split(),
                         ["2", "done", count, count, "0", "0", "0", "1_2", "(finished)"])
        self.assertIn(f"logs: {self.out}/cluster/shard-*.log", failed[4])
        self.assertEqual((again["job"], again["submitted"]), ("2", [1]))
        self.assertEqual([shard["state"] for shard in status["shards"]], ["done", "done"])
        self.assertEqual(status["merge"], "job 2, ended (finished)")
        self.assertEqual(results(records_in(self.out / "merged" / "records.jsonl")), whole)


if __name__ == "__main__":
    unittest.main()
