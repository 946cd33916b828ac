"""Experiments from Python: run, records as a table with units, figures, errors, Ctrl-C."""

import os
import signal
import subprocess
import sys
import time

import python_package

python_package.need("pytest", "numpy", "pandas")
import pytest

import tessera

CONFIG = """schema = 1
[experiment]
id = "small"
question = "Which kernel is simulated to be faster?"
backends = ["simulate"]
[grid]
matrix = ["poisson2d(nx=16, ny=16)", "rmat(scale=7)"]
n = [8, 16]
kernel = ["csr_spmm", "rows_spmm"]
device = "h200"
[[figure]]
id = "times"
kind = "bars"
title = "Simulated times"
x = "matrix"
y = "time_us"
series = "kernel"
panel = "n"
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TESSERA_CACHE", str(tmp_path / "cache"))


def test_an_experiment_runs_and_its_records_are_a_table_with_units(config, tmp_path, capfd):
    records = tessera.run(config, tmp_path / "out", quiet=True)
    assert records.problem == "" and "error" not in capfd.readouterr().err
    table = records.table
    assert len(table) == 8 and set(table["origin"]) == {"simulated"}
    assert (table["time_us"] > 0).all()
    assert table.attrs["units"]["time_us"] == "us" and table.attrs["units"]["pack_s"] == "s"
    assert "n" not in table.attrs["units"]
    assert len(records.raw) == 8 and records.raw[0]["type"] == "point"
    again = tessera.read(tmp_path / "out", str(config))
    assert again.table["time_us"].tolist() == table["time_us"].tolist()


def test_the_figures_of_a_config_are_matplotlibs(config, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    records = tessera.run(config, tmp_path / "out", quiet=True)
    figures = records.figures()
    assert list(figures) == ["times"]
    assert isinstance(figures["times"], matplotlib.figure.Figure)
    texts = [text.get_text() for text in figures["times"].findobj(matplotlib.text.Text)]
    assert any("simulated" in text for text in texts), "a prediction is told as one"
    with pytest.raises(tessera.InvalidError, match="times"):
        records.figures(["time"])


def test_options_of_the_program_are_passed_on(config, tmp_path):
    records = tessera.run(config, tmp_path / "out", options=["--set", "grid.n=8"], quiet=True)
    assert set(records.table["n"]) == {8}


def test_a_config_that_is_none_is_an_error_with_its_place(config, tmp_path):
    config.write_text(CONFIG.replace('"rows_spmm"', '"rows_spm"'))
    with pytest.raises(tessera.InvalidError, match=r"small\.toml.*rows_spmm"):
        tessera.run(config, tmp_path / "out", quiet=True)
    with pytest.raises(tessera.InvalidError, match="quickstart"):
        tessera.run("quickstrat", tmp_path / "out", quiet=True)
    with pytest.raises(tessera.InvalidError, match="no records"):
        tessera.read(tmp_path)


def test_a_refuted_expectation_is_told_and_the_records_are_there(config, tmp_path):
    config.write_text(CONFIG + '[[expect]]\nname = "a second"\nsource = "nobody"\ncolumn = "time_us"\n'
                      'where = { kernel = "rows_spmm" }\nvalue = 1e6\ntolerance = 0.1\n')
    records = tessera.run(config, tmp_path / "out", quiet=True)
    assert "refuted" in records.problem and len(records.table) == 8


def test_ctrl_c_ends_an_experiment_in_order(config, tmp_path):
    config.write_text(CONFIG.replace("rmat(scale=7)", "rmat(scale=16)").replace("[8, 16]", "[512, 600]"))
    text = f"import tessera\nprint('begins', flush=True)\ntessera.run({str(config)!r}, {str(tmp_path / 'out')!r})"
    environment = {**os.environ, "PYTHONPATH": str(python_package.ROOT / "python")}
    with subprocess.Popen([sys.executable, "-c", text], env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout.readline() == "begins\n"
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
    assert "KeyboardInterrupt" in err
    assert not tessera.read(tmp_path / "out").table.empty


if __name__ == "__main__":
    sys.exit(python_package.main(__file__))
