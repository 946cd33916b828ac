"""Writes the seeds of the fuzz targets to tests/fuzz/corpus: python3 tests/fuzz/make_seeds.py.

One good input or more of each target, and the inputs that once broke the code behind it (their names
say how). Files are below 4 KB. What a fuzzer finds is committed beside them under a name of its own.
"""

import gzip
import io
import json
import pathlib
import struct
import tarfile
import zipfile

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
BANNER = b"%%MatrixMarket matrix coordinate "
COORDINATES = BANNER + b"real general\n% c\n4 5 4\n1 1 1.5\n2 5 -2e3\n4 4 .25\n3 1 7\n"
CONFIG = """schema = 1
[experiment]
id = "seed"
title = "A seed"
backends = ["emulate", "model"]
seed = 7
timeout_s = 2.5
[grid]
matrix = ["@pair", "rmat(scale=4)"]
n = [8, 16]
kernel = [{ name = "dense", integer = 2 }, "dense"]
values = ["cancelling(condition=1e4)"]
[set]
name = "pair"
title = "two"
matrix = ["a", "b"]
[measure]
noise = 0.02
[without.gpu.grid]
n = [8]
[[case]]
name = "one"
kernel = "dense"
[[derive]]
name = "twice"
expr = "2 * gflops"
[[derive]]
name = "bin"
of = "nnz"
bins = [1.0, 2.0]
labels = ["a", "b", "c"]
[[unfold]]
name = "stage"
of = "stages"
[[reduce]]
name = "Best"
column = "kernel"
keep = ["matrix"]
by = "time_us"
[table]
columns = ["matrix", "gflops"]
[[figure]]
id = "a"
kind = "bars"
x = "matrix"
y = "gflops"
series = "kernel"
[[expect]]
name = "e"
source = "Table 1"
column = "gflops"
statistic = "geomean"
value = 1.0
tolerance = 0.1
"""
SMALL = 'schema = 1\n[experiment]\nid = "a"\nbackends = ["emulate"]\n[grid]\nmatrix = ["a"]\n'
VARIANT = {"flag": True, "integer": 3, "real": 0.5, "text": "a"}


def npy(array_type, numbers, code, shape=None):
    """A .npy file of version 1."""
    size = len(numbers) if shape is None else shape
    header = f"{{'descr': '{array_type}', 'fortran_order': False, 'shape': ({size},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = struct.pack(f"<{len(numbers)}{code}", *numbers)
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + data


def zipped(arrays, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in arrays.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), data, method)
    return file.getvalue()


def tarred(name, data):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return file.getvalue()[:2560]  # without the padding of a tape record


def point(**changes):
    task = {"matrix": "a", "backend": "emulate", "n": 8, "seed": 1, "values": "auto",
            "reorder": {"name": "order", **VARIANT}, "format": {"name": "csr"},
            "kernel": {"name": "dense", **VARIANT}, "check": True}  # fmt: skip
    return {**task, **changes}


def record(**changes):
    base = {"schema": 1, "type": "point", "point_id": "0" * 16, "params_hash": "1" * 16,
            "status": "ok", "finished_at": "2026-01-01T00:00:00Z", "params": point(),
            "env_id": "e", "origin": "emulated", "attempt_s": 0.5, "experiment": "a"}  # fmt: skip
    return json.dumps({**base, **changes}) + "\n"


def cached(rows, cols, offsets, columns):
    """An input of cache.matrix that makes an entry with right checksums."""
    return (struct.pack("<BBiB", 1, rows, cols, len(columns)) + struct.pack(f"<{rows + 1}h", *offsets)
            + struct.pack(f"<{len(columns)}i", *columns) + b"\0\0\x80?" * len(columns))  # fmt: skip


def kept(order, rows=None):
    """An input of cache.order that makes an entry with a right checksum."""
    header = b"tessord\n" + struct.pack("<IIiiIIdqiIQ", 1, 0x01020304, rows or len(order), -1, 8, 1,
                                        0.5, -1, 2, 0, 0)  # fmt: skip
    return b"\1" + header + b"identityx" + struct.pack(f"<{len(order)}i", *order)


