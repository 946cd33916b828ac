# %% [markdown]
# # How far the simulator is from a GPU
# Times, bytes and hit rates of the same products, simulated and measured. One number in the
# simulator, the gap between launches, is fitted to measured times. This notebook fits it again
# without the matrices of one kind at a time and predicts these with it.

# %%
"""Errors of simulated times and counters against measured ones.

    python3 notebooks/simulator_error.py RECORDS [FOLDER] [--before TABLE]

RECORDS is a folder of records of `tessera run simulator`, backends simulate, model and gpu. TABLE
is an earlier simulator_error.csv: what RECORDS lack, times and counters of a GPU among it, is taken
from there. Writes simulator_error.csv (a line per product, with the simulator's commit),
simulator_summary.csv (a line per kernel and N) and two figures, times and hit rates, to FOLDER
(default: out/simulator/figures).
"""

import argparse
import itertools
import needs  # noqa: F401  looks for a Python that has what follows
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import scatter

from figure import arguments, build, save, use_style
from figure_data import FigureError, check
from records import commits, environment, read_points

MATRIX_KINDS = {  # of the 24 matrices
    "finite elements": ["elast-dolphin5K-ref1", "elast-Armadillo13K", "wave", "bcsstk17",
                        "bcsstk29"],
    "planar": ["delaunay_n15", "luxembourg_osm"],
    "web and social": ["cnr-2000", "soc-Slashdot0902", "fb-Cornell5", "wiki-Vote", "gowalla-bip"],
    "graph learning": ["coauthor_phy", "pubmed", "cora", "citeseer", "DD"],
    "physics and models": ["recon-conf5_4-8x8", "recon-mc2depi", "mycielskian14"],
    "circuits and economics": ["memplus", "finan512"],
    "pruned networks": ["dlmc-tf-mag0.7-ffn2", "dlmc-tf-mag0.9-ffn1"],
}
L1_HITS, L2_HITS = "l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct"
L2_READS, MMAS = "lts__t_sectors_op_read.sum", "sm__inst_executed_pipe_tensor.sum"
DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")
OF_A_PRODUCT = ("measured_us", "simulated_us", "launch_us", "launches", "roofline_us",
                "simulator_commit")
SMALL = 1e7  # bytes of DRAM traffic below which relative errors mean little: the L2 holds the rest


# %%
def kind_of(matrix: str) -> str:
    """The kind of a matrix; for a matrix that is not among the 24, a kind of its own."""
    return next((kind for kind, names in MATRIX_KINDS.items() if matrix in names), matrix)


def lines_of(table: Path) -> dict[tuple[str, int, str], dict]:
    """What an earlier simulator_error.csv says of each product, without its errors."""
    lines = {}
    for _, row in pd.read_csv(table).iterrows():
        kept = {name: value for name, value in row.items() if not pd.isna(value) and (
            name in OF_A_PRODUCT or str(name).startswith(("simulated ", "counted ")))}
        lines[row["matrix"], row["n"], row["kernel"]] = kept
    return lines


def products(folder: Path, before: Path | None = None) -> pd.DataFrame:
    """A table with a line per product that was both simulated and measured."""
    lines = lines_of(before) if before else {}
    built = commits(folder)
    for record in read_points(folder):
        params = record["params"]
        if record.get("status") != "ok" or "kernel" not in params:
            continue
        key = (record["matrix"]["name"], params["n"], params["kernel"]["name"])
        line = lines.setdefault(key, {})
        counters = record.get("counters", {})
        if params["backend"] == "simulate":
            launch = next(p for p in record["simulation"]["parts"] if p["name"] == "launch")
            line.update(simulated_us=record["prediction"]["time_us"], launch_us=launch["time_us"],
                        launches=int(launch["reason"].split()[0]),
                        simulator_commit=built.get(record.get("env_id"), ""),
                        **{f"simulated {name}": value for name, value in counters.items()})
        elif params["backend"] == "model":
            line["roofline_us"] = record["prediction"]["time_us"]
        elif params["backend"] == "gpu":
            line.update(measured_us=record["time"]["median_us"],
                        **{f"counted {name}": value for name, value in counters.items()})
    rows = [{"matrix": m, "kind": kind_of(m), "n": n, "kernel": k, **line}
            for (m, n, k), line in lines.items()
            if "measured_us" in line and "simulated_us" in line]
    if not rows:
        raise FigureError(f"{folder}: no product was both simulated and measured")
    return pd.DataFrame(rows).sort_values(["kernel", "n", "matrix"], kind="stable")


