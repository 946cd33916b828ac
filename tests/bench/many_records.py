"""Times plan, status, figures and merge on about a million points.

    python3 tests/bench/many_records.py [--points 1000000] [--csv FILE] [--keep FOLDER]

It makes a config of 20 kernels, 8 widths and 6 orders on as many generated matrices as needed, and
a record for every point, with the size of those that a GPU host writes without checks (1.7 KB).
Two shards hold them; one point in a hundred was tried twice, one in fifty was skipped, and a few
are in both shards. The numbers in them are random, from a fixed seed. It needs 6 GB of disk for a
million points. $TESSERA_BINARY is the program.
"""

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

BINARY = os.environ.get("TESSERA_BINARY", "build/tessera")
ORDERS = ["none", "rcm", "rabbit", "degree", "best", "metis"]
WIDTHS = [8, 16, 32, 64, 128, 256, 512, 1024]
KERNELS = ["acc_spmm", "csr_spmm", "cusparse", "cutespmm", "dgsparse", "dtc_spmm", "gespmm",
           "hp_spmm", "magicube", "merge_spmm", "mma_csr", "rode", "row_split", "rows_spmm", "smat",
           "sputnik", "tca_spmm", "tcgnn", "tessera_spmm", "windows_spmm"]
CLOCKS = {"memory_mhz": 3201, "sm_mhz": 1980, "throttle_reasons": 0}
ENVIRONMENT = {"schema": 1, "type": "env", "env_id": "0123456789abcdef",
               "started_at": "2026-11-01T00:00:00Z", "host": {"host": "a", "cpu": "a CPU"},
               "gpu": {"available": True, "name": "a GPU"},
               "build": {"commit": "none", "dirty": False}}

CONFIG = """schema = 1
[experiment]
id = "many"
title = "Many points"
backends = ["gpu"]
[grid]
matrix = {matrices}
n = {widths}
reorder = {orders}
kernel = {kernels}
[check]
enabled = false
[[figure]]
id = "some"
kind = "lines"
title = "three kernels"
x = "n"
y = "gflops"
series = "kernel"
statistic = "geomean"
where = {{ reorder = "none", kernel = ["acc_spmm", "cusparse", "tessera_spmm"] }}
[[figure]]
id = "all"
kind = "lines"
title = "every point"
x = "n"
y = "gflops"
series = "kernel"
panel = "reorder"
statistic = "geomean"
"""


def dumped(record: dict[str, Any]) -> str:
    """A line of a record file."""
    return json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n"


