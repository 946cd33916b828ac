"""Who may include whom: reads the #include lines of every C++ and CUDA file.

The picture is that of docs/how-to/read_the_source.md: an oracle that saw a format could inherit its mistakes, a model
that saw a kernel could peek at a measurement. Run without arguments it checks the source tree this
file lies in, after planting a violation of every rule in a temporary tree and seeing it caught.
"""

import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUFFIXES = {".hpp", ".cpp", ".cuh", ".cu", ".h", ".c"}

# A room's files may include those of the rooms, or the single files, named here. A file belongs to
# the longest name that its path starts with; a folder that is in no room is an error.
# The interface for choosing a kernel: kernels and models meet there, so that neither includes the
# other. It is no part of formats/base, which the oracle includes.
CHOICE = "formats/base/choice.hpp"
ORDER_MODEL = "formats/base/order_model.hpp"  # the same for orders
# What a plan sees of orders found on the GPU, by their names.
GPU_ORDER = "reorder/gpu_reordering.hpp"
KERNEL_CONTRACTS = {"kernels", "kernels/work.hpp", "kernels/warp_trace.hpp", "kernels/tensor_core",
                    "kernels/tensor_core/mma.cuh", "kernels/tensor_core/mma.hpp", "kernels/device",
                    "kernels/host_device.hpp", "kernels/gpu_limits.hpp", CHOICE,
                    ORDER_MODEL}
FORMAT_CONTRACTS = {"formats/base", "formats/format.hpp", "formats/condense.hpp"}
FORMATS = {*FORMAT_CONTRACTS, "formats", "formats/gpu", "formats/statistics"}
MODEL_SEES = {"formats/base", CHOICE, ORDER_MODEL, "kernels/work.hpp", "kernels/warp_trace.hpp",
              "kernels/gpu_limits.hpp", "model/device.hpp", "model/described_limits.hpp",
              "model/model.hpp"}

# A kernel's room and, beside the contracts, what it may include: the shared room of its family. A
# sibling is never among them, without exception: `mixed`, which chooses among its siblings, reaches
# them through the registry and the counts that they publish (SpgemmKernel::count_work).
KERNEL_ROOMS = {
    "kernels/spmm/row_windows": set(),
    "kernels/spmm/row_pieces": set(),
    "kernels/spmm/vector_tiles": {"kernels/spmm/row_windows"},
    "kernels/spmm/csr": set(),
    "kernels/spmm/rows": set(),
    "kernels/spmm/acc_spmm": {"kernels/spmm/row_windows"},
    "kernels/spmm/dtc_spmm": {"kernels/spmm/row_windows"},
    "kernels/spmm/tcgnn": {"kernels/spmm/row_windows"},
    "kernels/spmm/tessera": {"kernels/spmm/row_windows"},
    "kernels/spmm/tall": {"kernels/spmm/row_windows"},
    "kernels/spmm/cutespmm": {"kernels/spmm/row_windows"},
    "kernels/spmm/smat": {"kernels/spmm/row_windows"},
    "kernels/spmm/tca_spmm": {"kernels/spmm/row_windows"},
    "kernels/spmm/dasp": set(),
    "kernels/spmm/hyb": set(),
    "kernels/spmm/vendor": set(),
    "kernels/spmm/plan": {GPU_ORDER},
    "kernels/spmm/distributed": set(),
    "kernels/spgemm/shared": set(),
    "kernels/spgemm/csr": {"kernels/spgemm/shared"},
    "kernels/spgemm/row": {"kernels/spgemm/shared"},
    "kernels/spgemm/tile": {"kernels/spgemm/shared"},
    "kernels/spgemm/tsparse": {"kernels/spgemm/shared"},
    "kernels/spgemm/hash": {"kernels/spgemm/shared"},
    "kernels/spgemm/merge": {"kernels/spgemm/shared"},
    "kernels/spgemm/esc": {"kernels/spgemm/shared"},
    "kernels/spgemm/mixed": {"kernels/spgemm/shared"},
    "kernels/spgemm/vendor": {"kernels/spgemm/shared"},
    "kernels/sddmm/shared": set(),
    "kernels/sddmm/tessera": {"kernels/sddmm/shared"},
    "kernels/sddmm/rows": {"kernels/sddmm/shared"},
    "kernels/sddmm/flash": {"kernels/sddmm/shared"},
    "kernels/sddmm/sputnik": {"kernels/sddmm/shared"},
    "kernels/sddmm/vendor": {"kernels/sddmm/shared"},
    "kernels/sddmm/plan": set(),
}  # fmt: skip