def held_out(table: pd.DataFrame) -> pd.Series:
    """The predicted times with the gap between launches fitted to the matrices of other kinds."""
    busy = table["simulated_us"] - table["launch_us"]
    gaps = np.arange(0, 5, 0.05)
    predicted = pd.Series(index=table.index, dtype=float)
    for kind in table["kind"].unique():
        others = table["kind"] != kind
        errors = [np.abs((busy + gap * table["launches"]) / table["measured_us"] - 1)[others].mean()
                  for gap in gaps]
        gap = gaps[int(np.argmin(errors))]
        predicted[~others] = (busy + gap * table["launches"])[~others]
    return predicted


def agreeing_pairs(group: pd.DataFrame) -> tuple[int, int]:
    """The number of pairs of products that simulation and measurement order alike, and of all."""
    same = total = 0
    for (_, a), (_, b) in itertools.combinations(group.iterrows(), 2):
        total += 1
        same += (a["held_out_us"] < b["held_out_us"]) == (a["measured_us"] < b["measured_us"])
    return same, total


def kendall_tau(table: pd.DataFrame, by: list[str]) -> float:
    """The mean over groups of (agreeing - disagreeing) / pairs."""
    taus = []
    for _, group in table.groupby(by):
        same, total = agreeing_pairs(group)
        if total:
            taus.append(2 * same / total - 1)
    return float(np.mean(taus)) if taus else float("nan")


def regret(table: pd.DataFrame) -> pd.Series:
    """The measured time of the kernel that simulation prefers / that of the fastest kernel."""
    groups = table.groupby(["matrix", "n"])
    return groups.apply(lambda g: g.loc[g["held_out_us"].idxmin(), "measured_us"]
                        / g["measured_us"].min())


def counter_errors(table: pd.DataFrame) -> pd.DataFrame:
    """The differences of the counters that both sides have, as columns."""
    def both(name: str) -> tuple[pd.Series, pd.Series]:
        nothing = pd.Series(np.nan, index=table.index)
        return (table.get(f"simulated {name}", nothing).astype(float),
                table.get(f"counted {name}", nothing).astype(float))

    errors = pd.DataFrame(index=table.index)
    for column, name in (("l1_hit_points", L1_HITS), ("l2_hit_points", L2_HITS)):
        simulated, counted = both(name)
        errors[column] = simulated - counted
    simulated, counted = both(L2_READS)
    errors["l2_reads_pct"] = 100 * (simulated / counted - 1)
    simulated, counted = (sum(parts) for parts in zip(*(both(name) for name in DRAM)))
    errors["dram_pct"] = (100 * (simulated / counted - 1)).where(counted > SMALL)
    simulated, counted = both(MMAS)
    # A count from an earlier table has the six digits that the table was written with.
    six_digits = [column.map(lambda count: float(f"{count:.6g}")) for column in (simulated, counted)]
    errors["mma"] = six_digits[0] - six_digits[1]
    return errors


