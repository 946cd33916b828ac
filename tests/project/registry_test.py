"""No registered variant is dropped by the build.

Variants register themselves, and nothing refers to them by name: a source file that a glob misses, or
that the linker leaves out, takes its variants with it without a message. The test reads every
`Register<KIND>` of the sources and compares it with what the program lists, kind by kind, and with
the files that the build compiles.
"""

import json
import re
import subprocess
import sys
import unittest

from layers_test import ROOT, sources

from program import BINARY

# `tessera list NAME` by the type that is registered. Types with no list are checked by file alone.
LISTS = {
    "Format": "formats",
    "Reordering": "reorderings",
    "SpmmKernel": "kernels",
    "SpgemmKernel": "kernels",
    "SddmmKernel": "kernels",
    "Model": "models",
    "Microbenchmark": "microbenchmarks",
    "Generator": "generators",
    "ValueFamily": "values",
    "Backend": "backends",
    "CounterSource": "counters",
    "MatrixFile": "files",
}
BEGINNING = re.compile(r"^const Register<(\w+)> \w+", re.MULTILINE)
FORMAT_NAME = re.compile(r"struct (\w+) [^;]*?kFormat = \"([^\"]+)\"", re.DOTALL)


def is_of_gpu_half(path):
    """True for files that only a build with CUDA compiles."""
    return path.endswith((".cu", "_gpu.cpp"))


def format_names(texts):
    """The value of every `Type::kFormat`, by its spelling in the sources."""
    return {f"{kind}::kFormat": name for text in texts.values()
            for kind, name in FORMAT_NAME.findall(text)}  # fmt: skip


def registered_names(text, constants):
    """(kind, name) of every registration in a source text. Throws where a name is not a literal."""
    places = list(BEGINNING.finditer(text))
    found = []
    for place, following in zip(places, [*places[1:], None]):
        body = text[place.start() : following.start() if following else len(text)]
        body = body[: body.find("\n}  // namespace")]
        kind = place.group(1)
        given = re.search(r"\.name = ([^,]+),", body)
        if given:
            name = given.group(1).strip()
            name = constants[name] if name in constants else json.loads(name)
            found.append((kind, name))
            continue
        names = re.findall(r"\b(?:microbenchmark|published)\(\s*\"([^\"]+)\"", body)
        if not names and kind in LISTS:
            raise ValueError(f"{body.splitlines()[0]}: no name was found")
        found += [(kind, name) for name in names]
    return found


def sources_with_registrations():
    """The text of every source file that registers something, by path; formats/base defines it."""
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in sources(ROOT)
             if not path.startswith(("tests/", "formats/base/"))}  # fmt: skip
    return texts, {path: text for path, text in texts.items() if BEGINNING.search(text)}


def dropped(registering, constants, listed, has_cuda):
    """One line for each registered name that the program does not list."""
    lines = []
    for path, text in registering.items():
        if is_of_gpu_half(path) and not has_cuda:
            continue
        for kind, name in registered_names(text, constants):
            if kind in LISTS and name not in listed[LISTS[kind]]:
                lines.append(f"{path}: {kind} '{name}' is not in `tessera list {LISTS[kind]}`")
    return lines


def not_compiled(registering, compiled, has_cuda):
    """The files with registrations that the build does not compile."""
    return [path for path in registering
            if path not in compiled and (has_cuda or not is_of_gpu_half(path))]  # fmt: skip


class RegistryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        texts, cls.registering = sources_with_registrations()
        cls.constants = format_names(texts)
        cls.listed = {}
        for name in set(LISTS.values()):
            ran = subprocess.run([BINARY, "list", name, "--json"], capture_output=True, text=True,
                                 check=True)  # fmt: skip
            cls.listed[name] = {item["name"] for item in json.loads(ran.stdout)}
        commands = json.loads((BINARY.parent / "compile_commands.json").read_text(encoding="utf-8"))
        prefix = f"{ROOT}/"
        cls.compiled = {item["file"].removeprefix(prefix) for item in commands}
        cls.has_cuda = any(path.endswith(".cu") for path in cls.compiled)

    def test_every_registered_name_is_listed(self):
        self.assertGreater(len(self.registering), 150)
        self.assertEqual(dropped(self.registering, self.constants, self.listed, self.has_cuda), [])

    def test_every_listed_name_is_registered(self):
        found = {}
        for text in self.registering.values():
            for kind, name in registered_names(text, self.constants):
                found.setdefault(LISTS.get(kind), set()).add(name)
        for name, listed in self.listed.items():
            self.assertLessEqual(listed, found[name], f"`tessera list {name}`")

    def test_every_file_with_a_registration_is_compiled(self):
        self.assertEqual(not_compiled(self.registering, self.compiled, self.has_cuda), [])

    def test_both_halves_of_a_kernel_have_one_name(self):
        host = {"GpuFormat": "formats", "GpuSpmm": "kernels", "GpuSpgemm": "kernels",
                "GpuSddmm": "kernels"}
        for path, text in self.registering.items():
            for kind, name in registered_names(text, self.constants):
                if kind in host:
                    self.assertIn(name, self.listed[host[kind]], path)

    def test_a_planted_variant_that_the_program_lacks_is_reported(self):
        ghost = 'const Register<Format> entry{{\n    .name = "ghost",\n    .make = nullptr,\n}};\n'
        named = "const Register<SpmmKernel> entry{{\n    .name = Ghost::kFormat,\n}};\n"
        bench = 'const Register<Microbenchmark> entry{\n    microbenchmark("ghost", "", run)};\n'
        planted = {"formats/a.cpp": ghost, "kernels/b.cpp": named, "model/c.cu": bench}
        constants = {"Ghost::kFormat": "ghost"}

        self.assertEqual(len(dropped(planted, constants, self.listed, True)), 3)
        self.assertEqual(len(dropped(planted, constants, self.listed, False)), 2)
        self.assertEqual(not_compiled(planted, self.compiled, False), ["formats/a.cpp", "kernels/b.cpp"])


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
