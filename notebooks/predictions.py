"""Simulated times of products beside the committed measured ones: their errors, order and choice.

    python3 notebooks/predictions.py --collect COMMIT RECORDS...   # writes predictions.csv
    python3 notebooks/predictions.py [--check]                     # predictions_summary.csv

RECORDS are folders of records of `tessera run ... --backend simulate` (own_spmm, simulator,
baselines), COMMIT the simulator's. Products that they lack keep their prediction, if their measured
time is still the one of then. predictions.csv has every product that MEASURED lists, with its
measured time and, where it was simulated, its simulated one. spgemm_products.csv has the whole
products of a matrix by itself in RECORDS, measured with memory from a pool and simulated; either
may be from an earlier call. The summary is made from both and from the other tables beside them;
each number stands with its inverse, for headlines in which larger is better. All lie in
experiments/results/simulator/.
"""

import argparse
import csv
import io
import itertools
import needs  # noqa: F401  looks for a Python that has what follows
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tomllib
from claim_tables import geomean

from records import commit_of, read_points, runs

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "experiments" / "results"
CONFIGS = ROOT / "experiments" / "configs"
COLUMNS = ("matrix", "n", "case", "result", "measured_us", "measured_commit", "simulated_us",
           "error_pct", "simulated_on", "commit")  # fmt: skip
SPGEMM = ("matrix", "kernel", "measured_us", "gpu", "measured_on", "measured_commit",
          "simulated_us", "error_pct", "simulated_on", "commit")  # fmt: skip
# SpGEMM kernels of which all launches, allocations and waits of the host are described.
WHOLE = ("row_spgemm",)
LONG_US = 100.0  # products that take less are not judged
SUMMARY = ("quantity", "kernel", "n", "products", "value", "inverse", "commit")
WIDTHS = ("32", "128", "512")
SMALL_BYTES = 1e7  # of DRAM, below which the L2 holds the rest and relative errors mean little
IN_16_BITS = ("FlashSparse FP16", "Magicube FP16", "tall_spmm, fp16_scaled")
ROW_PARTS = ("RoDe", "Sputnik", "Sputnik, no swizzle", "GE-SpMM", "HP-SpMM", "merge path",
             "row split", "dgSPARSE seq, row", "dgSPARSE seq, nnz", "dgSPARSE par, row",
             "dgSPARSE par, nnz", "dgSPARSE cache, row", "dgSPARSE cache, nnz")  # fmt: skip
CLOSED = ("cuSPARSE", "cuSPARSE COO", "cuSPARSE BSR 16", "cuBLAS TF32")

# Times of kernels whose version is still that of the measurement: table, column of the time, column
# of the case, cases, and the commit of a table without one. SMaT, TCA-SpMM, windows_spmm,
# warps_spmm and shares_spmm have changed since theirs were taken.
MEASURED: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    ("baselines/times.csv", "median_us", "case",
     (*ROW_PARTS, "TC-GNN", "DTC-SpMM", "DTC-SpMM, as published", "FlashSparse TF32",
      "FlashSparse FP16", "Magicube FP16", "Acc-SpMM", *CLOSED), ""),
    ("published/cutespmm.csv", "time_us", "case", ("cuTeSpMM",), ""),
    ("spmm/own_spmm.csv", "time_us", "case",
     ("tessera_spmm", "rows_spmm", "dense_spmm", "tall_spmm, fp16_scaled"), ""),
    ("simulator/simulator_error.csv", "measured_us", "kernel", ("csr_spmm",), "0d007ec"),
)  # fmt: skip
Row = dict[str, str]