MAY_INCLUDE = {
    "formats/base": {"formats/base"},
    CHOICE: {"formats/base"},
    ORDER_MODEL: {"formats/base", CHOICE},
    "formats/base/choice.cpp": {"formats/base", CHOICE},
    "formats/io": {"formats/base", "formats/generators", "formats/io"},
    "formats/generators": {"formats/base", "formats/generators"},
    "formats/values": {"formats/base", "formats/values"},
    # The interface of a format, and the condensing that most of them begin with.
    "formats/format.hpp": {"formats/base"},
    "formats/condense.hpp": {"formats/base", "formats/format.hpp"},
    "formats/gpu": {*FORMAT_CONTRACTS, "formats/gpu"},
    "formats/statistics": {*FORMAT_CONTRACTS, "formats/statistics"},
    "formats": FORMATS,
    "reorder": {"formats/base", "kernels/host_device.hpp", "reorder", GPU_ORDER},
    GPU_ORDER: {"formats/base"},
    "oracle": {"formats/base", "oracle"},
    "kernels": {*FORMATS, *KERNEL_CONTRACTS},
    # All that a model sees of a kernel.
    "kernels/work.hpp": {"formats/base", "kernels/warp_trace.hpp"},
    "kernels/warp_trace.hpp": {"formats/base"},
    "kernels/gpu_limits.hpp": set(),
    "kernels/host_device.hpp": set(),
    "kernels/tensor_core": {*FORMATS, *KERNEL_CONTRACTS},
    # The instructions themselves, which micro-benchmarks time.
    "kernels/tensor_core/mma.cuh": {"kernels/tensor_core/mma.hpp"},
    "kernels/tensor_core/mma.hpp": set(),
    "kernels/device": {*FORMATS, *KERNEL_CONTRACTS},
    # What kernels of several families of one operation share.
    "kernels/spmm": {*FORMATS, *KERNEL_CONTRACTS, "kernels/spmm"},
    **{room: {*FORMATS, *KERNEL_CONTRACTS, *shared, room} |
             ({"kernels/spmm"} if room.startswith("kernels/spmm") else set())
       for room, shared in KERNEL_ROOMS.items()},
    "model/device.hpp": {"formats/base"},
    "model/described_limits.hpp": {"kernels/gpu_limits.hpp", "model/device.hpp"},
    "model/model.hpp": MODEL_SEES,
    "model/simulator": {*MODEL_SEES, "model/simulator"},
    "model/calibration": {"formats/base", "kernels/tensor_core/mma.cuh", "model/device.hpp",
                          "model/calibration"},
    "model": {*MODEL_SEES, "model", "model/simulator"},
}  # fmt: skip
LIBRARY = set(MAY_INCLUDE)

# The rooms of experiments/, each of which may include itself and those before it.
EXPERIMENT_ROOMS = ["points", "machine", "records", "counters", "config", "backends", "run",
                    "tables", "cluster", "verbs"]
for number, name in enumerate(EXPERIMENT_ROOMS, 1):
    MAY_INCLUDE["experiments/" + name] = LIBRARY | {
        "experiments/" + room for room in EXPERIMENT_ROOMS[:number]}  # fmt: skip
