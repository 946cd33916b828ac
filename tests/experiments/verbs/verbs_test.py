"""Tests of the verbs that answer one question, of their help and their JSON.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/verbs/verbs_test.py`. Matrices are
generated; all files go to a temporary folder.
"""

import json
import os
import re
import signal
import subprocess
import time
import unittest
from typing import Any

from program import POISSON, RMAT, UNIFORM, ProgramTest, machine, records_in


def python_draws() -> bool:
    """Whether the Python of the figures has matplotlib."""
    python = os.environ.get("TESSERA_PYTHON", "/usr/bin/python3")
    return subprocess.run([python, "-c", "import matplotlib"], capture_output=True,
                          check=False).returncode == 0


class FigureTest(ProgramTest):
    """tessera figure."""

    REST = "".join(f'[[figure]]\nid = "{name}"\nkind = "bars"\nx = "matrix"\ny = "gflops"\n'
                   'series = "kernel"\nwhere = { n = 4 }\n' for name in ("one", "two"))

    @unittest.skipUnless(python_draws(), "there is no Python with matplotlib")
    def test_figures_are_drawn_from_the_records_with_the_data_behind_them(self) -> None:
        config = self.config(UNIFORM, RMAT, backends='"model"', rest=self.REST)
        self.run_config(config)

        drawn = self.tessera("figure", config, "--out", str(self.out), "--only", "two",
                             "--to", "drawn")

        self.assertEqual(drawn.stdout.splitlines(), ["drawn/two.pdf", "drawn/two.png"])
        to = self.folder / "drawn"
        self.assertTrue((to / "two.pdf").read_bytes().startswith(b"%PDF"))
        self.assertTrue((to / "two.png").read_bytes().startswith(b"\x89PNG"))
        data = json.loads((to / "two.json").read_text())
        self.assertEqual([series["origin"] for series in data["series"]], ["modelled"])
        self.assertEqual(len((to / "two.csv").read_text().splitlines()), 1 + 2)
        self.assertFalse((to / "one.pdf").exists())

    def test_a_figure_that_cannot_be_drawn_is_an_error(self) -> None:
        config = self.config(UNIFORM, backends='"model"', rest=self.REST)

        absent = self.tessera("figure", config, "--out", str(self.out), code=2)
        self.run_config(config)
        unknown = self.tessera("figure", config, "--out", str(self.out), "--only", "tow",
                               code=2)
        empty = self.tessera("figure", config, "--out", str(self.out), "--set",
                             "figure.0.where.n=5", "--only", "one", code=2)
        others = self.tessera("figure", config, "--out", str(self.out), "--set",
                              "figure.0.where.n=5")

        self.assertIn("no such record file or folder", absent.stderr)
        self.assertIn("did you mean 'two'", unknown.stderr)
        self.assertIn("figure 'one' has no rows", empty.stderr)
        self.assertIn("figure 'one' has no rows", others.stderr)
        self.assertNotIn("one.pdf", others.stdout)
        self.assertIn("two.pdf", others.stdout)


