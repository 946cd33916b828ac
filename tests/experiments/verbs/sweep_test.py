"""Tests of `tessera sweep`: points, resumption, saved configs, tables, figures and messages.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/verbs/sweep_test.py`.
"""

import csv
import json
import os
import subprocess
import unittest
from pathlib import Path
from typing import Any

from program import RMAT, UNIFORM, ProgramTest, records_in


def python_draws() -> bool:
    """Whether the Python of the figures has matplotlib."""
    python = os.environ.get("TESSERA_PYTHON", "/usr/bin/python3")
    return subprocess.run([python, "-c", "import matplotlib"], capture_output=True,
                          check=False).returncode == 0


class SweepTest(ProgramTest):
    """tessera sweep."""

    KERNELS = ("--kernel", "csr_spmm,acc_spmm")

    def sweep(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """A modelled sweep of two small matrices."""
        return self.tessera("sweep", UNIFORM, RMAT, "--backend", "model", *self.KERNELS,
                            *arguments, code=code)

    def hashes(self, *arguments: str) -> set[str]:
        """Those of the points of `tessera plan`."""
        lines = self.tessera("plan", *arguments, "--json").stdout.splitlines()
        return {json.loads(line)["hash"] for line in lines}

    def test_a_sweep_prints_its_table_and_continues_where_it_was(self) -> None:
        first = self.sweep("--n", "8:32:*2", "--baseline", "csr_spmm")
        again = self.sweep("--n", "8:32:*2", "--baseline", "csr_spmm")

        lines = first.stdout.splitlines()
        self.assertIn("speed relative to csr_spmm", lines[0])
        self.assertEqual(lines[2].split(), ["matrix", "n", "csr_spmm", "acc_spmm"])
        self.assertEqual(sum("(1.00x)" in line for line in lines[4:10]), 6)
        self.assertEqual(sum(line.startswith("geometric mean") for line in lines), 3)
        self.assertIn("12 run now, 12 ok", first.stderr)
        self.assertIn("12 modelled", first.stderr)
        self.assertIn("0 run now, 12 ok", again.stderr)
        self.assertEqual(again.stdout, first.stdout)
        [folder] = (self.folder / "out").iterdir()
        self.assertEqual(len(records_in(folder / "records.jsonl")), 12)

    def test_the_saved_config_has_the_same_points_and_finds_their_records(self) -> None:
        self.sweep("--n", "8,16", "--reorder", "none,degree", "--set", "precision=tf32,tf32_raw",
                   "--skip", "kernel=csr_spmm,n=16", "--save", "saved.toml")
        [folder] = (self.folder / "out").iterdir()
        ran = {record["params_hash"] for record in records_in(folder / "records.jsonl")}

        self.assertEqual(self.hashes("saved.toml"), ran)
        # 2 matrices x 2 orders x (3 kernels of n = 8, 2 of n = 16)
        self.assertEqual(len(ran), 20)
        self.assertIn("0 run now, 20 ok", self.tessera("run", "saved.toml").stderr)

    def test_a_matrix_file_is_found_wherever_the_saved_config_lies(self) -> None:
        (self.folder / "elsewhere").mkdir()
        (self.folder / "a.mtx").write_text("%%MatrixMarket matrix coordinate real general\n"
                                           "2 2 2\n1 1 1.5\n2 2 2.5\n", encoding="utf-8")
        self.tessera("sweep", "a.mtx", "--backend", "model", *self.KERNELS, "--save",
                     "elsewhere/saved.toml")
        self.assertIn(str(self.folder / "a.mtx"),
                      (self.folder / "elsewhere" / "saved.toml").read_text())

    def test_json_and_csv_have_every_point(self) -> None:
        found: Any = json.loads(self.sweep("--n", "8", "--measure", "time_us", "--csv", "all.csv",
                                           "--json").stdout)
        with Path(self.folder / "all.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))

        self.assertEqual(len(found["points"]), 4)
        self.assertEqual([float(row["time_us"]) for row in rows],
                         [point["time_us"] for point in found["points"]])
        self.assertEqual(found["table"]["measure"], "time_us")
        self.assertFalse(found["table"]["larger_is_better"])
        for line in found["table"]["lines"]:
            values = {name: cell["value"] for name, cell in line["cells"].items()}
            best = [name for name, cell in line["cells"].items() if cell.get("best")]
            # The roofline may give two kernels one time.
            least = min(values.values())
            self.assertEqual(best, [name for name, value in values.items() if value == least])

    def test_several_measures_make_a_line_for_each_product(self) -> None:
        text = self.sweep("--n", "8", "--measure", "time_us,footprint_bytes").stdout
        self.assertEqual(text.splitlines()[0].split(),
                         ["matrix", "kernel", "time_us", "footprint_bytes", "status"])
        self.assertEqual(len(text.splitlines()), 2 + 4)

    def test_skips_say_their_reasons_and_a_sweep_of_skips_alone_is_no_success(self) -> None:
        some = self.tessera("sweep", UNIFORM, "nowhere", "--backend", "model", *self.KERNELS)
        self.assertIn("nowhere", some.stderr)
        self.assertIn("skipped", some.stdout)
        none = self.tessera("sweep", "nowhere", "--backend", "model", *self.KERNELS,
                            code=8)
        self.assertIn("2 skipped", none.stderr)

    def test_a_dry_run_counts_and_runs_nothing(self) -> None:
        text = self.sweep("--n", "8,16", "--dry-run").stdout
        self.assertIn("8 points in all, 8 of them without a record", text)
        [folder] = (self.folder / "out").iterdir()
        self.assertEqual([path.name for path in folder.iterdir()], ["sweep.toml"])

    @unittest.skipUnless(python_draws(), "there is no Python with matplotlib")
    def test_the_figure_is_drawn_where_it_was_asked_for(self) -> None:
        self.sweep("--n", "8,16", "--reorder", "none,degree", "--figure", "drawn/speed.png",
                   "--baseline", "csr_spmm")
        drawn = sorted(path.name for path in (self.folder / "drawn").iterdir())
        self.assertEqual(drawn, ["speed_reorder-degree.png", "speed_reorder-none.png"])
        self.assertTrue((self.folder / "drawn" / drawn[0]).read_bytes().startswith(b"\x89PNG"))

    def test_mistakes_are_told_before_anything_runs_with_the_nearest_name(self) -> None:
        for arguments, message in (
                (("--kernel", "acc_smpm"), "did you mean 'acc_spmm'"),
                (("--kernel", "acc_spmm(stage=1)"), "did you mean 'stages'"),
                (("--reorder", "rcmm"), "did you mean 'rcm'"),
                (("--n", "0"), "1 or more was expected"),
                (("--n", "8:64"), "a range FROM:TO:STEP"),
                (("--backend", "modle"), "did you mean 'model'"),
                (("--backend", "pack"), "a sweep multiplies"),
                (("--device", "h20"), "h200"),
                (("--baseline", "csr_smpm"), "did you mean 'csr_spmm'"),
                (("--skip", "m=1"), "unknown axis 'm'"),
                (("--set", "precison=tf32"), "did you mean 'precision'"),
                (("--set", "measure.l3=warm"), "l3"),
                (("--right", "self"), "none of the kernels takes one"),
                (("--measure", "gflop"), "did you mean 'gflops'"),
                (("--figure", "x.jpg"), "has to end in .pdf, .png")):
            with self.subTest(arguments=arguments):
                kernel = () if arguments[0] == "--kernel" else self.KERNELS
                backend = () if arguments[0] == "--backend" else ("--backend", "model")
                done = self.tessera("sweep", UNIFORM, *kernel, *backend, *arguments, code=2)
                self.assertIn(message, done.stderr)
                self.assertNotIn("run now", done.stderr)


if __name__ == "__main__":
    unittest.main()
