# %% [markdown]
# # The same product on other days and other GPUs
# A time belongs to a run: one H200 of many, one day, one state of its host. The products below were
# measured in several runs, each on a machine of its own, with the same library or the same version of
# a kernel. Their spread says which differences between two tables mean anything.

# %%
"""The spread of times of one product between runs.

    python3 notebooks/repeats.py REPEATS.csv [FOLDER]
    python3 notebooks/repeats.py --collect REPEATS.csv [RECORDS...]

REPEATS.csv has the columns run, day, kernel, matrix, n, l2 and time_us. Prints the spread of each
kernel, width and state of the L2, and writes it as repeats_spread.csv to FOLDER (default:
out/repeats).

--collect makes REPEATS.csv from folders of records (`tessera run repeats --out RECORDS`, on each day and
host): a run is a GPU on a day. Without a folder it takes the history of the committed tables, of
their rows those of cuSPARSE's CSR kernel in FP32, which no commit changes: a run is the commit that
measured, its day that of the table's first commit.
"""

import csv
import io
import needs  # noqa: F401  looks for a Python that has what follows
import statistics
import subprocess
import sys
from collections import defaultdict
from math import exp, log
from pathlib import Path

from new_file import new_file

from records import call, read_lines

COLUMNS = ("run", "day", "kernel", "matrix", "n", "l2", "time_us")
SPREAD = ("kernel", "n", "l2", "products", "runs", "median", "p95", "largest", "between_runs", "within_runs")
RESULTS = "experiments/results"
TABLES = (f"{RESULTS}/spmm/own_spmm.csv", f"{RESULTS}/baselines/times.csv")
UNCHANGED = "cuSPARSE"  # its case in these tables

# %% [markdown]
# ## Collecting
# Every committed version of a table has the commits at which its rows were measured. A row that stayed
# from one version to the next is one measurement.


# %%
def versions(table):
    """(day, rows) of every committed version of a table, the oldest first."""
    listed = subprocess.run(["git", "log", "--reverse", "--format=%h %ad", "--date=short", "--", table],
                            capture_output=True, text=True, check=True)  # fmt: skip
    for line in listed.stdout.splitlines():
        commit, day = line.split()
        shown = subprocess.run(["git", "show", f"{commit}:{table}"], capture_output=True, text=True)
        if shown.returncode == 0:
            yield day, list(csv.DictReader(io.StringIO(shown.stdout)))


def collect(histories):
    """The rows of REPEATS.csv. `histories` has the versions of each table."""
    found = {}
    for history in histories:
        for day, rows in history:
            for row in rows:
                time = row.get("time_us") or row.get("median_us")
                if row["case"] != UNCHANGED or row.get("origin", "measured") != "measured" or not time:
                    continue
                key = (row["commit"], row["matrix"], row["n"], row.get("l2", "warm"))
                found.setdefault(key, (day, time))
    return [dict(zip(COLUMNS, (run, day, UNCHANGED, matrix, n, l2, time)))
            for (run, matrix, n, l2), (day, time) in sorted(found.items())]  # fmt: skip


def collect_records(folders):
    """The same of folders of records: measured products with a dense B."""
    found = {}
    for path in sorted(path for folder in folders for path in folder.glob("*.jsonl")):
        lines = read_lines(path)
        environments = {line["env_id"]: line for line in lines if line.get("type") == "env"}
        for line in lines:
            params = line.get("params", {})
            if line.get("origin") != "measured" or line.get("status") != "ok" or "n" not in params or "time" not in line:
                continue
            gpu = environments.get(line.get("env_id"), {}).get("gpu", {})
            day = line["finished_at"][:10]
            run = f"{gpu.get('name', 'a GPU')} {gpu.get('uuid', '')[:8]}, {day}"
            kernel = params["kernel"]["name"] if len(params["kernel"]) == 1 else call(params["kernel"])
            key = (run, kernel, params["matrix"], str(params["n"]), params["measure"]["l2"])
            found[key] = (day, line["time"]["median_us"])
    return [dict(zip(COLUMNS, (run, day, kernel, matrix, n, l2, time)))
            for (run, kernel, matrix, n, l2), (day, time) in sorted(found.items())]  # fmt: skip


# %% [markdown]
# ## Spread
# Of a product in several runs: its longest over its shortest time. `between_runs` is the largest ratio of
# two runs' geometric means over the products that both have: the GPUs. `within_runs` is the median spread
# that is left when each time is divided by its run's mean of them.


# %%
def geometric_mean(values):
    return exp(statistics.fmean(map(log, values)))


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def spread_of(times):
    """The numbers of SPREAD from median on; `times` has those of each product by run."""
    repeated = {product: by_run for product, by_run in times.items() if len(by_run) > 1}
    ratios = [max(by_run.values()) / min(by_run.values()) for by_run in repeated.values()]
    runs = sorted({run for by_run in repeated.values() for run in by_run})
    between = [1.0]
    for i, one in enumerate(runs):
        for other in runs[i + 1 :]:
            both = [by_run[one] / by_run[other] for by_run in repeated.values() if one in by_run and other in by_run]
            if both:
                between.append(exp(abs(log(geometric_mean(both)))))
    # Only products that every run has: their means are of the same products.
    common = [by_run for by_run in repeated.values() if len(by_run) == len(runs)]
    means = {run: geometric_mean([by_run[run] for by_run in common]) for run in runs} if common else {}
    within = [max(scaled) / min(scaled) for by_run in common
              for scaled in [[by_run[run] / means[run] for run in runs]]]  # fmt: skip
    return {"products": len(repeated), "runs": len(runs), "median": statistics.median(ratios),
            "p95": quantile(ratios, 0.95), "largest": max(ratios), "between_runs": max(between),
            "within_runs": statistics.median(within) if within else ""}  # fmt: skip


def spreads(rows):
    """A line for each kernel, width and state of the L2 that has products in two runs or more."""
    groups = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        groups[row["kernel"], int(row["n"]), row["l2"]][row["matrix"]][row["run"]] = float(row["time_us"])
    return [{"kernel": kernel, "n": n, "l2": l2} | spread_of(times)
            for (kernel, n, l2), times in sorted(groups.items())
            if any(len(by_run) > 1 for by_run in times.values())]  # fmt: skip


def write(path, columns, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as temporary, open(temporary, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: f"{value:.3f}" if isinstance(value, float) else value for key, value in row.items()}
                         for row in rows)  # fmt: skip


def main(arguments):
    if len(arguments) >= 2 and arguments[0] == "--collect":
        folders = [Path(folder) for folder in arguments[2:]]
        rows = collect_records(folders) if folders else collect(versions(table) for table in TABLES)
        write(Path(arguments[1]), COLUMNS, rows)
        return 0
    if len(arguments) not in (1, 2) or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    with open(arguments[0], newline="") as file:
        found = spreads(csv.DictReader(file))
    for row in found:
        within = f", {row['within_runs']:.3f} within runs" if row["within_runs"] else ""
        print(f"{row['kernel']}, N = {row['n']}, {row['l2']}: {row['products']} products in {row['runs']} runs; longest "
              f"over shortest time {row['median']:.3f} in the median, {row['p95']:.3f} at 95 %, {row['largest']:.3f} at "
              f"most; {row['between_runs']:.3f} between runs{within}")  # fmt: skip
    write(Path(arguments[1] if len(arguments) == 2 else "out/repeats") / "repeats_spread.csv", SPREAD, found)
    return 0


# %%
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