def read_table(path: Path) -> list[Row]:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def as_csv(columns: Iterable[str], rows: Iterable[dict[str, Any]]) -> str:
    """Rows as a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def measured_rows(results: Path) -> list[Row]:
    """A row for every measured product, with the columns up to measured_commit."""
    rows = []
    for table, time, case, cases, commit in MEASURED:
        for row in read_table(results / table):
            if row[case] not in cases or row["n"] not in WIDTHS or not row[time]:
                continue
            if row.get("l2", "warm") != "warm" or row.get("origin", "measured") != "measured":
                continue
            rows.append({"matrix": row["matrix"], "n": row["n"], "case": row[case],
                         "result": "16 bits" if row[case] in IN_16_BITS else "FP32",
                         "measured_us": f"{float(row[time]):.4g}",
                         "measured_commit": row.get("commit") or commit})  # fmt: skip
    return rows


def cases_of(config: Path) -> list[tuple[str, dict[str, Any]]]:
    """The cases of a config whose matrices stay in their order: name, and kernel with parameters."""
    content = tomllib.loads(config.read_text(encoding="utf-8"))
    cases = []
    for case in content["case"]:
        kernel = case["kernel"]
        if "reorder" not in case:
            cases.append((case["name"], {"name": kernel} if isinstance(kernel, str) else kernel))
    return cases


def case_of(kernel: dict[str, Any], cases: list[tuple[str, dict[str, Any]]]) -> str | None:
    """The case of a kernel as a record has it, with all its parameters: the one that names most."""
    fitting = [(len(named), name) for name, named in cases
               if all(kernel.get(key) == value for key, value in named.items())]  # fmt: skip
    return max(fitting)[1] if fitting else None


def simulated_times(records: Iterable[dict[str, Any]], configs: Path) -> dict[tuple[str, ...], Row]:
    """By matrix, n and case: the simulated time, and the day."""
    cases: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    found = {}
    for record in records:
        params = record.get("params", {})
        if record.get("origin") != "simulated" or record.get("status") != "ok":
            continue
        if "n" not in params:  # a sparse product
            continue
        if params["measure"]["l2"] != "warm" or params["reorder"]["name"] != "none":
            continue
        name = record["experiment"]
        if name not in cases:
            cases[name] = cases_of(configs / f"{name}.toml")
        case = case_of(params["kernel"], cases[name])
        if case is not None:
            key = (record["matrix"]["name"], str(params["n"]), case)
            found[key] = {"simulated_us": f"{record['prediction']['time_us']:.4g}",
                          "simulated_on": record["finished_at"][:10]}  # fmt: skip
    return found


def identity(row: Row) -> tuple[str, ...]:
    """A product and its measurement."""
    return tuple(row[name] for name in ("matrix", "n", "case", "measured_us", "measured_commit"))


def joined(measured: list[Row], simulated: dict[tuple[str, ...], Row], commit: str,
           before: Iterable[Row] = ()) -> list[Row]:  # fmt: skip
    """The rows of predictions.csv; `before` has those of an earlier simulator."""
    kept = {identity(row): row for row in before if row["simulated_us"]}
    rows = []
    for row in measured:
        other = simulated.get((row["matrix"], row["n"], row["case"]), {})
        if not other and identity(row) in kept:
            rows.append(kept[identity(row)])
            continue
        if other:
            error = 100 * (float(other["simulated_us"]) / float(row["measured_us"]) - 1)
            other = other | {"error_pct": f"{error:.2f}", "commit": commit}
        rows.append(dict.fromkeys(COLUMNS, "") | row | other)
    return rows


def spgemm_times(folder: Path) -> dict[tuple[str, str], Row]:
    """By matrix and kernel: the times of whole products in a folder of records, and of when."""
    of_run = runs(folder)
    found: dict[tuple[str, str], Row] = {}
    for record in read_points(folder):
        params = record.get("params", {})
        kernel = params.get("kernel", {})
        if record.get("status") != "ok" or params.get("right") != "self" or kernel.get("reuse"):
            continue
        if kernel.get("name") not in WHOLE or params["reorder"]["name"] != "none":
            continue
        times = found.setdefault((record["matrix"]["name"], kernel["name"]), {})
        run = of_run[record["env_id"]]
        day, commit = record["finished_at"][:10], commit_of(run)
        if record["origin"] == "simulated":
            times |= {"simulated_us": f"{record['prediction']['time_us']:.4g}",
                      "simulated_on": day, "commit": commit}  # fmt: skip
        elif "time_pool" in record:
            times |= {"measured_us": f"{record['time_pool']['median_us']:.4g}",
                      "gpu": run.get("gpu", {}).get("name", ""),
                      "measured_on": day, "measured_commit": commit}  # fmt: skip
    return found


def joined_spgemm(before: Iterable[Row], folders: Iterable[Path]) -> list[Row]:
    """The rows of spgemm_products.csv."""
    rows = {(row["matrix"], row["kernel"]): row for row in before}
    for folder in folders:
        for (matrix, kernel), times in spgemm_times(folder).items():
            row = rows.setdefault((matrix, kernel), dict.fromkeys(SPGEMM, ""))
            row |= {"matrix": matrix, "kernel": kernel} | times
    for row in rows.values():
        if row["measured_us"] and row["simulated_us"]:
            error = 100 * (float(row["simulated_us"]) / float(row["measured_us"]) - 1)
            row["error_pct"] = f"{error:.2f}"
    return [rows[key] for key in sorted(rows)]


def errors_of_spgemm(products: list[Row]) -> list[dict[str, Any]]:
    """Mean absolute errors in percent of the long whole products of each kernel."""
    lines = []
    for kernel in WHOLE:
        rows = [row for row in products if row["kernel"] == kernel and row["error_pct"]
                and float(row["measured_us"]) >= LONG_US]  # fmt: skip
        if not rows:
            continue
        commit = " ".join(dict.fromkeys(part for row in rows
                                        for part in (row["measured_commit"], row["commit"])))  # fmt: skip
        errors = [abs(float(row["error_pct"])) for row in rows]
        lines.append(line("SpGEMM, MAPE of whole products", mean(errors), len(rows), commit, kernel))
    return lines


def line(quantity: str, value: float, products: int, commit: str, kernel: str = "all",
         n: str = "all") -> dict[str, Any]:  # fmt: skip
    """A line of the summary."""
    return {"quantity": quantity, "kernel": kernel, "n": n, "products": products,
            "value": f"{value:.4g}", "inverse": f"{1 / value:.4g}" if value > 0 else "",
            "commit": commit}  # fmt: skip


def mean(values: list[float]) -> float:
    """The arithmetic mean."""
    return sum(values) / len(values)


def errors_of_time(simulated: list[Row], commit: str) -> list[dict[str, Any]]:
    """Mean absolute errors in percent: of all products, each N, each kernel, and the largest."""
    error = [abs(float(row["error_pct"])) for row in simulated]
    lines = [line("time, MAPE", mean(error), len(error), commit),
             line("time, largest error of a product", max(error), len(error), commit)]  # fmt: skip
    for n in WIDTHS:
        of_n = [e for e, row in zip(error, simulated) if row["n"] == n]
        if of_n:
            lines.append(line("time, MAPE", mean(of_n), len(of_n), commit, n=n))
    kernels = []
    for kernel in dict.fromkeys(row["case"] for row in simulated):
        of_kernel = [e for e, row in zip(error, simulated) if row["case"] == kernel]
        kernels.append(line("time, MAPE of a kernel", mean(of_kernel), len(of_kernel), commit, kernel))
    return lines + sorted(kernels, key=lambda entry: float(entry["value"]))


def kendall_tau(pairs: list[tuple[float, float]]) -> float:
    """(agreeing - disagreeing) / all pairs of products, of which equal times are neither."""
    signs = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in itertools.combinations(pairs, 2)]
    return (sum(s > 0 for s in signs) - sum(s < 0 for s in signs)) / len(signs)


def order_and_choice(rows: list[Row], commit: str) -> list[dict[str, Any]]:
    """Kendall's tau over the kernels of a matrix and N, and the speed of the kernel that is
    simulated fastest over the best measured of all, closed libraries included."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["matrix"], row["n"]].append(row)
    kernels = {row["case"] for row in rows if row["simulated_us"]}
    taus: dict[str, list[float]] = defaultdict(list)
    speeds: dict[str, list[float]] = defaultdict(list)
    of_traced: dict[str, list[float]] = defaultdict(list)
    for (_, n), group in groups.items():
        simulated = [row for row in group if row["simulated_us"]]
        if {row["case"] for row in simulated} != kernels & {row["case"] for row in group}:
            continue
        taus[n].append(kendall_tau([(float(row["simulated_us"]), float(row["measured_us"]))
                                    for row in simulated]))  # fmt: skip
        fp32 = [row for row in group if row["result"] == "FP32"]
        traced = [row for row in fp32 if row["simulated_us"]]
        chosen = min(traced, key=lambda row: float(row["simulated_us"]))
        for candidates, by_n in ((fp32, speeds), (traced, of_traced)):
            best = min(float(row["measured_us"]) for row in candidates)
            by_n[n].append(best / float(chosen["measured_us"]))
    lines = []
    for quantity, by_n, statistics in (
            ("Kendall's tau", taus, (("mean", mean), ("least", min))),
            ("choice, speed over the best", speeds, (("mean", geomean), ("least", min))),
            ("choice, speed over the best traced one", of_traced,
             (("mean", geomean), ("least", min)))):  # fmt: skip
        for name, statistic in statistics:
            every = [value for values in by_n.values() for value in values]
            lines.append(line(f"{quantity}, {name}", statistic(every), len(every), commit))
            lines += [line(f"{quantity}, {name}", statistic(by_n[n]), len(by_n[n]), commit, n=n)
                      for n in WIDTHS if n in by_n]  # fmt: skip
    return lines


