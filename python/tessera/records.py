"""Experiments: running one, its records as a table, its figures."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _notebooks, _program
from ._errors import InvalidError, TesseraError, UnsupportedError

# The unit of a column by the end of its name; other numbers are counts or ratios.
UNITS = {"_us": "us", "_s": "s", "_bytes": "bytes", "_pct": "%", "gflops": "GFLOP/s"}
# The exit codes of the program after which there are records: `tessera --help`.
WITH_RECORDS = {0: "", 3: "some points failed", 4: "some results are wrong",
                6: "an expectation of the config was refuted",
                7: "an expectation of the config could not be judged"}  # fmt: skip
MISSING, INTERRUPTED = 5, 130


def dataframe(rows: list[dict[str, Any]]) -> Any:
    """The rows as a pandas DataFrame; `attrs["units"]` has the unit of each column that has one."""
    table = _notebooks.need("pandas").DataFrame(rows)
    return with_units(table)


def with_units(table: Any) -> Any:
    """Adds the units of the columns to a DataFrame: `table.attrs["units"]["time_us"]` is "us"."""
    table.attrs["units"] = {column: unit for column in table.columns for end, unit in UNITS.items()
                            if str(column).endswith(end)}  # fmt: skip
    return table


@dataclass
class Records:
    """The records of an experiment in a folder."""

    config: str
    folder: Path
    problem: str = ""  # "some points failed", ...; "" when everything is right

    @property
    def raw(self) -> list[dict[str, Any]]:
        """The newest record of every point, as it was written (docs/how-to/read_records.md)."""
        return list(_notebooks.load("records").read_points(self.folder))

    @property
    def table(self) -> Any:
        """One row per point as a pandas DataFrame: matrix, kernel, n, time_us, gflops, ... with its `origin`
        (measured, simulated, modelled, emulated, counted); units in `table.attrs["units"]`."""
        return with_units(_notebooks.load("records").read_table(self.folder))

    def figures(self, only: Sequence[str] = ()) -> dict[str, Any]:
        """The config's figures as matplotlib Figures by their ids, drawn by notebooks/figure.py: predicted
        values never look measured. `only` names those to draw."""
        _notebooks.need("matplotlib")
        figure, figure_data = _notebooks.load("figure"), _notebooks.load("figure_data")
        drawn = {}
        with tempfile.TemporaryDirectory() as folder:
            words = ["--only", ",".join(only)] if only else []
            _start("figure", self.config, "--out", str(self.folder), "--to", folder, "--format", "png",
                   *words, quiet=True)  # fmt: skip
            with _notebooks.style():
                for path in sorted(Path(folder).glob("*.json")):
                    data = figure_data.load(path)
                    drawn[data.id] = figure.build(data, _notebooks.load(data.kind).KIND)
        return drawn


def run(config: str | Path, out: str | Path | None = None, *, options: Sequence[str] = (),
        quiet: bool = False) -> Records:
    """Runs all points of an experiment that have no record yet, in processes of their own.

    config   the name of a shipped experiment (`tessera list experiments`) or a TOML file
    out      folder of the records; None: out/<name of the config>. The same call continues there.
    options  further words for `tessera run`: ["--set", "grid.n=32"]
    quiet    keeps the progress back, which else goes to sys.stderr

    Ctrl-C ends it in order: what has a record keeps it. Raises InvalidError for a config that is none,
    with file, line and cause, and UnsupportedError for what this machine lacks.
    """
    name = str(config)
    folder = Path(out) if out is not None else Path("out") / Path(name).stem
    code = _start("run", name, "--out", str(folder), *options, quiet=quiet)
    return Records(name, folder, WITH_RECORDS[code])


def read(folder: str | Path, config: str = "") -> Records:
    """The records that are in a folder; `config` is needed for figures."""
    given = Path(folder)
    if not any(given.glob("*.jsonl")):
        raise InvalidError(f"{given} has no records (*.jsonl)")
    return Records(config, given)


def _start(*words: str, quiet: bool) -> int:
    """Runs the program; its stderr goes to sys.stderr unless it is to be quiet."""
    environment = {"TESSERA_PYTHON": sys.executable, **os.environ}
    process = subprocess.Popen([_program.path(), *words], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, env=environment,
                               start_new_session=True)  # fmt: skip
    said: list[str] = []

    def listen() -> None:
        for line in process.stderr or ():
            said.append(line)
            if not quiet:
                print(line, end="", file=sys.stderr)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)  # it ends in order; Ctrl-C itself did not reach it
        process.wait()
        raise
    listener.join()
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code in WITH_RECORDS:
        return code
    errors = [line.split("error: ", 1)[1] for line in said if "error: " in line]
    text = "".join(errors or said[-5:]).strip() or f"tessera {words[0]} ended with {code}"
    if code == 2:
        raise InvalidError(text)
    if code == MISSING:
        raise UnsupportedError(text)
    raise TesseraError(text)