class AdviseTest(ProgramTest):
    """tessera advise, and the kernel "auto"."""

    SHUFFLED = "shuffle(of=poisson2d(nx=40, ny=40))"

    def test_advise_ranks_what_the_registry_offers_and_says_why(self) -> None:
        kernels = {one["name"] for one in self.json_of("list", "kernels", "--json")
                   if one["b"] == "dense"}
        found = self.json_of("advise", self.SHUFFLED, "--n", "32", "--reorder", "rcm", "--json")
        text = self.tessera("advise", self.SHUFFLED, "--n", "32", "--reorder", "rcm").stdout

        ranked = found["ranked"]
        left_out = {line.split()[1].rstrip(":") for line in found["left_out"]}
        # These have operands in FP16 or INT8, and are looked at only by name.
        self.assertEqual({one["kernel"].partition("(")[0] for one in ranked} | left_out,
                         kernels - {"cublas", "dasp", "magicube", "smat", "tall_spmm"})
        self.assertEqual({one["reorder"].partition("(")[0] for one in ranked}, {"none", "rcm"})
        simulated = [one["time_us"] for one in ranked if one["origin"] == "simulated"]
        self.assertEqual(simulated, sorted(simulated))
        for one in ranked:
            self.assertLessEqual(one["lower_bound_us"], one["time_us"])
            self.assertAlmostEqual(one["preparation_s"],
                                   one["reorder_s"] + one["apply_s"] + one["pack_s"])
            self.assertIn(one["reason"], text)
        for line in found["left_out"]:
            self.assertIn(f"left out: {line}\n", text)
        self.assertTrue(ranked[0]["as_fast_as_first"])
        self.assertIn("fastest product: ", text)

    def test_an_order_pays_after_the_products_that_its_saving_takes(self) -> None:
        found = self.json_of("advise", self.SHUFFLED, "--n", "64", "--kernel", "acc_spmm",
                             "--reorder", "best", "--products", "7", "--json")

        by_order = {one["reorder"].partition("(")[0]: one for one in found["ranked"]}
        best, plain = by_order["best"], by_order["none"]
        saved = 1e-6 * (plain["time_us"] - best["time_us"])
        extra = best["preparation_s"] - plain["preparation_s"]
        self.assertGreater(saved, 0)
        self.assertAlmostEqual(best["pays_after_products"], extra / saved, delta=1)
        self.assertIsNone(plain["pays_after_products"])
        for one in found["ranked"]:
            self.assertAlmostEqual(one["total_s"], one["preparation_s"] + 7e-6 * one["time_us"])
        simulated = [one for one in found["ranked"] if one["origin"] == "simulated"]
        self.assertEqual(found["for_products"], min(simulated, key=lambda one: one["total_s"]))

    def test_quick_advice_is_modelled_and_cold_advice_slower(self) -> None:
        # Large enough that the fastest kernel takes longer than the host needs to launch it.
        quick, warm, cold = (self.json_of("advise", "rmat(scale=10)", "--n", "128", "--reorder",
                                          "none", "--json", *words)
                             for words in (["--quick"], [], ["--cold"]))

        self.assertEqual({one["origin"] for one in quick["ranked"]}, {"modelled"})
        self.assertEqual((warm["l2"], cold["l2"]), ("warm", "flush"))
        self.assertLess(warm["ranked"][0]["time_us"], cold["ranked"][0]["time_us"])

    def test_advice_that_is_cut_short_names_what_it_did_not_consider(self) -> None:
        words = ("advise", RMAT, "--n", "16", "--reorder", "rcm", "--kernel", "csr_spmm",
                 "--kernel", "acc_spmm")
        whole = self.json_of(*words, "--json")
        short = self.json_of(*words, "--max-seconds", "0", "--json")
        text = self.tessera(*words, "--max-seconds", "0").stdout

        self.assertEqual((whole["complete"], whole["not_considered"]), (True, []))
        self.assertEqual((short["complete"], short["ranked"]), (False, []))
        self.assertEqual(sorted(short["not_considered"]),
                         [f"{kernel}, order {order}" for kernel in ("acc_spmm", "csr_spmm")
                          for order in ("none", "rcm")])
        self.assertIn("not considered: acc_spmm, order rcm\n", text)
        self.assertIn("CUT SHORT after 0.0 s: 4 candidates could still be faster", text)
        self.assertNotIn("CUT SHORT", self.tessera(*words, "--max-seconds", "1e10").stdout)
        for seconds in ("nan", "-1"):
            self.assertIn("--max-seconds", self.tessera(*words, "--max-seconds", seconds,
                                                        code=2).stderr)

    def test_interrupted_advice_prints_what_it_has(self) -> None:
        matrix = "rmat(scale=16)"
        self.tessera("matrix", "info", matrix)  # in the cache from here on
        process = self.start("advise", matrix, "--n", "512", "--reorder", "none")
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)

        self.assertEqual(process.returncode, 130)
        self.assertIn("CUT SHORT by an interrupt: ", output)
        self.assertIn("not considered: ", output)

    def test_wrong_requests_for_advice_are_errors(self) -> None:
        for words, message in ((["--kernel", "acc_spm"], "did you mean 'acc_spmm'"),
                               (["--device", "h20"], "did you mean 'h200'"),
                               (["--reorder", "rmc"], "did you mean 'rcm'"),
                               (["--n", "0"], "--n"), (["--products", "0"], "--products")):
            self.assertIn(message, self.tessera("advise", RMAT, *words, code=2).stderr)
        nothing = self.tessera("advise", RMAT, "--kernel", "cusparse", code=5)
        self.assertIn("left out: kernel cusparse: ", nothing.stdout)
        self.assertIn("nothing can be predicted on h200", nothing.stdout)

    def test_multiply_takes_the_advised_kernel(self) -> None:
        record = self.json_of("multiply", RMAT, "--kernel", "auto", "--n", "16", "--json")
        text = self.tessera("multiply", RMAT, "--kernel", "auto", "--n", "16", "--backend",
                            "simulate").stdout

        advised = record["advice"]["kernel"].partition("(")[0]
        first = self.json_of("advise", RMAT, "--n", "16", "--reorder", "none", "--json")["ranked"][0]
        self.assertEqual(record["advice"]["kernel"], first["kernel"])
        self.assertEqual(record["advice"]["time_us"], first["time_us"])
        self.assertEqual(record["status"], "ok")
        self.assertEqual(record["params"]["kernel"], {"name": "auto"})
        self.assertRegex(text, rf"kernel +{advised}.* us predicted on h200")