def errors_of_traffic(products: list[Row]) -> list[dict[str, Any]]:
    """Mean absolute errors of L2 sectors and DRAM bytes, of simulator_error.csv."""
    lines = []
    for quantity, column in (("L2 sectors read", "l2_reads_pct"), ("DRAM bytes", "dram_pct")):
        errors = [abs(float(row[column])) for row in products if row[column]]
        commit = " ".join(sorted({row["simulator_commit"] for row in products if row[column]}))
        lines.append(line(f"{quantity}, mean error", mean(errors), len(errors), commit))
    return lines


def errors_of_instructions(kernels: list[Row]) -> list[dict[str, Any]]:
    """Of each SpMM kernel in trace_counters.csv, the mean error of its executed instructions."""
    lines = [line("instructions, mean error", float(row["instructions_mean_pct"]),
                  int(row["products"]), row["commit"], row["kernel"])
             for row in kernels if not row["kernel"].endswith("spgemm")]  # fmt: skip
    return sorted(lines, key=lambda entry: float(entry["value"]))


def summary(results: Path) -> str:
    """The file predictions_summary.csv."""
    folder = results / "simulator"
    rows = read_table(folder / "predictions.csv")
    simulated = [row for row in rows if row["simulated_us"]]
    commit = " ".join(dict.fromkeys(row["commit"] for row in simulated))
    lines = errors_of_time(simulated, commit) + order_and_choice(rows, commit)
    if (products := folder / "spgemm_products.csv").exists():
        lines += errors_of_spgemm(read_table(products))
    lines += errors_of_traffic(read_table(folder / "simulator_error.csv"))
    lines += errors_of_instructions(read_table(folder / "trace_counters.csv"))
    return as_csv(SUMMARY, lines)


