"""The Python of the README and of python/examples runs, and says what it lacks."""

import os
import re
import subprocess
import sys

import python_package

python_package.need("pytest", "numpy")
import pytest

ROOT = python_package.ROOT


def run_python(*words):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=200,
                          env=environment)  # fmt: skip


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/call_from_python.md"])
def test_the_example_of_a_page_has_at_most_twelve_lines_and_runs(page):
    found = re.findall(r"```python file=\S+\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert len(found) == 1 and len(found[0].splitlines()) <= 12
    ran = run_python("-c", found[0])
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip()


@pytest.mark.parametrize("name, package", [("cupy_product", "CuPy"), ("jax_product", "JAX")])
def test_an_example_gives_the_product_or_says_what_is_missing(name, package):
    ran = run_python(str(ROOT / "python" / "examples" / f"{name}.py"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"needs {package}" in ran.stdout or "largest error" in ran.stdout or "GPU" in ran.stdout


def test_an_example_says_so_where_its_package_is_missing(tmp_path):
    for name in ("cupy", "jax"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('absent')\n")
        script = ROOT / "python" / "examples" / f"{name}_product.py"
        ran = run_python("-c", f"import runpy, sys; sys.path.insert(0, {str(tmp_path)!r}); "
                         f"runpy.run_path({str(script)!r}, run_name='__main__')")  # fmt: skip
        assert ran.returncode == 0 and "pip install" in ran.stdout, ran.stderr


if __name__ == "__main__":
    sys.exit(python_package.main(__file__))
