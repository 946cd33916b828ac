"""Who may include whom: reads the #include lines of every C++ and CUDA file.

The picture is that of the README: an oracle that saw a format could inherit its mistakes, a model
that saw a kernel could peek at a measurement. Run without arguments it checks the source tree this
file lies in, after planting a violation of every rule in a temporary tree and seeing it caught.
"""

import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".hpp", ".cpp", ".cuh", ".cu"}

# A room's files may include those of the rooms, or the single files, named here. A file belongs to
# the longest name that its path starts with; a folder that is in no room is an error.
MAY_INCLUDE = {
    "formats/base": {"formats/base"},
    "formats/io": {"formats/base", "formats/io"},
    "formats/values": {"formats/base", "formats/values"},
    "formats": {"formats/base", "formats"},
    "reorder": {"formats/base", "reorder"},
    "oracle": {"formats/base", "oracle"},
    "kernels": {"formats/base", "formats", "kernels", "kernels/work.hpp", "kernels/warp_trace.hpp",
                "kernels/mma.cuh"},
    # All that a model sees of a kernel.
    "kernels/work.hpp": {"formats/base", "kernels/warp_trace.hpp"},
    "kernels/warp_trace.hpp": {"formats/base"},
    # The instructions themselves, which micro-benchmarks time.
    "kernels/mma.cuh": {"kernels"},
    "model/simulator": {"formats/base", "kernels/work.hpp", "kernels/warp_trace.hpp", "model",
                        "model/simulator"},
    "model/calibration": {"formats/base", "kernels/mma.cuh", "model", "model/calibration"},
    "model": {"formats/base", "kernels/work.hpp", "kernels/warp_trace.hpp", "model",
              "model/simulator"},
    "experiments": {"formats/base", "formats/io", "formats/values", "formats", "reorder", "oracle",
                    "kernels", "kernels/work.hpp", "kernels/warp_trace.hpp", "kernels/mma.cuh",
                    "model", "model/simulator", "model/calibration", "experiments"},
}  # fmt: skip
MAY_INCLUDE["tests"] = {*MAY_INCLUDE, "tests"}

INCLUDE = re.compile(r"^\s*#\s*include\b\s*(.*?)\s*(?://.*|/\*.*)?$")


def room_of(path):
    """The room of a path relative to the root, or None."""
    names = [r for r in MAY_INCLUDE if path == r or path.startswith(r + "/")]
    if len(pathlib.PurePosixPath(path).parts) == 1:
        return None
    return max(names, key=len, default=None)


def sources(root):
    """Paths, relative to the root, of all C++ and CUDA files that are not in a build folder."""
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        top = relative.parts[0]
        if top.startswith((".", "build")) or top in ("install", "out"):
            continue
        if path.suffix in SUFFIXES and path.is_file():
            yield relative.as_posix()


def include_problem(root, path, operand):
    """What is wrong with one include line of the file, or None."""
    name = operand[1:-1]
    if operand.startswith("<") and operand.endswith(">"):
        if room_of(name) and (root / name).exists():
            return f"includes <{name}>; our own files are included with quotes"
        return None
    if not (operand.startswith('"') and operand.endswith('"')):
        return f"includes {operand}: write the name out, so that it can be checked"
    target = room_of(name)
    if ".." in name.split("/") or not target or not (root / name).is_file():
        return f'includes "{name}", which is not the path of a file from the root'
    room = room_of(path)
    if target not in MAY_INCLUDE[room]:
        return f'includes "{name}", but {room} may include only {", ".join(sorted(MAY_INCLUDE[room]))}'
    return None


def opens_with_comment(root, path, text):
    """A .cpp or .cu whose header says what both are may open with the include of that header."""
    if text.startswith(("//", "/*")):
        return True
    header = re.sub(r"(_gpu)?\.(cpp|cuh?)$", ".hpp", path)
    return text.startswith(f'#include "{header}"') and header != path and (root / header).is_file()


def violations(root):
    """One line for each rule broken in the tree: `file:line: what`."""
    found = []
    for path in sources(root):
        text = (root / path).read_text(encoding="utf-8")
        if not room_of(path):
            found.append(f"{path}:1: is in no folder of the picture")
            continue
        if not opens_with_comment(root, path, text):
            found.append(f"{path}:1: does not open with a comment that says what the file is")
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            problem = match and include_problem(root, path, match.group(1))
            if problem:
                found.append(f"{path}:{number}: {problem}")
    return found


