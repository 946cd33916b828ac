"""Finds a Python that has what a script imports. Every script here imports this module first.

Where the running Python lacks a package that the script, or a module beside it, imports, the script
starts again with the first interpreter that has all of them: $TESSERA_PYTHON if it is set, else the
python3 and python3.N on the PATH and /usr/bin/python3. Where there is none, the message says what
each of them lacks and how to install it. `python3 notebooks/needs.py PACKAGE...` prints the path of
that interpreter. This module itself needs Python 3.6.
"""

import ast
import os
import re
import subprocess
import sys
from importlib.util import find_spec

HERE = os.path.dirname(os.path.abspath(__file__))
OLDEST = (3, 11)  # tomllib
PACKAGES = {"matplotlib", "nbformat", "numpy", "pandas", "scipy"}  # all that are not part of Python
PROBE = """import sys
print("%d.%d" % sys.version_info[:2])
for name in sys.argv[1:]:
    try:
        __import__(name)
    except Exception:
        print(name)
"""


def imported(script, seen=None):
    """The names of all modules that a script and the modules beside it import."""
    with open(script, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    names = set()
    for node in tree.body:  # what a function imports is for it to miss
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0])
    seen = set() if seen is None else seen
    for name in sorted(names - seen):
        beside = os.path.join(HERE, name + ".py")
        seen.add(name)
        if os.path.exists(beside):
            imported(beside, seen)
    return seen


def interpreters():
    """The paths of the interpreters to try, in order."""
    if os.environ.get("TESSERA_PYTHON"):
        return [os.environ["TESSERA_PYTHON"]]
    found = []
    for folder in os.environ.get("PATH", "").split(os.pathsep) + ["/usr/bin"]:
        names = os.listdir(folder) if os.path.isdir(folder) else []
        names = [name for name in names if re.match(r"python3(\.\d+)?$", name)]
        names.sort(key=lambda name: -int(name[8:] or 999))  # python3 itself comes first
        found += [path for path in (os.path.join(folder, name) for name in names)
                  if os.access(path, os.X_OK) and path not in found]
    return found


def fault(interpreter, packages):
    """The reason why an interpreter will not do; "" where it has every package."""
    try:
        done = subprocess.run([interpreter, "-c", PROBE] + packages, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "does not start"
    lines = done.stdout.decode().split()
    if done.returncode != 0 or not lines:
        return "does not start"
    if tuple(int(part) for part in lines[0].split(".")) < OLDEST:
        return f"is Python {lines[0]}"
    return "has no {}".format(", no ".join(lines[1:])) if lines[1:] else ""


def find(packages):
    """The first interpreter that has the packages; ends the script with a message without one."""
    faults = []
    for interpreter in interpreters():
        why = fault(interpreter, packages)
        if not why:
            return interpreter
        faults.append(f"  {interpreter} {why}\n")
    tried = "$TESSERA_PYTHON" if os.environ.get("TESSERA_PYTHON") else "the PATH"
    sys.stderr.write(
        "error: this needs a Python {}.{} or newer with {}. Tried, from {}:\n{}"
        "Install what is missing (Debian, Ubuntu: apt-get install {}; elsewhere:\n"
        "python3 -m pip install {}), or name an interpreter that has it in $TESSERA_PYTHON.\n"
        .format(OLDEST[0], OLDEST[1], ", ".join(packages), tried, "".join(faults),
                " ".join("python3-" + name.replace("_", "-") for name in packages), " ".join(packages)))
    sys.exit(2)


def restart_where_needed():
    """Starts the running script again where its interpreter will not do."""
    script = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    if os.path.dirname(script) != HERE or "ipykernel" in sys.modules:
        return
    packages = sorted(PACKAGES & imported(script))
    missing = [name for name in packages if find_spec(name) is None]
    if missing or sys.version_info < OLDEST:
        other = find(packages)
        lack = " and no ".join(missing) or "Python {}.{}".format(*OLDEST)
        sys.stderr.write(f"note: {other} is used, since {sys.executable} has no {lack}\n")
        sys.stderr.flush()
        os.execv(other, [other, "-B", script] + sys.argv[1:])


if __name__ == "__main__":
    print(find(sys.argv[1:]))
else:
    restart_where_needed()
