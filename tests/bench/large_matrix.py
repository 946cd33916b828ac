"""Measures the memory of reading, packing, ordering and multiplying a matrix of 10^9 nonzeros.

    python3 tests/bench/large_matrix.py --csv FILE [--rows ROWS] [--folder FOLDER] [--steps STEP ...]

Each row of the matrix has 60 nonzeros at random distances of 1 to 32, from a random column on: few
share a tile, so that packing it takes more than CSR. The table is
experiments/results/robustness/memory.csv: a row for each step, with the seconds, the largest resident
memory of its process, pages of mapped files included, and the bytes of the matrix in CSR over it
(`csr_over_peak`, larger is better). Rows of other sizes stay. `read` begins without a cache, the
others with what it wrote there; `multiply` needs a GPU, `emulate` none. $TESSERA_BINARY is the
program. The file and the cache take 8 bytes a nonzero each in --folder, and are removed at the end.
It needs numpy.
"""

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

BINARY = os.environ.get("TESSERA_BINARY", "build/tessera")
PER_ROW, FARTHEST = 60, 32
ROWS_OF_BLOCK = 1 << 18
STEPS = {
    "read": ("pack", "FILE", "--format", "csr"),
    "pack": ("pack", "FILE", "--format", "mosaic"),
    "order": ("reorder", "FILE", "--with", "degree"),
    "multiply": ("multiply", "FILE", "--n", "8", "--kernel", "rows_spmm", "--backend", "gpu"),
    "emulate": ("multiply", "FILE", "--n", "8", "--kernel", "rows_spmm", "--backend", "emulate"),
}
DEFAULT_STEPS = ["read", "pack", "order", "multiply"]
COLUMNS = ("step", "nonzeros", "seconds", "peak_bytes", "csr_bytes", "peak_over_csr", "csr_over_peak",
           "cores", "origin", "commit")  # fmt: skip


def make_block(path: str, begin: int, end: int, cols: int) -> None:
    """Writes the columns of rows [begin, end) to their place in a file of all of them."""
    rng = np.random.default_rng([28, begin])
    steps = rng.integers(1, FARTHEST + 1, (end - begin, PER_ROW), dtype=np.int32)
    steps[:, 0] = rng.integers(0, cols - PER_ROW * FARTHEST, end - begin, dtype=np.int32)
    whole = np.lib.format.open_memmap(path, mode="r+")
    whole[begin * PER_ROW : end * PER_ROW] = np.cumsum(steps, axis=1, dtype=np.int32).reshape(-1)


def make_matrix(path: Path, rows: int) -> None:
    """An uncompressed .npz as SciPy writes it."""
    cols = max(rows, 2 * PER_ROW * FARTHEST)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        parts = {name: f"{folder}/{name}.npy" for name in ("indices", "data", "indptr", "shape", "format")}
        np.lib.format.open_memmap(parts["indices"], "w+", np.int32, (rows * PER_ROW,)).flush()
        with ProcessPoolExecutor() as pool:
            blocks = [pool.submit(make_block, parts["indices"], begin, min(rows, begin + ROWS_OF_BLOCK), cols)
                      for begin in range(0, rows, ROWS_OF_BLOCK)]  # fmt: skip
            for block in blocks:
                block.result()
        np.save(parts["data"], np.random.default_rng(29).random(rows * PER_ROW, dtype=np.float32) + np.float32(0.5))
        np.save(parts["indptr"], np.arange(rows + 1, dtype=np.int64) * PER_ROW)
        np.save(parts["shape"], np.array([rows, cols]))
        np.save(parts["format"], np.array(b"csr"))
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
            for part in parts.values():
                file.write(part, Path(part).name)
                Path(part).unlink()


def measure(arguments: list[str], environment: dict[str, str]) -> tuple[float, int]:
    """Seconds and the largest resident memory in bytes of a call of the program."""
    start = time.monotonic()
    child = subprocess.Popen([BINARY, *arguments], env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"large_matrix.py: exit code {child.returncode}: {BINARY} {' '.join(arguments)}")
    return time.monotonic() - start, usage.ru_maxrss * 1024


def add_row(path: Path, row: dict[str, Any]) -> None:
    """Puts the row into the table, in the place of one of the same step and as many nonzeros."""
    rows = []
    if path.exists():
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    rows = [old for old in rows if (old["step"], old["nonzeros"]) != (row["step"], row["nonzeros"])]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*rows, row])


def main() -> int:
    """Makes the matrix, runs the steps, and writes a row after each."""
    parser = argparse.ArgumentParser(description="Measures the memory of a matrix of 10^9 nonzeros.")
    parser.add_argument("--csv", type=Path, required=True, help="the table")
    parser.add_argument("--rows", type=int, default=1 << 24, help="of the matrix (default: 2^24)")
    parser.add_argument("--folder", type=Path, help="for the file and the cache (default: of temporary files)")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=DEFAULT_STEPS)
    parser.add_argument("--commit", default="", help="of the program")
    options = parser.parse_args()

    work = Path(tempfile.mkdtemp(prefix="large-matrix-", dir=options.folder))
    try:
        file = work / "large.npz"
        make_matrix(file, options.rows)
        environment = {**os.environ, "TESSERA_CACHE": str(work / "cache")}
        nonzeros = options.rows * PER_ROW
        csr_bytes = 8 * (options.rows + 1) + 8 * nonzeros
        for step in sorted(options.steps, key=list(STEPS).index):
            arguments = [str(file) if word == "FILE" else word for word in STEPS[step]]
            seconds, peak = measure(arguments, environment)
            add_row(options.csv, {
                "step": step, "nonzeros": str(nonzeros), "seconds": f"{seconds:.1f}", "peak_bytes": peak,
                "csr_bytes": csr_bytes, "peak_over_csr": f"{peak / csr_bytes:.3f}",
                "csr_over_peak": f"{csr_bytes / peak:.4f}", "cores": len(os.sched_getaffinity(0)),
                "origin": "measured", "commit": options.commit})  # fmt: skip
            print(f"{step}: {seconds:.1f} s, {peak / csr_bytes:.3f} of CSR", flush=True)
    finally:
        shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