class AnalyseTest(ProgramTest):
    """tessera analyse and tessera fit."""

    BANDS = tuple(f"band(n=512, bandwidth={16 * b})" for b in (0, 2, 4, 8, 12))

    def analysis(self, *words: str) -> dict[str, Any]:
        """The figures."""
        return self.json_of("analyse", *words, "--json")["analysis"]

    def test_analyse_tells_the_figures_of_every_paper(self) -> None:
        found = self.analysis(RMAT, "--n", "32")
        text = self.tessera("analyse", RMAT, "--n", "32").stdout

        for name, value in found.items():
            self.assertIn(f"  {name} ", text)
            if isinstance(value, str):
                self.assertIn(value, text)
        for paper in ("cuTeSpMM", "SMaT", "Acc-SpMM", "TCA-SpMM", "tSparse", "floor"):
            self.assertIn(paper, text)
        self.assertEqual(found["cutespmm_oi"], 512 * found["cutespmm_alpha"])
        wider = self.analysis(RMAT, "--n", "64")
        self.assertEqual(wider["tca_tile_mma"], 2 * found["tca_tile_mma"])

    def test_analyse_takes_an_order_and_a_device(self) -> None:
        shuffled = "shuffle(of=poisson2d(nx=40, ny=40))"
        before = self.analysis(shuffled)
        after = self.analysis(shuffled, "--reorder", "rcm")
        elsewhere = self.analysis(shuffled, "--device", "titan-rtx", "--no-square")

        self.assertLess(after["smat_blocks"], before["smat_blocks"])
        self.assertNotIn("floor_us", elsewhere)
        self.assertNotIn("tsparse_over_cusp", elsewhere)
        self.assertIn("tsparse_over_cusp", before)
        self.assertIn("  floor_us                                -", self.tessera(
            "analyse", shuffled, "--device", "titan-rtx").stdout)
        self.assertIn("did you mean 'rcm'",
                      self.tessera("analyse", RMAT, "--reorder", "rmc", code=2).stderr)
        self.assertIn("did you mean 'h200'",
                      self.tessera("analyse", RMAT, "--device", "h20", code=2).stderr)

    def test_predicted_products_keep_the_figures_and_a_table_asks_for_them(self) -> None:
        config = self.config(RMAT, backends='"model"', rest='[table]\ncolumns = ["smat_blocks", '
                             '"tca_mma", "floor_us"]\n')
        table = self.run_config(config).stdout

        [first, *_] = records_in(self.records)
        self.assertEqual(first["analysis"]["smat_blocks"], self.analysis(RMAT)["smat_blocks"])
        self.assertIn(f'{first["analysis"]["tca_mma"]}', table)

    def test_fit_finds_the_line_that_times_were_planted_on(self) -> None:
        self.run_config(self.config(*self.BANDS, backends='"model"'))
        lines = [json.loads(line) for line in self.records.read_text().splitlines()]
        for line in lines:
            if line["type"] == "point":
                line["prediction"]["time_us"] = 3 + 0.02 * line["analysis"]["smat_blocks"]
        self.records.write_text("".join(json.dumps(line) + "\n" for line in lines))

        fits = self.json_of("fit", str(self.out), "--json")

        for fit in fits:
            self.assertEqual(len(fit["points"]), len(self.BANDS))
            self.assertAlmostEqual(fit["time_per_block_us"]["value"], 0.02)
            self.assertAlmostEqual(fit["init_us"]["value"], 3)
            self.assertAlmostEqual(fit["r_squared"], 1)
            self.assertEqual(fit["line"][0]["blocks"], 0)
        self.assertIn("20 ns a block", self.tessera("fit", str(self.out)).stdout)
        self.assertIn("confidence is 2", self.tessera("fit", str(self.out), "--confidence", "2",
                                                      code=2).stderr)

    def test_fit_without_blocks_or_with_too_few_points_says_so(self) -> None:
        self.run_config(self.config(RMAT, UNIFORM, backends='"model"'))
        self.assertIn("needs three pairs", self.tessera("fit", str(self.out)).stdout)
        self.tessera("run", self.config(RMAT), "--out", "emulated")
        self.assertIn("no product with a time", self.tessera("fit", "emulated", code=2).stderr)


