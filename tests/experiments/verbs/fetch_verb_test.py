"""Tests of `tessera matrix fetch` against a server on the loopback interface.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3
tests/experiments/verbs/fetch_verb_test.py`.
"""

import gzip
import hashlib
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

from program import POISSON, RMAT, ProgramTest, wait_for

SERVER = Path(__file__).resolve().parents[2] / "http_server.py"
EDGES = "# nodes: 400\n" + "".join(f"{i}\t{(7 * i * i + 3) % 400}\n" for i in range(400))


INDEX = """4
31-Oct-2026 18:12:37
HB,bcsstk17,10974,10974,428650,1,0,0,1,1,1,structural problem
Far,wide,20000,15000,50000,1,1,0,0,0,0,bipartite graph
DNVS,thread,29736,29736,4444880,1,0,1,1,1,1,structural problem
Far,thin,200,20000,40000,1,1,0,0,0,0,bipartite graph
"""


class FetchVerbTest(ProgramTest):
    """tessera matrix fetch."""

    def setUp(self) -> None:
        super().setUp()
        self.own_cache = self.folder / "cache"
        self.home = None  # a folder whose files are found before the shipped ones
        served = self.folder / "served"
        self.files = {}
        for place in ("HB/bcsstk17.tar.gz", "AG-Monien/wave.tar.gz", "one.txt.gz", "two.txt.gz"):
            body = gzip.compress((place + EDGES).encode() if "tar" in place else EDGES.encode(),
                                 compresslevel=0)
            (served / place).parent.mkdir(parents=True, exist_ok=True)
            (served / place).write_bytes(body)
            self.files[place] = body
        (served / "files").mkdir()
        (served / "files/ssstats.csv").write_text(INDEX)
        self.log = self.folder / "log"
        server = subprocess.Popen([sys.executable, SERVER, served, self.log], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(server.communicate)
        assert server.stdout is not None
        self.url = f"http://127.0.0.1:{int(server.stdout.readline())}"

    def environment(self) -> dict[str, str]:
        home = {"TESSERA_HOME": str(self.home)} if self.home else {}
        return {**super().environment(), **home, "TESSERA_CACHE": str(self.own_cache), "TESSERA_COLLECTION_INDEX": "",
                "no_proxy": "127.0.0.1"}

    def fetch(self, *words: str, mode: str = "plain", code: int = 0):
        """The verb with the server as its mirror."""
        return self.tessera("matrix", "fetch", *words, "--mirror", f"{self.url}/{mode}", code=code)

    def downloads(self) -> list[str]:
        """What lies in the cache but for records."""
        root = self.own_cache / "downloads"
        return sorted(str(path.relative_to(root)) for path in root.rglob("*")
                      if path.is_file() and path.suffix != ".json")

    def test_several_names_are_fetched_and_found_without_their_collection(self) -> None:
        done = self.fetch("snap/one", "snap/two", "wave")

        self.assertEqual(self.downloads(), ["AG-Monien/wave.tar.gz", "snap/one.txt.gz",
                                            "snap/two.txt.gz"])
        total = sum(len(self.files[f]) for f in ("one.txt.gz", "two.txt.gz", "AG-Monien/wave.tar.gz"))
        self.assertIn(f"to download: 3 matrices, {total / 1000:.2f} kB", done.stderr)
        for place in ("one.txt.gz", "two.txt.gz"):
            self.assertIn(hashlib.sha256(self.files[place]).hexdigest(), done.stdout)
        [info] = self.json_of("matrix", "info", "one", "--json")
        self.assertTrue(info["source"].endswith("downloads/snap/one.txt.gz"))
        self.log.write_text("")
        self.assertIn("(was there)", self.fetch("snap/one").stdout)
        self.assertEqual(self.log.read_text(), "")

    def test_a_dry_run_shows_sizes_and_fetches_nothing(self) -> None:
        done = self.fetch("snap/one", "snap/none", "--dry-run")

        size = len(self.files["one.txt.gz"])
        self.assertIn(f"snap/one   {size / 1000:.2f} kB", done.stdout)
        self.assertRegex(done.stdout, r"snap/none  size unknown: .*404 \(not found\)")
        self.assertIn("to download: 2 matrices, ", done.stdout)
        self.assertEqual(self.downloads(), [])
        self.assertNotIn(" -\n", self.log.read_text())

    def test_a_set_names_what_cannot_be_fetched_and_why(self) -> None:
        done = self.fetch("@real_matrices", "--dry-run")

        lines = dict(line.split(None, 1) for line in done.stdout.splitlines()[:-1])
        self.assertEqual(len(lines), 24)
        self.assertEqual(lines["mycielskian14"], "made by a formula")
        self.assertIn("HB/bcsstk17, ", lines["bcsstk17"])
        self.assertIn("not to be fetched: published as Python pickles", lines["cora"])
        self.assertIn("to download: 10 matrices", done.stdout)
        self.assertIn("13 not to be fetched by name", done.stdout)

    def test_every_matrix_of_the_shipped_sets_is_accounted_for(self) -> None:
        sets = [line.partition("\t")[0] for line in self.tessera(
            "complete", "words", "--", "matrix", "fetch", "@").stdout.splitlines()]
        self.assertGreater(len(sets), 4)
        self.assertIn("to download: ", self.fetch(*sets, "--dry-run").stdout)

    def test_a_query_brings_the_index_once_and_names_what_it_selects(self) -> None:
        first = self.fetch("@cutespmm_1099", "--dry-run")

        lines = dict(line.split(None, 1) for line in first.stdout.splitlines()[:-1])
        self.assertEqual(list(lines), ["wide", "bcsstk17", "thread"])
        self.assertIn("Far/wide, ", lines["wide"])
        self.assertIn("3 matrices of 4 in the collection's index (revised 31-Oct-2026 18:12:37) meet "
                      "'rows > 10000 && cols > 10000'; the paper had 1099 (cuTeSpMM, section 6.1",
                      first.stderr)
        self.assertIn(hashlib.sha256(INDEX.encode()).hexdigest(), first.stderr)
        self.assertIn("ssstats.csv", self.log.read_text())
        self.log.write_text("")
        self.fetch("@cutespmm_1099", "--dry-run")
        self.assertNotIn("ssstats.csv", self.log.read_text())

        plan = self.tessera("plan", "cutespmm_fig2", "--as-written", "--backend", "model", "--set",
                            'grid.matrix="@cutespmm_1099"')
        self.assertIn("thread", plan.stdout)
        self.assertIn("the paper had 1099 (cuTeSpMM, section 6.1 and table 2); 0 of them here",
                      plan.stderr)

    def test_a_query_without_a_network_says_what_to_do(self) -> None:
        for call in (("matrix", "fetch", "@tsparse_260", "--mirror", f"{self.url}/404"),
                     ("plan", "tsparse_table1", "--set", 'grid.matrix="@tsparse_260"')):
            error = self.tessera(*call, code=2).stderr
            self.assertRegex(error, r"tsparse_260.toml:\d+:\d+: @tsparse_260 is a query over the index")
            self.assertIn("TESSERA_COLLECTION_INDEX", error)
            self.assertEqual("/files/ssstats.csv: the server answered 404" in error, "fetch" in call)

    def test_a_set_of_names_finds_their_groups_in_the_index(self) -> None:
        done = self.fetch("@acc_spmm_414", "--dry-run")

        lines = dict(line.split(None, 1) for line in done.stdout.splitlines()[:-1])
        self.assertEqual(len(lines), 414)
        self.assertIn("DNVS/thread, size ", lines["thread"])
        self.assertEqual(lines["mycielskian14"], "made by a formula")
        self.assertIn("no collection is known", lines["nd24k"])
        self.own_cache = self.folder / "other"
        lost = self.fetch("@acc_spmm_414", "--dry-run", mode="404")
        self.assertRegex(lost.stdout, "thread +not to be fetched: its group is in the collection's "
                                      "index, http.*404")

    def test_one_that_fails_does_not_keep_the_others_away(self) -> None:
        done = self.fetch("snap/none", "snap/one", code=3)

        self.assertEqual(self.downloads(), ["snap/one.txt.gz"])
        self.assertRegex(done.stderr, r"error: http://127.*/none.txt.gz: .* 404 \(not found\)")

    def test_a_download_that_was_killed_is_resumed(self) -> None:
        call = ("matrix", "fetch", "snap/one", "--mirror", f"{self.url}/stall_once")
        part = self.own_cache / "downloads/snap/one.txt.gz.part"
        half = len(self.files["one.txt.gz"]) // 2
        process = self.start(*call)
        wait_for(lambda: part.exists() and part.stat().st_size == half, "half of the file")
        process.kill()
        process.wait()
        self.log.write_text("")

        shown = self.tessera(*call, "--dry-run")
        self.tessera(*call)

        self.assertIn("of it here", shown.stdout)
        self.assertIn(f"stall_once one.txt.gz bytes={half}-\n", self.log.read_text())
        self.assertEqual((self.own_cache / "downloads/snap/one.txt.gz").read_bytes(),
                         self.files["one.txt.gz"])
        self.assertFalse(part.exists())

    def test_a_wrong_checksum_is_refused_and_the_right_one_taken(self) -> None:
        right = hashlib.sha256(self.files["one.txt.gz"]).hexdigest()
        wrong = self.fetch("snap/one", "--sha256", "0" * 64, code=3)
        self.assertIn(f"its SHA-256 is {right}, expected {'0' * 64}", wrong.stderr)
        self.assertEqual(self.downloads(), [])

        self.fetch("snap/one", "--sha256", right)
        self.assertEqual(self.downloads(), ["snap/one.txt.gz"])
        self.assertIn("--sha256 is of one file; 2 matrices are named", self.fetch(
            "snap/one", "snap/two", "--sha256", right, code=2).stderr)

    def test_a_checksum_of_the_catalogue_is_required(self) -> None:
        right = hashlib.sha256(self.files["AG-Monien/wave.tar.gz"]).hexdigest()
        catalogue = self.folder / "home/experiments/configs/catalogue/matrices.toml"
        catalogue.parent.mkdir(parents=True)
        head = 'schema = 1\n[fetch]\nwave = "AG-Monien/wave"\n[sha256]\n'
        self.home = self.folder / "home"
        catalogue.write_text(f'{head}wave = "{right}"\n')
        for name in ("wave", "AG-Monien/wave"):
            error = self.fetch(name, mode="corrupt", code=3).stderr
            self.assertRegex(error, f"AG-Monien/wave.tar.gz: its SHA-256 is [0-9a-f]{{64}}, expected {right}")
            self.assertNotIn(f"SHA-256 is {right}", error)
            self.assertEqual(self.downloads(), [])
        self.assertIn(right, self.fetch("wave").stdout)
        # It is required of a file that is here already, too.
        catalogue.write_text(f'{head}wave = "{"0" * 64}"\n')
        self.assertIn("expected 0000", self.fetch("AG-Monien/wave", code=3).stderr)

        for line, message in ((f'wav = "{right}"', "[fetch] has no 'wav'"),
                              ('wave = "12"', "'12' is no SHA-256"),
                              (f'wave = "{right.upper()}"', "64 hexadecimal digits in lower case")):
            catalogue.write_text(f"{head}{line}\n")
            error = self.fetch("wave", code=2).stderr
            self.assertRegex(error, r"matrices.toml:5:\d+: ")
            self.assertIn(message, error)

    def test_a_file_that_changed_since_it_was_fetched_is_refused(self) -> None:
        self.fetch("snap/one")
        file = self.own_cache / "downloads/snap/one.txt.gz"
        record = json.loads(Path(f"{file}.json").read_text())
        file.unlink()

        changed = self.fetch("snap/one", mode="corrupt", code=3)

        self.assertIn(f"but that of the file fetched on {record['date']} was {record['sha256']}",
                      changed.stderr)
        self.assertFalse(file.exists())
        self.fetch("snap/one")
        self.assertTrue(file.exists())
        file.unlink()
        Path(f"{file}.json").unlink()
        self.fetch("snap/one", mode="corrupt")  # nothing is known of it

    def test_unknown_names_and_sets_get_the_nearest_one(self) -> None:
        for name, message in (("wav", "did you mean 'wave'"), ("@real_matrixes", "'real_matrices'"),
                              ("quux", "HB/bcsstk17 (SuiteSparse)")):
            self.assertIn(message, self.fetch(name, code=2).stderr)
        self.assertIn("made by a formula", self.fetch(RMAT, POISSON, "--dry-run").stdout)


if __name__ == "__main__":
    os.environ.pop("NO_COLOR", None)
    unittest.main()
