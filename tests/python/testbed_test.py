"""Orders, formats, predictions and advice from Python, and Ctrl-C in long calls."""

import os
import signal
import subprocess
import sys
import time

import python_package

python_package.need("pytest", "numpy")
import numpy as np
import pytest

import tessera

A = tessera.Matrix("shuffle(of=poisson2d(nx=12, ny=12))")


def test_an_order_brings_the_matrix_into_it():
    order = tessera.reorder(A, "rcm")
    assert order.cols is not None and order.name.startswith("rcm") and order.seconds >= 0
    assert np.array_equal(order.apply().to_dense(), A.to_dense()[order.rows][:, order.cols])
    rows_only = tessera.reorder(A, "rcm", apply="rows")
    assert rows_only.cols is None and "apply=rows" in rows_only.name
    with pytest.raises(tessera.InvalidError, match="rcm"):
        tessera.reorder(A, "rcn")
    with pytest.raises(tessera.UnsupportedError):
        tessera.reorder(np.ones((2, 3)), "rcm")


def test_a_packing_is_described_with_its_arrays():
    packed = tessera.pack(A, "bcsr", block_rows=8)
    assert packed["round_trip_exact"] and "block_rows=8" in packed["format"]
    assert packed["footprint_bytes"] == sum(array["bytes"] for array in packed["arrays"])
    with pytest.raises(tessera.InvalidError, match="block_rows"):
        tessera.pack(A, "bcsr", block_row=8)


def test_a_simulation_says_that_it_is_one():
    warm = tessera.simulate(A, 32, "acc_spmm", device="a100-80gb")
    assert warm["origin"] == "simulated" and warm["device"] == "a100-80gb" and warm["l2"] == "warm"
    cold = tessera.simulate(A, 32, "acc_spmm", device="a100-80gb", cold=True)
    assert cold["counters"]["dram__bytes_read.sum"] > warm["counters"]["dram__bytes_read.sum"]
    assert tessera.simulate(A, 32)["kernel"]
    with pytest.raises(tessera.InvalidError, match="h200"):
        tessera.simulate(A, 32, "acc_spmm", device="h20")


def test_an_advice_ranks_and_becomes_a_table():
    pytest.importorskip("pandas")
    advice = tessera.advise(A, 16, orders=["rcm"], kernels=["rows_spmm", "acc_spmm"], quick=True)
    assert advice.complete and len(advice.ranked) == 4 and advice.best in advice.ranked
    times = [one["time_us"] for one in advice.ranked]
    assert times == sorted(times)
    assert advice.table.attrs["units"]["time_us"] == "us"
    assert advice.table.attrs["units"]["preparation_s"] == "s"
    with pytest.raises(tessera.InvalidError, match="rows_spmm"):
        tessera.advise(A, kernels=["rows_spm"])


def test_a_timeline_has_every_thread_block_and_is_drawn():
    pytest.importorskip("pandas")
    found = tessera.timeline(A, 32, "rows_spmm", thread_block=0)
    assert found.about["thread_block"] == 0
    table = found.tables["thread_blocks"]
    assert (table["end_us"] > table["start_us"]).all() and table.attrs["units"]["end_us"] == "us"
    assert found.tables["balance"]["thread_blocks"].sum() == len(table)
    with pytest.raises(tessera.InvalidError, match="thread block"):
        tessera.timeline(A, 32, "rows_spmm", thread_block=10**9)
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    before = dict(matplotlib.rcParams)
    figure = found.pipeline(name="mesh")
    assert "mesh" in "".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))
    assert len(found.balance().axes) >= 2
    assert dict(matplotlib.rcParams) == before
    assert "records" not in sys.modules and "style" not in sys.modules


@pytest.mark.parametrize("call", ["tessera.simulate(a, 512, 'acc_spmm')",
                                  "tessera.emulate(a, numpy.ones((a.shape[1], 512)), 'tessera_spmm')",
                                  "tessera.reorder(a, 'best')"])  # fmt: skip
def test_ctrl_c_ends_a_long_call(call):
    text = ("import numpy, tessera; a = tessera.Matrix('rmat(scale=17, edge_factor=16)')\n"
            f"print('begins', flush=True); {call}; print('ended')")  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(python_package.ROOT / "python")}
    with subprocess.Popen([sys.executable, "-c", text], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout.readline() == "begins\n"
        time.sleep(0.5)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err and "ended" not in out
    assert process.returncode == -signal.SIGINT  # it has not died of freeing what the call reads
    assert time.monotonic() - start < 20


if __name__ == "__main__":
    sys.exit(python_package.main(__file__))