class MatrixTest(ProgramTest):
    """tessera matrix."""

    def test_info_tells_the_same_of_a_matrix_in_every_file_format(self) -> None:
        [generated] = self.json_of("matrix", "info", POISSON, "--json")
        self.assertEqual((generated["rows"], generated["cols"]), (63, 63))
        self.assertTrue(generated["synthetic"])

        for ending in ("mtx", "mtx.gz", "npz"):
            with self.subTest(ending=ending):
                file = self.folder / f"p.{ending}"
                self.tessera("matrix", "generate", POISSON, str(file))
                [read] = self.json_of("matrix", "info", str(file), "--json")
                self.assertEqual(read["hash"], generated["hash"])
                self.assertFalse(read["synthetic"])
        self.assertIn("63", self.tessera("matrix", "info", POISSON, RMAT).stdout)
        self.assertIn("not a generator", self.tessera("matrix", "generate", "p.mtx", "q.mtx",
                                                      code=2).stderr)

    def test_convert_keeps_the_content_and_refuses_endings_it_does_not_know(self) -> None:
        self.tessera("matrix", "generate", RMAT, "r.mtx")

        self.tessera("matrix", "convert", "r.mtx", "r.npz")

        before, after = self.json_of("matrix", "info", "r.mtx", "r.npz", "--json")
        self.assertEqual(before["hash"], after["hash"])
        self.tessera("matrix", "convert", "r.mtx", "r.xyz", code=2)

    def test_an_order_is_written_and_applied(self) -> None:
        self.tessera("matrix", "generate", f"shuffle(of={POISSON})", "s.mtx")
        for file in ("order.txt", "order.npy"):
            with self.subTest(file=file):
                told = self.json_of("reorder", "s.mtx", "--with", "rcm", "--out", file, "--json")

                [info] = self.json_of("matrix", "info", "s.mtx", "--apply", file, "--symmetric",
                                      "--json")

                self.assertEqual(info["bandwidth"], told["after"]["bandwidth"])
                self.assertLess(told["after"]["bandwidth"], told["before"]["bandwidth"])
        order = [int(line) for line in (self.folder / "order.txt").read_text().split()]
        self.assertEqual(sorted(order), list(range(63)))
        (self.folder / "short.txt").write_text("0\n1\n")
        self.tessera("matrix", "info", "s.mtx", "--apply", "short.txt", code=2)

    def test_verify_knows_right_from_wrong(self) -> None:
        self.tessera("matrix", "generate", RMAT, "r.mtx")
        [info] = self.json_of("matrix", "info", "r.mtx", "--json")

        right = self.tessera("matrix", "verify", "r.mtx", "--hash", info["hash"]).stdout
        wrong = self.tessera("matrix", "verify", "r.mtx", "--hash", "0" * 32, code=4).stdout

        self.assertTrue(right.endswith(": right\n"))
        self.assertIn("WRONG", wrong)

    def test_fetch_says_what_it_cannot_do(self) -> None:
        for name, code in (("HB/bcsstk17", 3), ("bcsstk17", 3), ("HB/bcs?stk17", 2)):
            with self.subTest(name=name):
                done = self.tessera("matrix", "fetch", name, "--mirror", "http://127.0.0.1:9",
                                    code=code)
                self.assertIn(name, done.stderr)


