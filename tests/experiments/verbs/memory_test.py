"""Tests of verbs that find too little memory: they name what they were asked for and exit with 3.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/verbs/memory_test.py`.
"""

import resource
import subprocess
import unittest

from program import BINARY, ProgramTest

MATRIX = "uniform(rows=300000, cols=300000, density=3e-5)"  # 2,700,000 nonzeros: 24 MB
MIB = 1 << 20
VERBS = {
    "info": ("matrix", "info", MATRIX),
    "convert": ("matrix", "convert", MATRIX, "a.npz"),
    "reorder": ("reorder", MATRIX, "--with", "rcm"),
    "pack": ("pack", MATRIX, "--format", "me_tcf"),
    "multiply": ("multiply", MATRIX, "--n", "16", "--kernel", "csr_spmm"),
    "analyse": ("analyse", MATRIX, "--n", "16"),
}


class MemoryTest(ProgramTest):
    """Single verbs with a limited address space."""

    def limited(self, *words: str, mib: int) -> subprocess.CompletedProcess[str]:
        """The program with that much address space."""
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))

        return subprocess.run([BINARY, *words], cwd=self.folder, text=True, preexec_fn=limit,
                              env=self.environment() | {"TESSERA_THREADS": "2"},
                              capture_output=True, check=False, timeout=300)

    def least(self) -> int:
        """MiB of address space with which the program starts, to within 8."""
        return next(mib for mib in range(8, 4096, 8)
                    if self.limited("--version", mib=mib).returncode == 0)

    def test_a_verb_without_memory_names_its_matrix_and_fails(self) -> None:
        if "address" in subprocess.run(["ldd", BINARY], capture_output=True, text=True,
                                       check=False).stdout:
            self.skipTest("the address sanitizer takes all of the address space")
        least = self.least()
        for name, words in VERBS.items():
            failures = 0
            for mib in range(least + 4, least + 400, 12):
                done = self.limited(*words, mib=mib)
                if done.returncode == 0:
                    break
                with self.subTest(verb=name, mib=mib):
                    self.assertEqual(done.returncode, 3, done.stderr)
                    told = done.stdout + done.stderr
                    self.assertRegex(told, "uniform.rows=300000, cols=300000|300000 x 300000")
                    self.assertRegex(told, "too little memory|out of memory")
                    self.assertNotIn("it is too short", told)  # a file that cannot be mapped
                    failures += 1
            self.assertGreater(failures, 0, name)


if __name__ == "__main__":
    unittest.main()