def collect(commit: str, folders: list[Path], results: Path) -> str:
    """The file predictions.csv, from folders of records."""
    records = [record for folder in folders for record in read_points(folder)]
    simulated = simulated_times(records, CONFIGS)
    path = results / "simulator" / "predictions.csv"
    before = read_table(path) if path.exists() else []
    return as_csv(COLUMNS, joined(measured_rows(results), simulated, commit, before))


def main() -> int:
    """Writes a table, or compares the summary."""
    parser = argparse.ArgumentParser(description="Simulated times beside measured ones.")
    parser.add_argument("--collect", metavar="COMMIT", help="of the simulator; reads RECORDS")
    parser.add_argument("--check", action="store_true", help="compare the summary, write nothing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the tables")
    parser.add_argument("records", nargs="*", type=Path, help="folders of records")
    options = parser.parse_args()
    folder = options.results / "simulator"
    if options.collect:
        text = collect(options.collect, options.records, options.results)
        (folder / "predictions.csv").write_text(text, encoding="utf-8")
        products = folder / "spgemm_products.csv"
        rows = joined_spgemm(read_table(products) if products.exists() else [], options.records)
        products.write_text(as_csv(SPGEMM, rows), encoding="utf-8")
    text, to = summary(options.results), folder / "predictions_summary.csv"
    if not options.check:
        to.write_text(text, encoding="utf-8")
    elif not to.exists() or to.read_text(encoding="utf-8") != text:
        print(f"{to} differs from the tables; run notebooks/predictions.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