class OneShotTest(ProgramTest):
    """Verbs that answer one question."""

    def test_reorder_tells_before_and_after(self) -> None:
        told = self.json_of("reorder", RMAT, "--with", "degree", "--json")

        self.assertEqual(set(told["before"]), set(told["after"]))
        self.assertGreater(told["before"]["mean_nnz_tc_8x8"], 0)
        self.assertGreaterEqual(told["reorder_s"], 0)
        self.assertGreater(told["before"]["bricks"], 0)
        self.assertFalse(told["reorder_cut_short"])
        self.assertIn("rmat", self.tessera("reorder", RMAT, "--with", "none").stdout)
        self.assertIn("does not move columns",
                      self.tessera("reorder", RMAT, "--with", "none", "--out-cols", "c.txt",
                                   code=2).stderr)

    def limited(self) -> list[str]:
        """Reorderings that can be told how long they may take."""
        return [r["name"] for r in self.json_of("list", "reorderings", "--json")
                if any(p["name"] == "time_limit_s" for p in r["params"])]

    def test_the_best_order_is_the_default_of_reorder(self) -> None:
        if "best" in self.limited():
            told = self.json_of("reorder", RMAT, "--json")
            self.assertTrue(told["reordering"].startswith("best("))
            self.assertIn(f"chosen: {told['reorder_chosen']}",
                          self.tessera("reorder", RMAT).stdout)
        else:
            self.assertIn("reordering 'best'", self.tessera("reorder", RMAT, code=2).stderr)

    def test_an_order_is_kept_for_the_next_time(self) -> None:
        call = ("reorder", "rmat(scale=13)", "--with", "affinity", "--json")

        first, second = self.json_of(*call), self.json_of(*call)
        fresh = self.json_of(*call, "--fresh-orders")

        self.assertEqual([told["reorder_from_cache"] for told in (first, second, fresh)],
                         [False, True, False])
        self.assertEqual(second["reorder_s"], first["reorder_s"])
        self.assertEqual(second["after"], fresh["after"])
        self.assertIn("kept from when", self.tessera(*call[:-1]).stdout)

    def test_an_order_that_took_too_long_is_cut_short_marked_and_written(self) -> None:
        for name in self.limited():
            with self.subTest(reordering=name):
                call = ("reorder", "rmat(scale=12)", "--with", name, "--set", "time_limit_s=1e-6",
                        "--out", "order.txt")
                told = self.json_of(*call, "--json")

                self.assertTrue(told["reorder_cut_short"])
                self.assertFalse(told["reorder_from_cache"])
                self.assertIn("cut short", self.tessera(*call).stdout)
                order = [int(line) for line in (self.folder / "order.txt").read_text().split()]
                self.assertEqual(sorted(order), list(range(4096)))

    def test_ctrl_c_leaves_the_best_order_so_far(self) -> None:
        if "best" not in self.limited():
            self.skipTest("there is no reordering 'best'")
        self.tessera("matrix", "info", "rmat(scale=17)")  # from here on it is in the cache
        for delay in (0.3, 0.6, 0.15, 1.2, 2.4):  # seconds; when it begins depends on the machine
            process = self.start("reorder", "rmat(scale=17)", "--fresh-orders", "--out",
                                 "order.npy")
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
            if process.returncode != 130 or "cut short" not in output:
                continue  # not yet begun, or already done
            self.assertTrue((self.folder / "order.npy").exists())
            kept = self.json_of("reorder", "rmat(scale=17)", "--json")
            self.assertFalse(kept["reorder_cut_short"])
            return
        self.fail("no Ctrl-C came while an order was being found")

    def test_pack_adds_up(self) -> None:
        for name in ("csr", "bit_tcf"):
            with self.subTest(format=name):
                told = self.json_of("pack", RMAT, "--format", name, "--json")

                self.assertTrue(told["round_trip_exact"])
                self.assertEqual(told["footprint_bytes"],
                                 sum(array["bytes"] for array in told["arrays"]))
        self.assertIn("round trip exact",
                      self.tessera("pack", RMAT, "--format", "csr", "--reorder", "rcm").stdout)

    def test_packing_on_a_gpu_needs_one(self) -> None:
        if self.json_of("doctor", "--json")["backends"]["pack_gpu"] == "works":
            told = self.json_of("pack", RMAT, "--format", "bit_tcf", "--gpu", "--json")
            self.assertTrue(told["host_bytes"])
            self.assertGreater(told["pack_gpu_s"], 0)
        else:
            self.assertIn("error: ",
                          self.tessera("pack", RMAT, "--format", "csr", "--gpu", code=5).stderr)

    def test_multiply_checks_its_product_and_writes_it(self) -> None:
        record = self.json_of("multiply", RMAT, "--kernel", "acc_spmm", "--n", "8", "--reorder",
                              "degree", "--set", "precision=tf32_raw", "--out", "c.npy", "--json")
        text = self.tessera("multiply", RMAT, "--kernel", "acc_spmm", "--n", "8").stdout
        again = self.json_of("multiply", RMAT, "--kernel", "csr_spmm", "--b", "c.npy", "--json")
        model = self.json_of("multiply", RMAT, "--kernel", "csr_spmm", "--backend", "model",
                             "--device", "a100-80gb", "--json")

        self.assertEqual(record["status"], "ok")
        kernel = record["params"]["kernel"]
        self.assertEqual((kernel["name"], kernel["precision"], kernel["promote"]),
                         ("acc_spmm", "tf32_raw", -1))
        self.assertLessEqual(record["check"]["bound_ratio"], 1)
        self.assertIn("worst element", text)
        self.assertEqual(again["params"]["n"], 8)
        self.assertEqual(model["origin"], "modelled")
        self.assertGreater(model["gflops"], 0)
        self.assertEqual((self.folder / "c.npy").read_bytes()[:6], b"\x93NUMPY")
        self.assertEqual(self.json_of("multiply", UNIFORM, "--kernel", "csr_spmm", "--b", "c.npy",
                                      "--json", code=3)["status"], "failed")

    def test_multiply_takes_a_sparse_b(self) -> None:
        record = self.json_of("multiply", POISSON, "--kernel", "csr_spgemm", "--json")
        text = self.tessera("multiply", POISSON, "--kernel", "csr_spgemm", "--right",
                            "transpose").stdout
        listed = {one["name"]: one["b"] for one in self.json_of("list", "kernels", "--json")}

        self.assertEqual(record["status"], "ok")
        self.assertEqual(record["params"]["right"], "self")
        self.assertEqual(record["check"]["missing"], 0)
        self.assertIn(f"products         {record['products']}", text)
        self.assertIn("worst element", text)
        self.assertEqual((listed["csr_spgemm"], listed["csr_spmm"]), ("sparse", "dense"))
        for kernel, option in (("csr_spgemm", "--out=c.npy"), ("csr_spgemm", "--counters=cupti"),
                               ("csr_spgemm", "--format=csr"), ("csr_spmm", "--right=transpose")):
            refused = self.tessera("multiply", POISSON, "--kernel", kernel, option, "--backend",
                                   "gpu", code=2)
            self.assertIn(f"kernel {kernel}", refused.stderr)

    def test_the_published_choices_of_a_system_are_listed_with_their_source(self) -> None:
        listed = {one["name"]: one.get("published") for one in self.json_of("list", "kernels", "--json")}
        systems = {name for name, choices in listed.items() if choices}
        self.assertEqual(systems, {"acc_spmm", "cutespmm", "smat", "tca_spmm", "tsparse"})
        self.assertIn({"name": "kernel.coarsen", "default": "32",
                       "help": "cuTeSpMM, section 4, equations 3 and 4: TN = 32"},
                      listed["cutespmm"])  # fmt: skip
        text = self.tessera("list", "kernels").stdout
        self.assertIn("kernel.coarsen=32  cuTeSpMM, section 4", text)
        self.assertEqual(text.count('as = "published"'), len(systems))

    def test_list_knows_everything_with_a_name(self) -> None:
        expected = {"formats": "bit_tcf", "reorderings": "rcm", "kernels": "acc_spmm",
                    "models": "roofline", "devices": "h200", "generators": "rmat",
                    "experiments": "quickstart", "backends": "emulate", "columns": "gflops",
                    "files": None}
        for kind, name in expected.items():
            with self.subTest(kind=kind):
                items = self.json_of("list", kind, "--json")
                self.assertTrue(all(item["summary"] for item in items))
                names = [item["name"] for item in items]
                self.assertEqual(len(set(names)), len(names))
                if name:
                    self.assertIn(name, names)
                text = self.tessera("list", kind).stdout
                self.assertTrue(all(item in text for item in names))

    def test_doctor_tells_what_is_missing_and_what_that_disables(self) -> None:
        found = machine()
        text = self.tessera("doctor")

        self.assertEqual(found["backends"]["emulate"], "works")
        self.assertTrue(found["machine"]["host"]["available"])
        for tool in found["tools"]:
            self.assertTrue(tool["disables"])
            self.assertIn(tool["name"], text.stdout)
        self.assertEqual(text.stderr, "")

    def test_validate_wants_a_gpu_and_knows_its_names(self) -> None:
        if machine()["backends"]["gpu"] == "works":
            told = self.json_of("validate", "--outputs", "1e6", "--instruction", "m16n8k8.tf32",
                                "--out", "v.json", "--json")
            self.assertTrue(all(row["verdict"] == "equal" for row in told["rows"]))
            self.assertEqual(json.loads((self.folder / "v.json").read_text()), told)
            self.assertEqual(len((self.folder / "v.csv").read_text().splitlines()),
                             1 + len(told["rows"]))
        else:
            self.assertIn("nothing to validate", self.tessera("validate", code=5).stderr)

        misspelt = self.tessera("validate", "--instruction", "m16n8k8.tf23", code=2)
        self.assertIn("did you mean 'm16n8k8.tf32'", misspelt.stderr)
        misspelt = self.tessera("validate", "--family", "unifrom", code=2)
        self.assertIn("did you mean 'uniform'", misspelt.stderr)

    def test_calibrate_wants_a_gpu_and_writes_a_device_file(self) -> None:
        if machine()["backends"]["gpu"] == "works":
            self.tessera("calibrate", "--quick", "--only", "loads", "pipelines", "--out", "g.toml",
                         "--curves", "curves")
            self.assertIn("issue_rate = { value = ", (self.folder / "g.toml").read_text())
            lines = (self.folder / "curves" / "load_lines.csv").read_text().splitlines()
            self.assertEqual(lines[0], "lines,cycles")
            self.assertEqual(len(lines), 1 + 6)
            self.assertIn("did you mean 'loads'",
                          self.tessera("calibrate", "--only", "laods", code=2).stderr)
        else:
            done = self.tessera("calibrate", "--out", "g.toml", code=5)
            self.assertIn("nothing to calibrate", done.stderr)
            self.assertFalse((self.folder / "g.toml").exists())
        misspelt = self.tessera("calibrate", "--device", "h20", code=2)
        self.assertIn("did you mean 'h200'", misspelt.stderr)

    def test_metrics_are_looked_up_without_a_gpu_or_said_to_be_unknowable(self) -> None:
        known = self.json_of("doctor", "--json")["metric_names"]
        if not known.startswith("of "):
            missing = self.tessera("counters", "list", code=5)
            self.assertIn(f"metrics cannot be looked up: {known}", missing.stderr)
            self.skipTest(known)
        listed = self.tessera("counters", "list", "--match", "lts__t_sectors_op_r", "--json")
        right = self.tessera("counters", "check", "--chip", "GA100", "--json")
        wrong = self.tessera("counters", "check", "lts__t_sectors.sum", "lts__t_sector.sum",
                             code=2)

        self.assertIn("lts__t_sectors_op_read", [m["name"] for m in json.loads(listed.stdout)])
        self.assertEqual(json.loads(right.stdout)["passes"], 2)
        self.assertEqual(wrong.stdout, "lts__t_sectors.sum\n")
        self.assertIn("chip GH100 has no metric lts__t_sector.sum; nearest: ", wrong.stderr)

    def test_only_what_runs_on_a_gpu_is_counted(self) -> None:
        refused = self.tessera("multiply", POISSON, "--kernel", "csr_spmm", "--counters", "cupti",
                               code=2)
        self.assertIn("counters are of backend gpu; backend is emulate", refused.stderr)
        misspelt = self.tessera("multiply", POISSON, "--kernel", "csr_spmm", "--backend", "gpu",
                                "--counters", "cupty", code=2)
        self.assertIn("did you mean 'cupti'", misspelt.stderr)

    def test_every_verb_has_help(self) -> None:
        verbs = re.findall(r"^  (\w+) +\S", self.tessera("--help").stdout.split("ommands:")[1],
                           re.MULTILINE)
        self.assertEqual(sorted(verbs), ["advise", "analyse", "calibrate", "compare", "complete",
                                         "counters", "doctor", "figure", "fit", "list", "man",
                                         "matrix", "merge", "multiply", "pack", "plan", "point",
                                         "reorder", "report", "run", "status", "submit", "sweep",
                                         "timeline", "validate"])
        calls = [(verb,) for verb in verbs]
        calls += [("matrix", name) for name in ("info", "convert", "generate", "verify", "fetch")]
        calls += [("counters", name) for name in ("check", "list")]
        for call in calls:
            with self.subTest(call=call):
                done = self.tessera(*call, "--help")
                self.assertIn("--help", done.stdout)
                self.assertEqual(done.stderr, "")
        self.assertRegex(self.tessera("--version").stdout, r"^tessera \d+\.\d+")


if __name__ == "__main__":
    unittest.main()
