"""Measures the points a second of a sweep on a GPU host: 24 matrices, 12 kernels, N = 128.

    python3 tests/bench/sweep_points.py --csv FILE [--records FOLDER] [--steps STEP ...]

The table is experiments/results/sweeps/points.csv: a row for one process without checks, for
`--gpus all` without checks and with them. The steps of a host of two GPUs are left out unless they
are named: one GPU with half of the cores, which is its share of them, or with all, and both GPUs
with all. A step that is named several times is measured as often, and its row has the sums. `--n`
takes other widths of B than 128, which the row then names. The matrices are those of
experiments/configs/sets/real_matrices.toml, found in $TESSERA_DATA; they are read once before, so
that every row finds them in the cache. $TESSERA_BINARY is the program. The CPU time is that of all
processes. With `--merge` the rows are those of tables that were measured before.
"""

import argparse
import csv
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BINARY = os.environ.get("TESSERA_BINARY", "build/tessera")
KERNELS = ["acc_spmm", "csr_spmm", "cusparse", "cutespmm", "dtc_spmm", "flash_spmm", "rows_spmm",
           "smat", "sputnik", "tca_spmm", "tcgnn", "tessera_spmm"]
WIDTHS = [128]
UNCHECKED = ["--set", "check.enabled=false"]


@dataclass(frozen=True)
class Step:
    """A row of the table, and how it is measured."""

    name: str
    arguments: list[str]
    cores: float = 1  # the share of this process's that the run may use
    default: bool = True


STEPS = {
    "checked": Step("--gpus all, with checks", ["--gpus", "all"]),
    "unchecked": Step("--gpus all, no checks", ["--gpus", "all", *UNCHECKED]),
    "one": Step("one process, no checks", UNCHECKED),
    **{name + ending: Step(f"{title}, {checks}", ["--gpus", gpus, *arguments], cores, False)
       for name, title, gpus, cores in (
           ("one_of_two", "one GPU of two, half of the cores", "1", 0.5),
           ("one_with_all", "one GPU of two, all cores", "1", 1),
           ("two", "two GPUs, all cores", "2", 1))
       for ending, checks, arguments in (
           ("_unchecked", "no checks", UNCHECKED), ("_checked", "with checks", []))},
}

CONFIG = """schema = 1
[experiment]
id = "points"
title = "Points a second"
seed = 42
backends = ["{backend}"]
[grid]
matrix = ["@real_matrices"]
n = {widths}
kernel = {kernels}
device = "h200"
"""


def adopt_orphans() -> None:
    """Makes this process the parent of those that outlive theirs.

    A run does not wait for the system to take its workers apart; their CPU time counts all the
    same, and the next run finds the GPUs free.
    """
    subreaper = 36  # PR_SET_CHILD_SUBREAPER
    if ctypes.CDLL(None, use_errno=True).prctl(subreaper, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot adopt orphans")


def wait_for_orphans() -> None:
    """Waits until no child is left."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def run(folder: Path, backend: str, kernels: list[str], widths: list[int], arguments: list[str],
        share: float = 1) -> tuple[float, float]:
    """The seconds that a run on a share of the cores takes, and its CPU seconds."""
    cores = sorted(os.sched_getaffinity(0))
    cores = cores[:max(1, round(share * len(cores)))]
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "points.toml"
    config.write_text(CONFIG.format(backend=backend, kernels=json.dumps(kernels), widths=widths))
    adopt_orphans()
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([BINARY, "run", str(config), "--out", str(folder / "records"), *arguments],
                   stdout=subprocess.DEVNULL, check=False,
                   preexec_fn=lambda: os.sched_setaffinity(0, cores))
    wall = time.monotonic() - start
    wait_for_orphans()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, sum(getattr(after, name) - getattr(before, name)
                     for name in ("ru_utime", "ru_stime"))


def records_of(folder: Path) -> list[dict[str, Any]]:
    """The records of the points that a run has measured."""
    lines = [json.loads(line) for path in sorted((folder / "records").glob("**/*.jsonl"))
             for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["type"] == "point" and "time" in line]


def title_of(step: Step, widths: list[int]) -> str:
    """The name of a row."""
    return step.name if widths == WIDTHS else f"{step.name}, N = {', '.join(map(str, widths))}"


def measure(folder: Path, name: str, widths: list[int], commit: str) -> dict[str, Any]:
    """One row of the table."""
    step = STEPS[name]
    title = title_of(step, widths)
    print(title, file=sys.stderr, flush=True)
    wall, cpu = run(folder / name, "gpu", KERNELS, widths, step.arguments, step.cores)
    return row_of(title, commit, len(records_of(folder / name)), wall, cpu)


def row_of(step: str, commit: str, count: int, wall: float, cpu: float) -> dict[str, Any]:
    """A row of the table."""
    return {"step": step, "points": count, "wall_s": f"{wall:.2f}",
            "points_per_s": f"{count / wall:.2f}", "cpu_s": f"{cpu:.1f}", "origin": "measured",
            "commit": commit}


def added(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """The row of two measurements of a step."""
    return row_of(a["step"], a["commit"], a["points"] + b["points"],
                  float(a["wall_s"]) + float(b["wall_s"]), float(a["cpu_s"]) + float(b["cpu_s"]))


def version_commit() -> str:
    """The commit that the program names."""
    version = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True)
    return version.stdout.split("commit ")[-1].split()[0].strip(",()")


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """The table, in the order of the steps."""
    order = [step.name for step in STEPS.values()]

    def place(row: dict[str, Any]) -> tuple[int, str]:
        return order.index(row["step"].split(", N = ")[0]), row["step"]

    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        table.writeheader()
        table.writerows(sorted(rows, key=place))


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, required=True, help="file for the table")
    parser.add_argument("--records", type=Path, help="folder for the records, which stay there")
    parser.add_argument("--steps", nargs="+", choices=sorted(STEPS),
                        default=[name for name, step in STEPS.items() if step.default])
    parser.add_argument("--n", type=int, nargs="+", default=WIDTHS, help="widths of B")
    parser.add_argument("--commit", help="of a program that does not know it")
    parser.add_argument("--merge", nargs="+", type=Path, help="tables to join, none is measured")
    options = parser.parse_args()
    if options.merge:
        write(options.csv, [row for path in options.merge
                            for row in csv.DictReader(path.open(encoding="utf-8"))])
        return
    commit = options.commit or version_commit()
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.records or Path(temporary)
        run(Path(temporary) / "read", "model", ["csr_spmm"], WIDTHS, [])
        for step in options.steps:
            shutil.rmtree(folder / step, ignore_errors=True)
            row = measure(folder, step, options.n, commit)
            print(json.dumps(row), file=sys.stderr, flush=True)
            rows[step] = added(rows[step], row) if step in rows else row
            write(options.csv, list(rows.values()))


if __name__ == "__main__":
    main()
