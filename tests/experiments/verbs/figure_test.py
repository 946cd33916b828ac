"""Tests of tessera figure: styles, formats, LaTeX tables and macros, and the Python that draws.

Run with `TESSERA_BINARY=build-cpu/tessera PYTHONPATH=tests python3 tests/experiments/verbs/figure_test.py`. All files
go to a temporary folder.
"""

import os
import shutil
import subprocess
import unittest
from pathlib import Path

from program import RMAT, UNIFORM, ProgramTest


def python_draws() -> bool:
    """Whether the Python of the figures has matplotlib."""
    python = os.environ.get("TESSERA_PYTHON", "/usr/bin/python3")
    return subprocess.run([python, "-c", "import matplotlib"], capture_output=True,
                          check=False).returncode == 0


@unittest.skipUnless(python_draws(), "there is no Python with matplotlib")
class PaperTest(ProgramTest):
    """Figures, tables and numbers for a paper."""

    REST = ('[table]\ncolumns = ["matrix", "kernel", "n", "gflops"]\n'
            '[[figure]]\nid = "speed_up"\nkind = "bars"\ntitle = "Speed & more"\nx = "matrix"\n'
            'y = "gflops"\nseries = "kernel"\nwhere = { n = 4 }\n')

    def setUp(self) -> None:
        super().setUp()
        self.path = self.config(UNIFORM, RMAT, backends='"model"', rest=self.REST)
        self.run_config(self.path)

    def environment(self) -> dict[str, str]:
        """That of other tests, and what one test sets."""
        return {**super().environment(), **getattr(self, "own_environment", {})}

    def figure(self, *words: str, code: int = 0) -> subprocess.CompletedProcess:
        return self.tessera("figure", self.path, "--out", str(self.out), "--to", "drawn", *words,
                            code=code)

    def test_a_style_and_formats_are_drawn_and_only_these(self) -> None:
        drawn = self.figure("--style", "ieee", "--columns", "1", "--format", "pdf,svg")

        self.assertEqual(drawn.stdout.splitlines(), ["drawn/speed_up.pdf", "drawn/speed_up.svg"])
        self.assertEqual({path.suffix for path in (self.folder / "drawn").iterdir()},
                         {".csv", ".json", ".pdf", ".svg"})

    def test_a_figure_whose_unit_has_not_run_leaves_the_others_to_be_drawn(self) -> None:
        more = self.REST + self.REST.split("[[figure]]")[1].join(["[[figure]]", ""]).replace(
            "speed_up", "relative").replace("where", 'normalise = "acc_spmm"\nwhere')
        self.path = self.config(UNIFORM, RMAT, backends='"model"', rest=more)

        drawn = self.figure("--format", "svg")

        self.assertEqual(drawn.stdout, "drawn/speed_up.svg\n")
        self.assertIn("'relative' is normalised to 'acc_spmm', which has no values", drawn.stderr)

    def test_every_style_of_the_scripts_is_one_of_the_program(self) -> None:
        help_text = self.tessera("figure", "--help").stdout
        scripts = Path(__file__).resolve().parents[3] / "notebooks"
        styles = subprocess.run(
            [os.environ.get("TESSERA_PYTHON", "/usr/bin/python3"), "-c",
             "import figure, style; print(*style.STYLES, *figure.FORMATS)"],
            cwd=scripts, capture_output=True, text=True, check=True).stdout.split()

        for name in styles:
            self.assertIn(name, help_text)
        for option, name in (("--style", "nature"), ("--format", "gif")):
            self.assertIn(name, self.figure(option, name, code=2).stderr)

    def test_one_command_gives_the_numbers_of_a_text_and_the_table(self) -> None:
        drawn = self.figure("--style", "acm", "--latex", "--macros", "numbers.tex")

        self.assertEqual(drawn.stdout.splitlines()[-2:], ["drawn/table.tex", "numbers.tex"])
        macros = (self.folder / "numbers.tex").read_text()
        self.assertRegex(macros, r"\\newcommand\{\\\w+SpeedUpMatrices\}\{2\}\n")
        self.assertRegex(macros, r"SpeedUpCaption\}\{Speed \\& more\. 2 matrices, (.|\n)*"
                                 r"Selected: n = 4\.(.|\n)*Not measured: all values modelled")
        self.assertRegex(macros, r"Commit\}\{\w+\}")
        self.assertIn("\\toprule", (self.folder / "drawn/table.tex").read_text())

    @unittest.skipUnless(shutil.which("pdflatex"), "there is no LaTeX")
    def test_a_document_with_the_figure_the_table_and_the_numbers_compiles(self) -> None:
        self.figure("--style", "acm", "--format", "pgf,pdf", "--latex", "--macros", "numbers.tex")
        name = next(line for line in (self.folder / "numbers.tex").read_text().splitlines()
                    if "SpeedUpCaption" in line).split("{")[1].rstrip("}")
        (self.folder / "paper.tex").write_text(
            "\\documentclass{article}\\usepackage{pgf,booktabs}\\input{numbers}\n"
            "\\begin{document}\\begin{figure}\\input{drawn/speed_up.pgf}\\caption{" + name
            + "}\\end{figure}\n\\input{drawn/table}\\end{document}\n")

        done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error",
                               "paper.tex"], cwd=self.folder, capture_output=True, check=False)

        self.assertEqual(done.returncode, 0, done.stdout[-2000:])

    def test_pgf_without_latex_says_what_to_install(self) -> None:
        bare = self.folder / "bin"
        bare.mkdir()
        python = os.environ.get("TESSERA_PYTHON", "/usr/bin/python3")

        self.own_environment = {"PATH": str(bare), "TESSERA_PYTHON": shutil.which(python)}

        done = self.figure("--format", "pgf", code=2)

        self.assertIn("there is no pdflatex, lualatex or xelatex", done.stderr)
        self.assertIn("apt-get install", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_a_python_that_was_chosen_and_is_not_there_is_named(self) -> None:
        self.own_environment = {"TESSERA_PYTHON": "/nonexistent/python3"}

        done = self.figure(code=2)

        self.assertIn("/nonexistent/python3 cannot be started", done.stderr)


if __name__ == "__main__":
    unittest.main()
