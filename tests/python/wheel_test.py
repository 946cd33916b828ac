"""The wheel: pip installs what this build has into an environment of its own, and it works there without
the checkout. A whole build of a wheel is the same build under another name."""

import os
import subprocess
import sys
import sysconfig
import unittest

import python_package
from program import ProgramTest

LACKING = ("No matching distribution found", "Could not find a version", "Temporary failure in name",
           "No module named ensurepip", "ensurepip is not available")  # fmt: skip

EXAMPLE = """\
import numpy, tessera, tessera._library
a = tessera.Matrix("poisson2d(nx=8, ny=8)")
c = tessera.multiply(a, numpy.ones((64, 4), numpy.float32))
assert (c[:, 0] == a.to_dense().sum(axis=1)).all()
assert tessera.simulate(a, 8, "rows_spmm")["origin"] == "simulated"
assert "site-packages" in tessera._library.library._name
records = tessera.run("wheel_only", "out", quiet=True)
assert records.problem == "", records.problem
print(tessera.__file__)
"""

CONFIG = """schema = 1
[experiment]
id = "wheel_only"
question = "Is this config read from the wheel?"
backends = ["simulate"]
[grid]
matrix = "poisson2d(nx=8, ny=8)"
n = 8
kernel = "rows_spmm"
device = "h200"
"""


class Wheel(ProgramTest):
    def run_command(self, *command, ok=True, **options):
        environment = {name: value for name, value in self.environment().items()
                       if name not in ("TESSERA_LIBRARY", "TESSERA_BINARY", "PYTHONPATH")}  # fmt: skip
        ran = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                             cwd=self.folder, env=environment, **options)  # fmt: skip
        if ran.returncode != 0 and any(text in ran.stdout + ran.stderr for text in LACKING):
            self.skipTest((ran.stdout + ran.stderr).strip().splitlines()[-1])
        if ok:
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran

    def test_pip_installs_the_package_the_library_the_program_and_its_files(self):
        venv = self.folder / "venv"
        self.run_command(sys.executable, "-m", "venv", "--system-site-packages", venv)
        # Its own packages may be in an environment, which the new one does not see.
        outer = self.folder / "venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
        (outer / "site-packages" / "outer.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        python = venv / "bin" / "python"
        self.run_command(python, "-m", "pip", "install", "--no-deps", "--quiet", python_package.ROOT,
                         f"--config-settings=cmake.define.TESSERA_PREBUILT={python_package.LIBRARY.parent}",
                         f"--config-settings=build-dir={self.folder / 'build'}")  # fmt: skip

        package = outer / "site-packages" / "tessera"
        configs = package / "share" / "tessera" / "experiments" / "configs"
        self.assertTrue((configs / "quickstart.toml").is_file())
        # Formulas of plans read it, and simulations.
        self.assertTrue((package / "share/tessera/model/devices/h200.toml").is_file())
        self.assertTrue((package / "lib" / "libtessera_torch.so").is_file())
        (configs / "wheel_only.toml").write_text(CONFIG)
        said = self.run_command(python, "-c", EXAMPLE).stdout
        self.assertIn(str(package), said)
        program = self.run_command(venv / "bin" / "tessera", "--version").stdout
        self.assertTrue(program.startswith("tessera "))
        help_text = self.run_command(venv / "bin" / "tessera", "rn", ok=False)
        self.assertEqual(help_text.returncode, 2)

        name = next((outer / "site-packages").glob("tessera-*.dist-info")) / "WHEEL"
        self.assertIn("Tag: py3-none-linux_", name.read_text())


if __name__ == "__main__":
    if not (python_package.LIBRARY.parent / "wheel" / "tessera").exists():
        sys.exit(python_package.skip(f"{python_package.LIBRARY.parent} has no wheel/tessera"))
    os.environ.pop("TESSERA_LIBRARY", None)
    result = unittest.main(exit=False).result
    if result.skipped and not result.failures and not result.errors:
        sys.exit(python_package.skip(result.skipped[0][1]))
    sys.exit(not result.wasSuccessful())
