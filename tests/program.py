"""What the tests of the program share: a folder of their own, calls, and its records.

Whatever a test kills, stops or starves is killed, stopped or starved from outside.
"""

import functools
import json
import os
import subprocess
import tempfile
import time
import unittest
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

BINARY = Path(os.environ.get("TESSERA_BINARY",
                             Path(__file__).resolve().parent.parent / "build-cpu" / "tessera"))
UNIFORM = "uniform(rows=60, cols=50, density=0.1)"
RMAT = "rmat(scale=6)"
POISSON = "poisson2d(nx=9, ny=7)"

# What of a record two runs of one point may differ in.
ATTEMPT_KEYS = ("attempt_s", "finished_at", "prep", "emulate_s", "experiment", "config_hash",
                "env_id")


@functools.cache
def machine() -> dict[str, Any]:
    """What `tessera doctor` says, which looks at everything and takes its time."""
    found = subprocess.run([BINARY, "doctor", "--json"], capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


def records_in(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a record file that are points."""
    if not path.exists():
        return []
    whole = path.read_bytes().rpartition(b"\n")[0]
    lines = [json.loads(line) for line in whole.splitlines()]
    return [line for line in lines if line["type"] == "point"]


def result_of(record: dict[str, Any]) -> dict[str, Any]:
    """What of a record has to be the same every time."""
    return {key: value for key, value in record.items() if key not in ATTEMPT_KEYS}


def results(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Results by point id; no id twice."""
    found = {record["point_id"]: result_of(record) for record in records}
    assert len(found) == len(records), "a point has two records"
    return found


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Looks every few milliseconds; gives up after half a minute."""
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.005)


def children_of(pid: int) -> list[int]:
    """Processes that a process started."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


class ProgramTest(unittest.TestCase):
    """A temporary folder with a cache of its own, and ways to call the program in it."""

    cache: tempfile.TemporaryDirectory[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.cache = tempfile.TemporaryDirectory(prefix="tessera-cache-")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.cache.cleanup()

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tessera-runs-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out"
        self.records = self.out / "records.jsonl"

    def environment(self) -> dict[str, str]:
        """Nothing of the user's."""
        return {**os.environ, "TESSERA_CACHE": self.cache.name, "TESSERA_DATA": str(self.folder)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The program, running."""
        process = subprocess.Popen([BINARY, *arguments], cwd=self.folder, text=True,
                                   env=self.environment(), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def tessera(self, *arguments: str, code: int = 0, given: str | None = None,
                **options: Any) -> subprocess.CompletedProcess[str]:
        """The program, run to its end, which has to be `code`."""
        done = subprocess.run([BINARY, *arguments], cwd=self.folder, text=True, input=given,
                              env=self.environment(), capture_output=True, check=False, **options)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def json_of(self, *arguments: str, code: int = 0) -> Any:
        """stdout as JSON."""
        return json.loads(self.tessera(*arguments, code=code).stdout)

    def config(self, *matrices: str, n: list[int] | None = None, kernels: str = '"csr_spmm"',
               experiment: str = "", backends: str = '"emulate"', rest: str = "") -> str:
        """Path of a new config: matrices x kernels x n."""
        path = self.folder / "c.toml"
        names = ", ".join(f'"{matrix}"' for matrix in matrices)
        path.write_text(f'schema = 1\n[experiment]\nid = "c"\nbackends = [{backends}]\n'
                        f"{experiment}\n[grid]\nmatrix = [{names}]\nn = {n or [4, 8]}\n"
                        f'kernel = [{kernels}]\ndevice = "h200"\n{rest}\n')
        return str(path)

    def run_config(self, config: str, *arguments: str, code: int = 0,
                   **options: Any) -> subprocess.CompletedProcess[str]:
        """`tessera run` into self.out."""
        return self.tessera("run", config, "--out", str(self.out), *arguments, code=code, **options)

    def statuses(self) -> Counter[str]:
        """Of the records in self.records."""
        return Counter(record["status"] for record in records_in(self.records))