# %%
def summary(table: pd.DataFrame) -> pd.DataFrame:
    """A table with a line per kernel and N."""
    def line(group: pd.DataFrame) -> pd.Series:
        size = group.abs()
        return pd.Series({
            "products": len(group), "mape_pct": size["error_pct"].mean(),
            "median_ape_pct": size["error_pct"].median(), "bias_pct": group["error_pct"].mean(),
            "roofline_mape_pct": size["roofline_error_pct"].mean(),
            "l1_hit_points_median": size["l1_hit_points"].median(),
            "l2_hit_points_median": size["l2_hit_points"].median(),
            "l2_hit_points_p90": size["l2_hit_points"].quantile(0.9),
            "l2_reads_pct_median": size["l2_reads_pct"].median(),
            "dram_pct_median": size["dram_pct"].median(), "mma_largest": size["mma"].max()})

    numbers = table.select_dtypes("number")
    groups = numbers.groupby([table["kernel"], table["n"].rename("N")])
    per_kernel = groups.apply(line).reset_index()
    everything = line(numbers)
    return pd.concat([per_kernel, everything.to_frame().T.assign(kernel="all", N="all")])


def draw(table: pd.DataFrame, mape: str, where: str, folder: Path) -> None:
    """Draw predicted against measured times and L2 hit rates."""
    use_style()
    for figure_id, title, x, y, scale in (
            ("simulated_time", "Simulated against measured time, us", "measured_us", "held_out_us",
             "log"),
            ("roofline_time", "The roofline against measured time, us", "measured_us",
             "roofline_us", "log"),
            ("l2_hits", "L2 hit rate, simulated against counted, %", f"counted {L2_HITS}",
             f"simulated {L2_HITS}", "linear")):
        if x not in table or y not in table or table[[x, y]].dropna().empty:
            continue
        origin = "simulated" if figure_id != "roofline_time" else "modelled"
        series = [{"name": kernel, "origin": origin,
                   "points": [{"x": float(a), "y": float(b)} for a, b in zip(group[x], group[y])]}
                  for kernel, group in table.dropna(subset=[x, y]).groupby("kernel")]
        description = {
            "schema": 1, "id": figure_id, "kind": "scatter", "title": title, "caption": mape,
            "x": {"label": "measured" if scale == "log" else "counted", "scale": scale},
            "y": {"label": "predicted", "scale": scale}, "series": series, "provenance": where,
            "missing": []}
        print("wrote", *save(build(check(description, figure_id), scatter.KIND), folder, figure_id))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Errors of simulated times and counters.")
    parser.add_argument("records", type=Path, help="folder of records")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("out/simulator/figures"))
    parser.add_argument("--before", type=Path, metavar="TABLE", help="of what RECORDS lack")
    options = parser.parse_args(arguments())
    records, folder = options.records, options.folder
    try:
        table = products(records, options.before)
    except (FigureError, KeyError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    table = table.assign(held_out_us=held_out(table))
    table = table.assign(error_pct=100 * (table["held_out_us"] / table["measured_us"] - 1),
                         roofline_error_pct=100 * (table["roofline_us"] / table["measured_us"] - 1))
    table = table.join(counter_errors(table))
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / "simulator_error.csv", index=False, float_format="%.6g",
                 lineterminator="\n")
    lines = summary(table)
    lines.to_csv(folder / "simulator_summary.csv", index=False, float_format="%.4g",
                 lineterminator="\n")
    print(lines.to_string(index=False, float_format=lambda value: f"{value:.3g}"))
    worst = regret(table)
    print(f"Kendall tau over kernels, per matrix and N: {kendall_tau(table, ['matrix', 'n']):.3f}; "
          f"over kernels and N, per matrix: {kendall_tau(table, ['matrix']):.3f}")
    print(f"regret of the kernel simulation prefers: geometric mean "
          f"{np.exp(np.log(worst).mean()):.3f}, largest {worst.max():.3f} ({worst.idxmax()})")
    errors = table["error_pct"].abs()
    mape = (f"Across: measured or counted on the GPU; up: predicted. {len(table)} products, MAPE "
            f"{errors.mean():.1f} % (roofline {table['roofline_error_pct'].abs().mean():.0f} %), "
            "kinds held out")
    draw(table, mape, environment(records), folder)
    return 0


# %%
if __name__ == "__main__":
    sys.exit(main())
