#!/usr/bin/env python3
"""Prints which room includes which, read from the #include lines: as text, or as DOT with --dot.

    python3 tests/project/room_graph.py            # a line for each room: those it includes
    python3 tests/project/room_graph.py --dot | dot -Tsvg > rooms.svg

Rooms are those of layers_test.py, which checks the same lines against what is allowed. A file that is
a room of its own counts for its folder, and tests/, which may include everything, is left out.
"""

import argparse
import sys

from layers_test import INCLUDE, ROOT, room_of, sources


def folder_of(path):
    """The room of a file, or None; for a file that is a room of its own, the folder it lies in."""
    room = room_of(path)
    return room.rpartition("/")[0] if room and "." in room else room


def includes_of_rooms(root):
    """{room: {room it includes: number of include lines}}, without itself."""
    graph = {}
    for path in sources(root):
        room = folder_of(path)
        if room in (None, "tests"):
            continue
        edges = graph.setdefault(room, {})
        for line in (root / path).read_text(encoding="utf-8").splitlines():
            match = INCLUDE.match(line)
            target = folder_of(match.group(1)[1:-1]) if match else None
            if target and target != room:
                edges[target] = edges.get(target, 0) + 1
    return graph


def as_text(graph):
    """A line for each room, in alphabetical order, with the number of include lines."""
    width = max(map(len, graph))
    return "\n".join(
        f"{room:{width}}  " + (", ".join(f"{to} ({count})" for to, count in sorted(edges.items())) or "-")
        for room, edges in sorted(graph.items()))  # fmt: skip


def as_dot(graph):
    """The graph in Graphviz's language."""
    lines = [f'  "{room}" -> "{target}" [label={count}];' for room, edges in sorted(graph.items())
             for target, count in sorted(edges.items())]  # fmt: skip
    return "\n".join(["digraph rooms {", "  rankdir=BT; node [shape=box];", *lines, "}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dot", action="store_true", help="Graphviz's language instead of text")
    graph = includes_of_rooms(ROOT)
    print(as_dot(graph) if parser.parse_args().dot else as_text(graph))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
