"""Writes trace_counters.csv: how far the traces of kernels are from the counters of a GPU.

    python3 notebooks/trace_counters.py TABLE COMMIT

TABLE is the file to which tests append with TESSERA_TRACE_TABLE set: the device tests of traces
(test cases "*counters*"), or without a GPU, from experiments/results/simulator/counted.csv,

    TESSERA_TRACE_TABLE=table.csv tessera_tests -tc="a simulation counts what the traces have*"

A line has matrix, kernel, parameters, columns of B, and of instructions, MMAs, sectors of the L1 and
reads of the L2 the trace's number, the hardware's and the relative difference. COMMIT is that of
the kernels that were counted. Kernels that TABLE lacks keep their rows.
"""

import argparse
import csv
import math
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "experiments" / "results" / "simulator" / "trace_counters.csv"
COUNTS = ("instructions", "mma", "l1_sectors", "l2_reads")
COLUMNS = ("kernel", "products", "instructions_mean_pct", "instructions_max_pct", "mma_max_pct",
           "l1_sectors_mean_pct", "l1_sectors_max_pct", "l2_reads_mean_pct", "l2_reads_max_pct",
           "commit")  # fmt: skip


def differences(table: Path) -> dict[str, list[list[float]]]:
    """Of each kernel its products' absolute differences in percent, in the order of COUNTS."""
    of_kernel: dict[str, list[list[float]]] = {}
    with table.open(newline="") as file:
        for line in csv.reader(file):
            each = [abs(100 * float(line[4 + 3 * i + 2])) for i in range(len(COUNTS))]
            of_kernel.setdefault(line[1], []).append(each)
    return of_kernel


def number(values: list[float], largest: bool) -> str:
    """The mean or the largest; empty where the hardware counts none (copies by the TMA)."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    return f"{max(finite):.1f}" if largest else f"{sum(finite) / len(finite):.2f}"


def row_of(kernel: str, products: list[list[float]], commit: str) -> dict[str, str]:
    """A row of trace_counters.csv."""
    row = {"kernel": kernel, "products": str(len(products)), "commit": commit}
    for i, count in enumerate(COUNTS):
        values = [product[i] for product in products]
        if count != "mma":
            row[f"{count}_mean_pct"] = number(values, largest=False)
        row[f"{count}_max_pct"] = number(values, largest=True)
    return row


def main() -> None:
    """Replaces the rows of the kernels in the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("commit")
    arguments = parser.parse_args()
    with FILE.open(newline="") as file:
        rows = {row["kernel"]: row for row in csv.DictReader(file)}
    for kernel, products in differences(arguments.table).items():
        rows[kernel] = row_of(kernel, products, arguments.commit)
    with FILE.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[kernel] for kernel in sorted(rows))


if __name__ == "__main__":
    main()
