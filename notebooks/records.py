"""Records as a pandas table: one row per point, for notebooks that go beyond `tessera figure`.

A folder of records holds one JSON Lines file per run or shard. Lines are only ever appended, so an
interrupted run may leave an incomplete last line, which is ignored. A broken line elsewhere is an
error that names file and line.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from safe_text import escaped_json


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of one file, without a truncated last line, their texts escaped."""
    texts = path.read_text(encoding="utf-8").split("\n")
    records = []
    for number, text in enumerate(texts, start=1):
        try:
            records += [escaped_json(json.loads(text))] if text.strip() else []
        except ValueError as error:
            if number < len(texts):
                raise ValueError(f"{path}:{number}: not a record: {error}") from error
    return records


def read_points(folder: Path) -> list[dict[str, Any]]:
    """The newest record of every request, without `env` lines. A request whose kernel, format or
    reordering has changed its version has a record for each version."""
    lines = [r for path in sorted(folder.glob("*.jsonl")) for r in read_lines(path)]
    return list({r.get("params_hash", r["point_id"]): r for r in lines if "point_id" in r}.values())


def runs(folder: Path) -> dict[str, dict[str, Any]]:
    """By env_id: the program and the machine that wrote a run's records."""
    lines = [r for path in sorted(folder.glob("*.jsonl")) for r in read_lines(path)]
    return {r["env_id"]: r for r in lines if r.get("type") == "env"}


def commit_of(run: dict[str, Any]) -> str:
    """The commit of a run's program, seven digits of it."""
    build = run.get("build", {})
    return build.get("commit", "")[:7] + ("+changes" if build.get("dirty") else "")


def commits(folder: Path) -> dict[str, str]:
    """By env_id: the commit of the program that wrote a run's records."""
    return {env: commit_of(run) for env, run in runs(folder).items()}


def environment(folder: Path) -> str:
    """The GPU or CPU, the date and the commit of every run that has records, for the footer of a
    figure, as `tessera figure` writes it."""
    lines = [r for path in sorted(folder.glob("*.jsonl")) for r in read_lines(path)]
    used = {r.get("env_id") for r in lines if "point_id" in r}
    runs = [r for r in lines if r.get("type") == "env"]
    newest = sorted(runs, key=lambda run: str(run.get("started_at", "")))[-1:]
    told = set()
    for run in [r for r in runs if r.get("env_id") in used] or newest:
        gpu, host, build = run.get("gpu", {}), run.get("host", {}), run.get("build", {})
        machine = gpu.get("name") if gpu.get("available") else host.get("cpu", "unknown machine")
        changed = "+changes" if build.get("dirty") else ""
        told.add(f"{machine}, {str(run.get('started_at', ''))[:10]}, "
                 f"commit {build.get('commit', '?')}{changed}")
    return "; ".join(sorted(told)) or "unknown machine"


def call(variant: dict[str, Any]) -> str:
    """A variant in the notation of a call: bcsr(block_cols=8, block_rows=8)."""
    params = ", ".join(f"{key}={value}" for key, value in sorted(variant.items()) if key != "name")
    return variant["name"] + (f"({params})" if params else "")


def row(record: dict[str, Any]) -> dict[str, Any]:
    """The columns of a point; only this function depends on the fields of a record."""
    params, matrix = record["params"], record.get("matrix", {})
    check, prep = record.get("check", {}), record.get("prep", {})
    prediction, kernel = record.get("prediction", {}), params.get("kernel", {})  # none: only packed
    time_us = record.get("time", {}).get("median_us", prediction.get("time_us"))
    return {
        "point": record["point_id"],
        "origin": record["origin"],
        "status": record["status"],
        "reason": record.get("reason", ""),
        "matrix": params["matrix"],
        "rows": matrix.get("rows"),
        "nnz": matrix.get("nnz"),
        "n": params.get("n"),
        "reorder": params["reorder"]["name"],
        "backend": params.get("backend", ""),
        "format": call(params["format"]) if "format" in params else "",
        "kernel": kernel.get("name", ""),
        "precision": kernel.get("precision", ""),
        "device": params.get("device", ""),
        "time_us": time_us,
        "gflops": record.get("gflops"),
        "bound_by": prediction.get("bound_by", ""),
        "smape_pct": check.get("smape_pct"),
        "bound_ratio": check.get("bound_ratio"),
        "mean_nnz_tc": prep.get("mean_nnz_tc"),
        "footprint_bytes": prep.get("footprint_bytes"),
        "pack_s": prep.get("pack_s"),
        "reorder_s": prep.get("reorder_s"),
        "apply_s": prep.get("apply_s"),
        "reorder_threads": prep.get("reorder_threads"),
        "reorder_peak_bytes": prep.get("reorder_peak_bytes"),
        "unpermute_us": record.get("unpermute", {}).get("median_us"),
        "synthetic": matrix.get("synthetic"),
        "mean_nnz_tc_8x8": record.get("statistics", {}).get("mean_nnz_tc_8x8"),
    }


def short_names(names: list[str]) -> dict[str, str]:
    """Names of generated matrices without their parameters where that leaves them distinct."""
    heads = Counter(name.split("(")[0] for name in names)
    return {n: n.split("(")[0] if heads[n.split("(")[0]] == 1 else n for n in names}


def read_table(folder: Path) -> pd.DataFrame:
    """One row per point of a folder of records, with the shortest distinct names of matrices."""
    table = pd.DataFrame([row(record) for record in read_points(folder)])
    return table.assign(matrix=table["matrix"].map(short_names(list(table["matrix"].unique()))))