MAY_INCLUDE["experiments"] = MAY_INCLUDE["experiments/verbs"] | {"experiments"}
# The C interface has all of it as functions; nothing but tests and the wheel's program sees it.
MAY_INCLUDE["kernels/abi"] = {*MAY_INCLUDE["experiments/verbs"], "kernels/abi"}
MAY_INCLUDE["python"] = {"kernels/abi"}
MAY_INCLUDE["python/torch_operators"] = {"kernels/abi", "python/torch_operators"}
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
        "kernels/tensor_core/mma.hpp": "#include <vector>\n",
        "kernels/tensor_core/mma.cuh": '#include "kernels/tensor_core/mma.hpp"\n',
        "kernels/spgemm/mixed/mixed.hpp": '#include "formats/base/choice.hpp"\n',
        "formats/base/choice.hpp": '#include "formats/base/matrix.hpp"\n',
        "kernels/spgemm/tile/tile.hpp": '#include "kernels/spgemm/shared/rows.hpp"\n',
        "kernels/spgemm/shared/rows.hpp": '#include "kernels/csr.hpp"\n',
        "model/calibration/mma.cu": '#include "kernels/tensor_core/mma.cuh"\n',
        "tests/support.hpp": '#include "experiments/verbs/run.cpp"\n',
    }  # fmt: skip

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for path, text in self.GOOD.items():
            self.write(path, "// What it is.\n" + text)
        self.example = {room_of(path): path for path in self.GOOD}
        for room in MAY_INCLUDE.keys() - self.example.keys():
            self.example[room] = path = (room if "." in room else f"{room}/example.hpp")
            self.write(path, "// What it is.\n")

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
        forbidden = [(room, self.example[target]) for room, allowed in MAY_INCLUDE.items()
                     for target in MAY_INCLUDE if target not in allowed]  # fmt: skip
        self.assertGreater(len(forbidden), 400)
        for room, target in forbidden:
            path = room if room.endswith((".hpp", ".cuh", ".cpp")) else f"{room}/planted.hpp"
            with self.subTest(room=room, target=target):
                before = (self.root / path).read_text() if (self.root / path).exists() else None
                self.expect(path, f'// Planted.\n#include "{target}"\n', f"but {room} may include")
                (self.root / path).unlink() if before is None else self.write(path, before)

    def test_the_absences_that_carry_the_meaning(self):
        self.expect("oracle/a.cpp", '//\n#include "formats/csr.hpp"\n', "but oracle may include")
        self.expect("oracle/a.cpp", f'//\n#include "{CHOICE}"\n', "but oracle may include")
        (self.root / "oracle/a.cpp").unlink()
        self.expect("model/a.cpp", '//\n#include "kernels/csr.hpp"\n', "but model may include")
        (self.root / "model/a.cpp").unlink()
        self.expect("experiments/a.cpp", '//\n#include "tests/support.hpp"\n', "but experiments may")

    def test_a_kernel_may_not_include_its_sibling(self):
        variants = [room for room in KERNEL_ROOMS
                    if not room.endswith(("/shared", "/row_windows"))]  # fmt: skip
        for room in variants:
            for sibling in set(variants) - {room}:
                self.assertNotIn(sibling, MAY_INCLUDE[room], room)
        self.expect("kernels/spgemm/tile/a.hpp", '//\n#include "kernels/spgemm/row/example.hpp"\n',
                    "but kernels/spgemm/tile may include")

    def test_the_graph_of_rooms_has_no_cycle(self):
        """Files that are rooms of their own belong to the contracts; they count for their folder."""
        graph = {}
        for path in sources(ROOT):
            room = room_of(path)
            if room == "tests":
                continue
            for line in (ROOT / path).read_text(encoding="utf-8").splitlines():
                match = INCLUDE.match(line)
                target = room_of(match.group(1)[1:-1]) if match else None
                if target and target != room:
                    graph.setdefault(room, set()).add(target)
        self.assertGreater(len(graph), 20)
        done, path = set(), []

        def visit(room):
            if room in done:
                return
            self.assertNotIn(room, path, f"{' -> '.join(path)} -> {room}")
            path.append(room)
            for target in sorted(graph.get(room, ())):
                visit(target)
            done.add(path.pop())

        for room in sorted(graph):
            visit(room)

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
