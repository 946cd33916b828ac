"""Times of calls on a CPU or GPU, and tables of them that name the device, date, commit and versions."""

from __future__ import annotations

import csv
import datetime
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

import tessera
from tessera._library import library


def commit() -> str:
    """The commit of the library that runs, with "+changes" where its sources had some."""
    version = library.tessera_version().decode()
    return version.partition("(commit ")[2].rstrip(")") or version


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def environment(device: str) -> dict[str, str]:
    """The columns that say where a number comes from."""
    on_gpu = device == "cuda"
    try:
        import torch_geometric

        pyg = torch_geometric.__version__
    except ImportError:
        pyg = ""
    return {
        "device": torch.cuda.get_device_name() if on_gpu else cpu_name(),
        "threads": "" if on_gpu else str(torch.get_num_threads()),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"),
        "commit": commit(),
        "tessera": tessera.__version__,
        "torch": torch.__version__,
        "torch_geometric": pyg,
    }


def write_csv(path: Path, rows: list[dict], columns: dict[str, str]) -> None:
    """Rows with the columns of an environment behind their own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, [*rows[0], *columns])
        table.writeheader()
        table.writerows({**row, **columns} for row in rows)


def seconds_of(call: Callable[[], object], device: str, calls: int) -> float:
    """The time from the first of some calls to the end of the last: by events on a GPU."""
    if device != "cuda":
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - start
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def time_us(
    call: Callable[[], object], device: str, samples: int = 7, sample_s: float = 0.005
) -> float:
    """The median time of one of many calls after each other, in microseconds. Each sample takes about
    `sample_s`; a call that the host starts more slowly than the GPU runs it takes the host's time."""
    for _ in range(3):
        call()
    once = max(seconds_of(call, device, 1), 1e-6)
    calls = max(1, min(1000, round(sample_s / once)))
    return median(seconds_of(call, device, calls) for _ in range(samples)) / calls * 1e6


def host_us(call: Callable[[], object], time_us: float) -> float:
    """The time in microseconds until a call on a GPU returns, without the GPU's: the least of ten means
    of up to 50 calls, which the queue of the GPU takes without waiting. `time_us` is that of a call
    with the GPU's, of which all take 0.05 s at most."""
    calls = max(1, min(50, round(5_000 / time_us)))
    means = []
    for _ in range(10):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        means.append((time.perf_counter() - start) / calls * 1e6)
    torch.cuda.synchronize()
    return min(means)
