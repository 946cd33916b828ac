"""Experiments whose records are made up, and pages of them, for the tests of `tessera report`."""

import json
from pathlib import Path
from typing import Any

from program import ProgramTest

CONFIG = """schema = 1
[experiment]
id = "planted"
title = "Planted"
paper = "No paper, Fig. 0"
backends = ["simulate", "gpu"]
[grid]
matrix = [{matrices}]
n = {n}
kernel = ["csr_spmm", "acc_spmm"]
device = "h200"
[table]
columns = ["matrix", "nnz", "n", "kernel", "time_us", "gflops", "origin"]
[[figure]]
id = "speed"
kind = "{kind}"
title = "Speed"
x = "{x}"
y = "gflops"
series = "kernel"
[[expect]]
name = "the faster kernel"
source = "planted"
column = "gflops"
statistic = "geomean"
where = {{ kernel = "acc_spmm" }}
value = 1
trend = "at_least"
[[expect]]
name = "no such rows"
source = "planted"
column = "gflops"
statistic = "min"
where = {{ kernel = "cusparse" }}
value = 1
trend = "at_least"
[[expect]]
name = "too much"
source = "planted"
column = "gflops"
statistic = "max"
value = 1e9
trend = "at_least"
"""

ENVIRONMENT = {"type": "env", "schema": 1, "env_id": "e", "started_at": "2026-01-02T03:04:05Z",
               "build": {"commit": "abc123", "dirty": False, "compiler": "GNU 12"},
               "gpu": {"available": True, "name": "NVIDIA Planted", "driver": "1.2.3",
                       "cuda_runtime": "13.0"}, "host": {"cpu": "Planted CPU"}}


def record(entry: dict[str, Any], at: int, name: str) -> dict[str, Any]:
    """A result: its time is at + 1 us, so it is known by its place in the plan."""
    point, measured = entry["point"], entry["point"]["backend"] == "gpu"
    made = {"type": "point", "schema": 1, "point_id": f"id{at}", "params_hash": entry["hash"],
            "params": point, "env_id": "e", "finished_at": "2026-01-02T03:04:05Z", "status": "ok",
            "origin": "measured" if measured else "simulated", "config_hash": "c0ffee",
            "matrix": {"name": name, "nnz": 1000 + at, "rows": 10, "cols": 10},
            "gflops": 100.0 + at, "check": {"smape_pct": 0.25, "bound_ratio": 0.5},
            "counters": {"dram__bytes_read.sum": 7.0 * at}}
    if measured:
        return made | {"time": {"median_us": at + 1.0, "p5_us": at + 0.5, "p95_us": at + 2.0, "n": 20}}
    return made | {"prediction": {"time_us": at + 1.0, "bound_by": "L2"},
                   "simulation": {"warp_time": {"memory": 0.75, "issuing": 0.25}, "waves": 2.0,
                                  "parts": [{"name": "L2", "time_us": 0.5, "reason": "planted"}],
                                  "resident_thread_blocks": 4, "occupancy_limit": "warps",
                                  "sm_balance": 0.9, "longest_thread_block_us": 1.0,
                                  "seconds": 0.1}}


class ReportTest(ProgramTest):
    """Records of a plan, and the page of them."""

    def plant(self, matrices: list[str], n: list[int], kind: str = "bars",
              x: str = "matrix") -> str:
        """Writes config and records; the config's path."""
        config = self.folder / "planted.toml"
        names = ", ".join(json.dumps(matrix) for matrix in matrices)
        where = "" if len(n) == 1 or x != "matrix" else f"where = {{ n = {n[0]} }}\n"
        text = CONFIG.format(matrices=names, n=n, kind=kind, x=x)
        config.write_text(text.replace('series = "kernel"\n', f'series = "kernel"\n{where}', 1))
        plan = [json.loads(line) for line in
                self.tessera("plan", str(config), "--json", "--as-written").stdout.splitlines()]
        lines = [ENVIRONMENT] + [record(entry, at, entry["point"]["matrix"])
                                 for at, entry in enumerate(plan)]
        self.out.mkdir()
        self.records.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(config)

    def skip(self, at: int, reason: str) -> None:
        """Makes the record number `at` one of a point that was skipped."""
        lines = [json.loads(line) for line in self.records.read_text().splitlines()]
        keys = ("type", "schema", "point_id", "params_hash", "params", "env_id", "finished_at")
        lines[at + 1] = {key: lines[at + 1][key] for key in keys} | {
            "status": "skipped", "reason": reason}
        self.records.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def report(self, *arguments: str, code: int = 0) -> Path:
        """Makes a page."""
        page = self.folder / "page.html"
        self.tessera("report", *arguments, "--to", str(page), code=code)
        return page
