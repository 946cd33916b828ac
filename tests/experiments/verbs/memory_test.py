"""Tests of verbs that find too little memory: they name what they were asked for and exit with 3.
Packing takes less than the matrix and what it is packed as.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/verbs/memory_test.py`.
"""

import os
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

    def peak_of_packing(self) -> float:
        """The largest memory of a process that packs 29 million nonzeros as mosaic, CSR = 1."""
        # They are packed in parts, and mosaic takes 1.3 times the bytes of CSR.
        matrix = "uniform(rows=600000, cols=600000, per_row=48)"
        csr_bytes = 8 * 600000 * 49
        with open(os.devnull, "wb") as out:
            child = subprocess.Popen([BINARY, "pack", matrix, "--format", "mosaic"], cwd=self.folder,
                                     env=self.environment() | {"TESSERA_THREADS": "2"},
                                     stdout=out)  # fmt: skip
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        return usage.ru_maxrss * 1024 / csr_bytes

    def test_a_large_matrix_and_what_it_is_packed_as_are_never_whole_in_memory_at_once(self) -> None:
        made, cached = self.peak_of_packing(), self.peak_of_packing()
        self.assertLess(made, 2.4, "as much as the matrix twice, and the program")
        self.assertGreater(cached, 1.2, "the measurement sees the packed matrix")
        self.assertLess(cached, 2.0)


if __name__ == "__main__":
    unittest.main()