def write_config(path: Path, points: int) -> None:
    """The config."""
    count = max(1, points // (len(KERNELS) * len(WIDTHS) * len(ORDERS)))
    matrices = [f"rmat(scale={10 + i % 5}, edge_factor=8, seed={i})" for i in range(count)]
    path.write_text(CONFIG.format(matrices=json.dumps(matrices), widths=WIDTHS,
                                  orders=json.dumps(ORDERS), kernels=json.dumps(KERNELS)))


def planned(config: Path) -> Iterator[dict[str, Any]]:
    """The entries of the plan."""
    command = [BINARY, "plan", str(config), "--as-written", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as plan:
        for line in plan.stdout or ():
            yield json.loads(line)


def made_up_record(entry: dict[str, Any], number: int, matrix: dict[str, Any],
                   rng: random.Random) -> dict[str, Any]:
    """A record of a point."""
    day, second = divmod(number // 12, 86400)
    us, n = rng.lognormvariate(3, 1), entry["point"]["n"]
    record = {"schema": 1, "type": "point", "experiment": "many", "attempt_s": rng.random(),
              "config_hash": "0123456789abcdef", "env_id": ENVIRONMENT["env_id"],
              "finished_at": f"2026-11-{1 + day:02}T{second // 3600:02}:{second // 60 % 60:02}:"
                             f"{second % 60:02}Z",
              "kernel_version": 2, "reorder_version": 1, "matrix": matrix,
              "params": entry["point"], "params_hash": entry["hash"],
              "point_id": f"{rng.getrandbits(64):016x}"}
    chance = rng.random()
    if chance < 0.02:
        return record | {"status": "skipped", "reason": f"the kernel takes N up to 8, not {n}",
                         "skip": {"name": entry["point"]["kernel"]["name"], "part": "kernel"}}
    record["prep"] = {"apply_s": rng.random() / 1e3, "footprint_bytes": matrix["nnz"] * 6,
                      "index_bytes": matrix["nnz"] * 2, "load_from_cache": True,
                      "load_s": rng.random() / 1e3, "mean_nnz_tc": 30 * rng.random(),
                      "pack_s": rng.random() / 100, "padding_ratio": 0.0,
                      "reorder_from_cache": True, "reorder_s": rng.random() / 1e3,
                      "reorder_threads": 16, "tile_density": rng.random(),
                      "tiles": rng.randrange(10**6)}
    if chance < 0.03:
        return record | {"status": "timeout", "reason": "not finished after 10 min"}
    return record | {"status": "ok", "origin": "measured", "gflops": matrix["nnz"] * n / us / 500,
                     "clocks": {"before": CLOCKS, "after": CLOCKS},
                     "time": {"l2": "warm", "launches_per_sample": 1 + rng.randrange(9), "n": 20,
                              "mean_us": 1.01 * us, "median_us": us, "min_us": 0.98 * us,
                              "p5_us": 0.98 * us, "p95_us": 1.05 * us, "stddev_us": us / 100}}


def write_records(config: Path, shards: list[TextIO]) -> int:
    """Every point's record in a shard; returns the number of points."""
    rng = random.Random(30)
    matrices: dict[str, dict[str, Any]] = {}
    for shard in shards:
        shard.write(dumped(ENVIRONMENT))
    number = 0
    for number, entry in enumerate(planned(config), 1):
        name = entry["point"]["matrix"]
        if name not in matrices:
            rows = 1024 << len(matrices) % 5
            matrices[name] = {"name": name, "source": name, "hash": f"{rng.getrandbits(128):032x}",
                              "rows": rows, "cols": rows, "nnz": 8 * rows - rng.randrange(rows),
                              "synthetic": True, "values": "stored"}
        record = made_up_record(entry, number, matrices[name], rng)
        shard = shards[len(matrices) % 2]
        if rng.random() < 0.01:
            before = {key: value for key, value in record.items()
                      if key not in ("time", "clocks", "gflops", "origin", "skip")}
            shard.write(dumped(before | {"status": "failed", "reason": 'killed, "9"'}))
            record["after"] = record["finished_at"]
        shard.write(dumped(record))
        if number % 50_000 == 0:
            shards[1 - len(matrices) % 2].write(dumped(record))
    return number


def timed(step: str, points: int, commit: str, *arguments: str) -> dict[str, Any]:
    """One call: a row of the table."""
    print(step, file=sys.stderr)
    command = [BINARY, *arguments]
    wrapper = ("import os, resource, subprocess, sys, time\n"
               "start = time.monotonic()\n"
               "code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
               "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
               "print(code, used.ru_utime, used.ru_stime, time.monotonic() - start,"
               " used.ru_maxrss)\n")
    done = subprocess.run([sys.executable, "-c", wrapper, *command], check=True,
                          stdout=subprocess.PIPE, text=True)
    code, user, system, wall, kilobytes = map(float, done.stdout.split())
    if code != 0:
        sys.exit(f"{' '.join(command)}: exit code {code:.0f}")
    return {"step": step, "points": points, "cpu_s": f"{user + system:.2f}",
            "system_s": f"{system:.2f}", "wall_s": f"{wall:.2f}",
            "peak_mb": f"{kilobytes / 1024:.0f}", "commit": commit}


def measure(folder: Path, points: int) -> list[dict[str, Any]]:
    """The rows of the table."""
    config, shards = folder / "many.toml", folder / "shards"
    shards.mkdir()
    write_config(config, points)
    paths = [shards / "a.jsonl", shards / "b.jsonl"]
    with open(paths[0], "w", encoding="utf-8") as a, open(paths[1], "w", encoding="utf-8") as b:
        count = write_records(config, [a, b])
    doctor = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True)
    commit = doctor.stdout.split("commit ")[-1].split()[0].strip(",()") if doctor.stdout else ""
    written = [str(config), "--as-written"]
    return [timed("plan", count, commit, "plan", *written),
            timed("status", count, commit, "status", *written, "--out", str(shards)),
            *(timed(f"figure {name}", count, commit, "figure", *written, "--out", str(shards),
                    "--to", str(folder / "figures"), "--only", name) for name in ("some", "all")),
            timed("merge", count, commit, "merge", *map(str, paths), "--out",
                  str(folder / "merged"))]


def main() -> None:
    """Prints or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--csv", type=Path, help="file for the table")
    parser.add_argument("--keep", type=Path, help="folder for the records, which stay there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if options.keep:
            options.keep.mkdir(parents=True)
        rows = measure(options.keep or Path(temporary), options.points)
    with (open(options.csv, "w", encoding="utf-8") if options.csv else
          open(sys.stdout.fileno(), "w", closefd=False, encoding="utf-8")) as to:
        table = csv.DictWriter(to, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