class Layers(unittest.TestCase):
    """Every rule has been seen to fail: each test plants one violation in a tree that has none."""

    GOOD = {
        "formats/base/matrix.hpp": "",
        "formats/io/reader.hpp": '#include "formats/base/matrix.hpp"\n',
        "formats/values/family.hpp": '#include "formats/base/matrix.hpp"\n',
        "formats/csr.hpp": '#include "formats/base/matrix.hpp"\n',
        "formats/csr.cpp": '#include "formats/csr.hpp"\n',
        "reorder/reordering.hpp": '#include "formats/base/matrix.hpp"\n',
        "oracle/truth.hpp": "#include <vector>  // of the library\n",
        "kernels/warp_trace.hpp": "#include <vector>\n",
        "kernels/work.hpp": '#include "kernels/warp_trace.hpp"\n',
        "kernels/csr.hpp": '#include "formats/csr.hpp"\n#include "kernels/work.hpp"\n',
        "kernels/csr.cu": '#include <cuda_runtime.h>\n\n#include "kernels/csr.hpp"\n',
        "model/simulator/machine.hpp": '#include "kernels/work.hpp"\n',
        "model/roofline.hpp": '#include "kernels/work.hpp"\n#include "formats/base/matrix.hpp"\n',
        "experiments/verbs/run.cpp": "".join(
            f'#include "{name}"\n'
            for name in ("formats/io/reader.hpp", "reorder/reordering.hpp", "oracle/truth.hpp",
                         "kernels/csr.hpp", "kernels/work.hpp", "model/roofline.hpp")),
        "kernels/mma.cuh": '#include "kernels/csr.hpp"\n',
        "model/calibration/mma.cu": '#include "kernels/mma.cuh"\n',
        "tests/support.hpp": '#include "experiments/verbs/run.cpp"\n',
    }  # fmt: skip

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for path, text in self.GOOD.items():
            self.write(path, "// What it is.\n" + text)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def expect(self, path, text, said):
        self.write(path, text)
        found = violations(self.root)
        self.assertEqual(len(found), 1, found)
        self.assertIn(said, found[0])
        self.assertTrue(found[0].startswith(path + ":"), found[0])

    def test_a_tree_that_keeps_the_rules_has_no_violation(self):
        self.assertEqual(violations(self.root), [])

    def test_every_forbidden_pair_of_rooms_is_caught(self):
        example = {room_of(path): path for path in self.GOOD}
        forbidden = [(room, example[target]) for room, allowed in MAY_INCLUDE.items()
                     for target in MAY_INCLUDE if target not in allowed]  # fmt: skip
        self.assertGreater(len(forbidden), 40)
        for room, target in forbidden:
            path = room if room.endswith((".hpp", ".cuh")) else f"{room}/planted.hpp"
            with self.subTest(room=room, target=target):
                before = (self.root / path).read_text() if (self.root / path).exists() else None
                self.expect(path, f'// Planted.\n#include "{target}"\n', f"but {room} may include")
                (self.root / path).unlink() if before is None else self.write(path, before)

    def test_the_absences_that_carry_the_meaning(self):
        self.expect("oracle/a.cpp", '//\n#include "formats/csr.hpp"\n', "but oracle may include")
        (self.root / "oracle/a.cpp").unlink()
        self.expect("model/a.cpp", '//\n#include "kernels/csr.hpp"\n', "but model may include")
        (self.root / "model/a.cpp").unlink()
        self.expect("experiments/a.cpp", '//\n#include "tests/support.hpp"\n', "but experiments may")

    def test_an_include_that_is_not_from_the_root(self):
        for name in ("matrix.hpp", "../base/matrix.hpp", "formats/base/../base/matrix.hpp",
                     "formats/base/absent.hpp", "formats/base"):  # fmt: skip
            with self.subTest(name=name):
                self.expect("formats/base/a.hpp", f'//\n#include "{name}"\n', "not the path of a file")

    def test_an_include_that_dodges_the_check(self):
        self.expect("oracle/a.cpp", "//\n#include <formats/csr.hpp>\n", "with quotes")
        self.expect("oracle/a.cpp", "//\n#include FORMATS\n", "write the name out")
        self.expect("oracle/a.cpp", '//\n  #  include"formats/csr.hpp" // x\n', "but oracle may")
        self.expect("oracle/a.cpp", '//\n#include "formats/csr.hpp" /* x */\n', "but oracle may")

    def test_a_file_without_an_opening_comment(self):
        for path in ("formats/base/a.hpp", "formats/a.cpp", "kernels/a.cu", "tests/a.cpp"):
            with self.subTest(path=path):
                self.expect(path, "#include <vector>\n", "does not open with a comment")
                (self.root / path).unlink()
        self.expect("formats/b.cpp", '#include "formats/csr.hpp"\n', "does not open with a comment")

    def test_the_source_of_a_header_may_rely_on_its_comment(self):
        self.write("formats/csr.cpp", '#include "formats/csr.hpp"\n')
        self.assertEqual(violations(self.root), [])

    def test_a_folder_or_a_file_outside_the_picture(self):
        self.expect("utils/a.hpp", "// Planted.\n", "in no folder of the picture")
        (self.root / "utils/a.hpp").unlink()
        self.expect("main.cpp", "// Planted.\n", "in no folder of the picture")

    def test_build_folders_are_not_read(self):
        self.write("build-cpu/experiments/build_info.cpp", '#include "anything.hpp"\n')
        self.assertEqual(violations(self.root), [])

    def test_the_source_tree_keeps_the_rules(self):
        self.assertGreater(len(list(sources(ROOT))), 20, "hardly any source file found")
        found = violations(ROOT)
        self.assertEqual(found, [], "\n" + "\n".join(found))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
