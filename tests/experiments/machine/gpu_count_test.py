"""Tests of how GPUs are counted before the driver starts: by a stand-in for NVML.

Run with `TESSERA_BINARY=build-gpu/tessera PYTHONPATH=tests python3 tests/experiments/machine/gpu_count_test.py`.
"""

import os
import shutil
import subprocess
import unittest

from program import UNIFORM, ProgramTest, machine

NVML = """
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { *count = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** device) { *device = (char*)0 + i + 1; return 0; }
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* later) {
  *now = *later = DIVIDED;
  return device == 0 ? 1 : STATUS;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) { *version = VERSION; return 0; }
"""
REFUSED = "error: --gpus 4: this machine has 3"


class GpuCountTest(ProgramTest):
    """Runs that ask for more GPUs than NVML has."""

    def setUp(self) -> None:
        super().setUp()
        seen = machine()["machine"]
        if "gpu" not in seen:
            self.skipTest("this build has no CUDA half")
        if seen["gpu"]["available"]:
            self.skipTest("there is a GPU, whose number is another one")
        if shutil.which("cc") is None:
            self.skipTest("no C compiler")

    def errors_of_run(self, divided: int = 0, status: int = 0, version: int = 99000,
                      visible: str | None = None) -> str:
        """What a run on four GPUs says with such an NVML; where it does not count, none is seen."""
        source = self.folder / "nvml.c"
        source.write_text(NVML)
        subprocess.run(["cc", "-shared", "-fPIC", f"-DDIVIDED={divided}", f"-DSTATUS={status}",
                        f"-DVERSION={version}", "-o", str(self.folder / "libnvidia-ml.so.1"),
                        str(source)], check=True)
        environment = self.environment()
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        libraries = [str(self.folder), environment.get("LD_LIBRARY_PATH", "")]
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
        if visible is not None:
            environment["CUDA_VISIBLE_DEVICES"] = visible
        done = subprocess.run([os.environ["TESSERA_BINARY"], "run", self.config(UNIFORM), "--out",
                               str(self.out), "--gpus", "4"], cwd=self.folder, env=environment,
                              capture_output=True, text=True, check=False)
        return done.stderr

    def test_whole_gpus_are_counted_without_the_driver(self) -> None:
        self.assertIn(REFUSED, self.errors_of_run())

    def test_gpus_that_cannot_be_divided_are_whole(self) -> None:
        self.assertIn(REFUSED, self.errors_of_run(status=3))

    def test_the_driver_counts_what_cuda_may_see_otherwise(self) -> None:
        for name, case in {"divided": {"divided": 1}, "an error": {"status": 999},
                           "too old a driver": {"version": 1000},
                           "some are visible": {"visible": "0,1,2,3"}}.items():
            with self.subTest(name):
                self.assertNotIn("this machine has", self.errors_of_run(**case))


if __name__ == "__main__":
    unittest.main()