def seeds():
    """target -> name -> bytes."""
    csr = {"format": npy("|S3", [], "b")[:-1] + b"\ncsr", "shape": npy("<i8", [2, 3], "q"),
           "indptr": npy("<i4", [0, 2, 3], "i"), "indices": npy("<i4", [0, 2, 1], "i"),
           "data": npy("<f4", [1.5, -2, 4], "f")}  # fmt: skip
    csr["format"] = csr["format"].replace(b"(0,)", b"()  ").replace(b"\n\ncsr", b"\ncsr")
    graph = {"src_li": npy("<i8", [0, 1, 2], "q"), "dst_li": npy("<i8", [2, 0, 1], "q"),
             "num_nodes": npy("<i8", [3], "q")}  # fmt: skip
    negated = BANNER + b"real general\n2 2 -9223372036854775808\n1 1 1\n"
    whole = record() + json.dumps({"schema": 1, "type": "env", "env_id": "e"}) + "\n"
    found = {
        "read.matrix_market": {
            "coordinate": COORDINATES, "gzip": gzip.compress(COORDINATES, mtime=0),
            "symmetric": BANNER + b"real symmetric\n4 4 3\n1 1 1\n3 2 8\n4 1 2.5\n",
            "pattern": BANNER + b"pattern symmetric\n3 3 1\n3 1\n",
            "array": b"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n",
            "found_negated_minimum": negated,
            "found_huge_rows": BANNER + b"real general\n2147483647 1 1\n1 1 1\n",
            "found_long_line": gzip.compress(BANNER + b"real general\n%" + b" " * (3 << 20), mtime=0),
        },
        "read.edge_list": {"edges": b"# c\n# Nodes: 6 Edges: 4\n0\t1\n1\t5\n2\t2\n5\t0\n",
                           "found_minimum": b"-9223372036854775808 1\n"},
        "read.smtx": {"small": b"3, 4, 5\n0 2 3 5\n0 3 1 2 3\n"},
        "read.metis": {"weights": b"% c\n4 3 11\n1 2 5 3 6\n1 1 5\n1 1 6 4 7\n1 3 7\n"},
        "read.npz": {"csr": zipped(csr), "graph": zipped(graph),
                     "deflated": zipped(csr, zipfile.ZIP_DEFLATED)},
        "read.suitesparse": {"member": tarred("x/x.mtx", COORDINATES),
                             "found_control_bytes": tarred("x/\x1b[31m.mtx", COORDINATES)},
        "config": {
            "all_tables": CONFIG.encode(), "small": SMALL.encode(),
            "found_figure_kind": (SMALL + '[[figure]]\nid = "a"\nkind = "../../../x/evil"\n'
                                  'x = "n"\ny = "n"\nseries = "n"\n').encode(),
            "found_figure_id": (SMALL + '[[figure]]\nid = "../../a"\nkind = "bars"\nx = "n"\n'
                                'y = "n"\nseries = "n"\n').encode(),
            "found_dotted_keys": (SMALL + ".".join("a" * 1900) + " = 1\n").encode(),
            "found_nested_lists": (SMALL + "n = " + "[" * 1900 + "]" * 1900 + "\n").encode(),
            "found_nan": (SMALL + "[measure]\nmax_seconds = nan\n").encode(),
            "found_assignment": (SMALL + '[[derive]]\nname = "d"\nexpr = "n = 3"\n').encode(),
            "found_self_include": b'include = ["a.toml"]\n' + SMALL.encode(),
            "found_own_set": (SMALL.replace('["a"]', '["@s"]') +
                              '[set]\nname = "s"\ntitle = "s"\nmatrix = ["@s", "@s"]\n').encode(),
        },
        "config.set": {"value": b"experiment.seed=3", "member": b"figure.b.title=x",
                       "quoted": b'grid."kernel.n"=[1, 2]', "found_parts": b"a." * 1500 + b"b=1"},
        "records": {
            "two": whole.encode(), "no_newline": whole[:-1].encode(), "torn": whole[:-9].encode(),
            "found_nested": b'{"schema":1,"type":"env","a":' + b"[" * 1900 + b"]" * 1900 + b"}\n",
            "found_future": (record(finished_at="2999-01-01T00:00:00Z", status="failed")
                             + record(after="2999-01-01T00:00:00Z")).encode(),
        },
        "point": {
            "dense": json.dumps(point()).encode(),
            "line": json.dumps({"point": point(n=288230376151711744)}).encode(),
            "sparse": json.dumps({"matrix": "a", "backend": "emulate", "right": "self", "seed": 1,
                                  "values": "auto", "reorder": {"name": "order", **VARIANT},
                                  "kernel": {"name": "sparse", **VARIANT},
                                  "check": True}).encode(),
            "pack": json.dumps({"matrix": "a", "backend": "pack", "seed": 1, "values": "stored",
                                "reorder": {"name": "order", **VARIANT}, "format": {"name": "csr"}}).encode(),
            "found_nested": b"[" * 1900 + b"]" * 1900,
        },
        "device": {
            "small": b'title = "a"\naliases = ["b", "c"]\ngeneration = "hopper"\n'
                     b'compute_capability = "9.0"\n[datasheet]\nsm_count = { value = 132, unit = "1", '
                     b'source = "s" }\n[measured]\nclock = { value = 1.5e3, unit = "MHz", source = "s" }\n',
        },
        "catalogue": {
            "small": b'schema = 1\n[fetch]\n"a" = "G/a"\n[elsewhere]\n"b" = "in a book"\n[sha256]\n"a" = "'
                     + b"0123456789abcdef" * 4 + b'"\n',
        },
        "index": {
            "two": b"2\n31-Oct-2026 18:12:37\nHB,a,3,4,5,1,0,0,1,1,1,structural problem\n"
                   b'Far,b,20000,15000,50000,1,1,0,0,0.5,0,"graph, bipartite",50001\r\n',
        },
        "index.query": {
            "and": b"rows > 10 && cols <= 1e3 || !real", "choice": b"nnz / rows > 2 ? mesh : min(posdef, 1)",
            "found_assignment": b"rows = 3",
        },
        "formula": {
            "nested": b'shuffle(of=rmat(scale=14, edge_factor=8), seed=3)',
            "quoted": b'a(b="c, \\"d\\" (", e= f g )',
        },
        "permutation.txt": {"three": b"2\n0\n1\n", "carriage": b"1\r\n0\r\n",
                            "twice": b"0\n0\n", "found_minimum": b"-2147483648\n"},
        "permutation.npy": {"three": npy("<i4", [2, 0, 1], "i"), "wide": npy("<i8", [1, 0], "q"),
                            "huge": npy("<i4", [0], "i", 2**62)},
        "cache.matrix": {"small": cached(2, 3, [0, 2, 3], [0, 2, 1]), "raw": b"\0tesscsr\n",
                         "found_column": cached(1, 3, [0, 1], [10**9]),
                         "found_offset": cached(2, 3, [0, 32000, 1], [1])},
        "pack": {"small": b"\0" * 6 + struct.pack("<BHB", 20, 40, 1) + b"\3\5\7\1" * 40,
                 "dense_row": b"\0" * 6 + struct.pack("<BHB", 3, 100, 1) + b"\47" + b"\1" * 39,
                 "unsorted": b"\0" * 6 + struct.pack("<BHB", 3, 100, 0) + b"\5\4\3\2\1\1" * 3},
        "cache.order": {"rows": kept([2, 0, 1]), "found_index": kept([2, 0, 10**9]),
                        "found_size": kept([0], rows=2**31 - 1), "no_seal": b"\0" + kept([0])[1:]},
    }  # fmt: skip
    return found


def main():
    for target, inputs in seeds().items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in inputs.items():
            assert len(data) < 4096, f"{target}/{name}: {len(data)} bytes"
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
