"""Times the simulator: warp instructions a second of one core.

    python3 tests/bench/simulator_speed.py [--csv FILE] [--n 128] [--commit COMMIT] [MATRIX...]

Each product is simulated by one thread with flushed caches, so that every instruction is simulated
once. Its time is the processor time of the whole program, less that of the same point by the
roofline, which reads, packs and describes alike. $TESSERA_BINARY is the program; COMMIT stands for
one whose build does not know its own.
"""

import argparse
import csv
import json
import os
import re
import resource
import subprocess
import sys
from typing import Any

BINARY = os.environ.get("TESSERA_BINARY", "build/tessera")
COLUMNS = ("matrix", "n", "kernel", "warp_instructions", "cpu_s", "million_per_s", "commit")
KERNELS = ("csr_spmm", "acc_spmm", "tessera_spmm", "rows_spmm", "hp_spmm", "tcgnn")
MATRICES = ("pubmed", "bcsstk17", "coauthor_phy", "finan512")


def run(point: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """The record of a point, and the processor seconds of the program that made it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([BINARY, "point", "--no-environment", "--json", "-"],
                          input=json.dumps(point), text=True, capture_output=True, check=False,
                          env=os.environ | {"TESSERA_THREADS": "1"})  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{BINARY} point: {done.stderr.strip()}")
    record = json.loads(done.stdout)
    if record["status"] != "ok":
        raise SystemExit(f"{point['kernel']} on {point['matrix']}: {record['status']}")
    return record, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(matrix: str, n: int, kernel: str) -> dict[str, Any]:
    """A line of the table, without the commit."""
    resolved = subprocess.run([BINARY, "multiply", matrix, "--n", str(n), "--kernel", kernel,
                               "--backend", "model", "--json"],
                              text=True, capture_output=True, check=True)  # fmt: skip
    point = json.loads(resolved.stdout)["params"]
    _, without = run(point)
    del point["model"]
    record, seconds = run(point | {"backend": "simulate", "measure": {"l2": "flush"}})
    instructions = int(record["counters"]["sm__inst_executed.sum"])
    return {"matrix": matrix, "n": n, "kernel": kernel, "warp_instructions": instructions,
            "cpu_s": round(seconds - without, 3),
            "million_per_s": round(1e-6 * instructions / (seconds - without), 2)}  # fmt: skip


def commit_of_program() -> str:
    """The commit that the program says it was built from."""
    version = subprocess.run([BINARY, "--version"], text=True, capture_output=True, check=True)
    found = re.search(r"commit (\S+?)[,)]", version.stdout)
    return found.group(1) if found else "unknown"


def main() -> int:
    """Prints the table, and writes it to --csv."""
    parser = argparse.ArgumentParser(description="Times the simulator on one core.")
    parser.add_argument("--csv", help="file for the table")
    parser.add_argument("--n", type=int, default=128, help="columns of B")
    parser.add_argument("--commit", help="commit of the program")
    parser.add_argument("matrix", nargs="*", default=MATRICES, help="matrices")
    options = parser.parse_args()
    commit = options.commit or commit_of_program()
    rows = []
    for matrix in options.matrix:
        for kernel in KERNELS:
            rows.append(measure(matrix, options.n, kernel) | {"commit": commit})
            print(*rows[-1].values(), sep=",", flush=True)
    if options.csv:
        with open(options.csv, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
