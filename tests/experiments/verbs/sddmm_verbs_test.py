"""SDDMM on the command line: one product, its options, and its kernels in lists and sweeps.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/verbs/sddmm_verbs_test.py`.
"""

import unittest

from program import POISSON, ProgramTest, records_in


class SddmmVerbsTest(ProgramTest):
    """SDDMM beside the other products."""

    def test_multiply_samples_two_dense_matrices_at_the_nonzeros(self) -> None:
        record = self.json_of("multiply", POISSON, "--kernel", "rows_sddmm", "--n", "24", "--json")
        text = self.tessera("multiply", POISSON, "--kernel", "tessera_sddmm", "--n", "24",
                            "--set", "factor=values").stdout  # fmt: skip

        self.assertEqual(record["status"], "ok")
        self.assertEqual(record["params"]["n"], 24)
        self.assertEqual(record["check"]["compared"], record["matrix"]["nnz"])
        self.assertIn("status           ok", text)
        self.assertIn("worst element", text)

    def test_its_kernels_are_listed_with_those_of_other_products(self) -> None:
        listed = {one["name"]: one["b"] for one in self.json_of("list", "kernels", "--json")}
        self.assertEqual(listed["rows_sddmm"], "sampled")
        self.assertEqual(listed["rows_spmm"], "dense")

    def test_options_of_other_products_are_refused(self) -> None:
        for option in ("--out=c.npy", "--b=b.npy", "--counters=cupti", "--right=transpose"):
            refused = self.tessera("multiply", POISSON, "--kernel", "rows_sddmm", option,
                                   "--backend", "gpu", code=2)  # fmt: skip
            self.assertIn("kernel rows_sddmm", refused.stderr)

    def test_a_sweep_has_kernels_of_both_kinds_of_dense_operands(self) -> None:
        self.tessera("sweep", POISSON, "--kernel", "rows_spmm,rows_sddmm", "--n", "8,16",
                     "--backend", "emulate", "--out", str(self.out))  # fmt: skip
        records = records_in(self.records)
        self.assertEqual(sorted((record["params"]["kernel"]["name"], record["params"]["n"])
                                for record in records),
                         [(kernel, n) for kernel in ("rows_sddmm", "rows_spmm") for n in (8, 16)])  # fmt: skip
        self.assertEqual({record["status"] for record in records}, {"ok"})


if __name__ == "__main__":
    unittest.main()
