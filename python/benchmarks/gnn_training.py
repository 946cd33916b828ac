#!/usr/bin/env python3
"""Training of graph neural networks: tessera.torch beside torch.sparse and PyTorch Geometric.

Two layers of GCN, GIN or dot-product attention on a graph without features: those are drawn at random,
and a node's class depends on the features of its neighbourhood, so that a network has to use the graph.
All implementations begin with the same weights. Writes the seconds of an epoch, the memory and the
accuracy of each, and a second table with the loss and the accuracy of every epoch.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import sys
import time
import warnings
from pathlib import Path
from statistics import median

import torch
from measured import environment, write_csv
from torch import nn
from torch.nn import functional

import tessera
from tessera.torch import SparseOperator

SMALL = ["poisson2d(nx=40, ny=40)", "rmat(scale=11, edge_factor=8)"]
# An implementation of the products, and how it computes: tessera's precision or autocast's type.
IMPLEMENTATIONS = ["tessera_fp32", "tessera_fastest", "tessera_fp16", "torch_csr", "pyg_sparse", "pyg_edges", "pyg_edges_fp16"]  # fmt: skip


class Graph:
    """The graph of a square matrix, without direction and with self-loops, its features and classes.

    Attributes:
        offsets, columns: CSR. edges: [2, nnz] sources (columns) and targets (rows), in CSR's order.
        normalised: [nnz], 1 / sqrt(degree of source * degree of target): GCN's weights (Kipf and
            Welling, ICLR 2017, equation 2).
    """

    def __init__(self, name: str, features: int, classes: int, device: str):
        matrix = tessera.Matrix(name)
        nodes, other = matrix.shape
        if nodes != other:
            sys.exit(f"{name} is {nodes} x {other}: only a square matrix is a graph")
        self.name, self.nodes, self.classes = name, nodes, classes
        offsets, columns = torch.tensor(matrix.row_offsets), torch.tensor(matrix.col_indices).long()
        rows = torch.repeat_interleave(torch.arange(nodes), offsets.diff())
        loops = torch.arange(nodes)
        keys = torch.cat([rows * nodes + columns, columns * nodes + rows, loops * nodes + loops])
        keys = keys.unique()
        rows, columns = keys // nodes, keys % nodes
        degrees = torch.bincount(rows, minlength=nodes)
        offsets = torch.cat([degrees.new_zeros(1), degrees.cumsum(0)])
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(nodes, features, generator=generator)
        weights = (degrees[rows] * degrees[columns]).float().rsqrt()
        smooth = SparseOperator((offsets, columns, weights), shape=(nodes, nodes))
        scores = smooth(smooth(x)) @ torch.randn(features, classes, generator=generator)
        # Equal classes: a node has the one in which it ranks highest.
        self.labels = scores.argsort(0).argsort(0).argmax(1).to(device)
        order = torch.randperm(nodes, generator=generator)
        self.train, self.test = (
            order[: nodes * 6 // 10].to(device),
            order[nodes * 8 // 10 :].to(device),
        )
        self.offsets, self.columns, self.x = offsets.to(device), columns.to(device), x.to(device)
        self.normalised = weights.to(device)
        self.edges = torch.stack([columns, rows]).to(device)


# ---- products ------------------------------------------------------------------------------------


class TesseraProducts(nn.Module):
    """A B for fixed weights of A, and attention."""

    def __init__(self, graph: Graph, weights: torch.Tensor, precision: str):
        super().__init__()
        arrays = (graph.offsets, graph.columns, weights)
        self.a = SparseOperator(arrays, shape=(graph.nodes, graph.nodes), precision=precision)
        self.register_buffer("rows", graph.edges[1], persistent=False)

    def forward(self, b):
        return self.a(b)

    def attend(self, q, k, v):
        """softmax over each row of (Q K^T / sqrt(d)) at A's nonzeros, times V."""
        scores = self.a.sddmm(q, k).float() / q.shape[1] ** 0.5
        most = scores.new_full((self.a.shape[0],), -torch.inf)
        most = most.scatter_reduce(0, self.rows, scores.detach(), "amax")
        weights = (scores - most[self.rows]).exp()
        sums = self.a(v.new_ones(v.shape[0], 1), weights)
        return self.a(v, weights) / sums


class TorchProducts(nn.Module):
    """torch.sparse, CSR."""

    def __init__(self, graph: Graph, weights: torch.Tensor):
        super().__init__()
        shape = (graph.nodes, graph.nodes)
        self.offsets, self.columns, self.shape = graph.offsets, graph.columns, shape
        self.a = torch.sparse_csr_tensor(graph.offsets, graph.columns, weights, shape)
        self.zeros = torch.sparse_csr_tensor(
            graph.offsets, graph.columns, torch.zeros_like(weights), shape
        )
        self.rows = graph.edges[1]

    def forward(self, b):
        return self.a @ b

    def attend(self, q, k, v):
        raise NotImplementedError("torch.sparse has no gradient of sampled_addmm for CSR values")


class PygProducts(nn.Module):
    """Message passing of PyTorch Geometric, over edges or by its product with a sparse tensor."""

    def __init__(self, graph: Graph, weights: torch.Tensor, by_edges: bool):
        super().__init__()
        from torch_geometric.nn import MessagePassing

        class Passing(MessagePassing):
            def forward(self, b, edges, edge_weight=None):
                return self.propagate(edges, x=b, edge_weight=edge_weight)

            def message(self, x_j, edge_weight):
                return edge_weight.unsqueeze(-1).to(x_j.dtype) * x_j

            def message_and_aggregate(self, adj_t, x):
                from torch_geometric.utils import spmm

                return spmm(adj_t, x, "sum")

        self.passing = Passing(aggr="add")
        self.by_edges, self.edges, self.weights = by_edges, graph.edges, weights
        shape = (graph.nodes, graph.nodes)
        # PyTorch Geometric takes the transpose: rows are targets.
        self.a = torch.sparse_csr_tensor(graph.offsets, graph.columns, weights, shape)

    def forward(self, b):
        if self.by_edges:
            return self.passing(b, self.edges, self.weights)
        return self.passing(b, self.a)

    def attend(self, q, k, v):
        from torch_geometric.utils import softmax

        sources, targets = self.edges
        scores = (q[targets] * k[sources]).sum(-1).float() / q.shape[1] ** 0.5
        weights = softmax(scores, targets, num_nodes=q.shape[0])
        return self.passing(v, self.edges, weights)


# ---- networks ------------------------------------------------------------------------------------


class Gcn(nn.Module):
    """Kipf and Welling, ICLR 2017, equation 9."""

    def __init__(self, products, features, hidden, classes):
        super().__init__()
        self.products = products
        self.first, self.second = nn.Linear(features, hidden), nn.Linear(hidden, classes)

    def forward(self, x):
        hidden = self.products(self.first(x)).relu()
        return self.products(self.second(hidden))


class Gin(nn.Module):
    """Xu et al., ICLR 2019, equation 4.1, with sums whose self-loop is the term of the node itself."""

    def __init__(self, products, features, hidden, classes):
        super().__init__()
        self.products = products
        self.first = nn.Sequential(
            nn.Linear(features, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
        )
        self.second = nn.Sequential(
            nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, classes)
        )

    def forward(self, x):
        hidden = self.first(self.products(x)).relu()
        return self.second(self.products(hidden))


class Attention(nn.Module):
    """Two layers of dot-product attention over the edges (Vaswani et al., 2017, equation 1), one head."""

    def __init__(self, products, features, hidden, classes):
        super().__init__()
        self.products = products
        sizes = [(features, hidden), (hidden, hidden)]
        self.queries, self.keys, self.values, self.own = (
            nn.ModuleList(nn.Linear(*size) for size in sizes) for _ in range(4)
        )
        self.last = nn.Linear(hidden, classes)

    def forward(self, x):
        for query, key, value, own in zip(self.queries, self.keys, self.values, self.own):
            x = (self.products.attend(query(x), key(x), value(x)) + own(x)).relu()
        return self.last(x)


NETWORKS = {"gcn": Gcn, "gin": Gin, "attention": Attention}


def products_of(implementation: str, graph: Graph, network: str):
    weights = graph.normalised if network == "gcn" else torch.ones_like(graph.normalised)
    if implementation.startswith("tessera"):
        precision = implementation.removeprefix("tessera_")
        return TesseraProducts(graph, weights, precision if precision != "fp16" else "fastest")
    if implementation == "torch_csr":
        return TorchProducts(graph, weights)
    return PygProducts(graph, weights, "edges" in implementation)


# ---- training ------------------------------------------------------------------------------------


def accuracy(scores, labels) -> float:
    return (scores.argmax(1) == labels).float().mean().item()


def used_bytes(device: str) -> int:
    """Of the GPU by all of this process (others, if there are any, count too), or of the host."""
    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
        return total - free
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def train(graph: Graph, network: str, implementation: str, given) -> tuple[dict, list[dict]]:
    """Trains one network; its row, and a row for each epoch."""
    torch.manual_seed(given.seed)
    device = given.device
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    before = used_bytes(device)
    products = products_of(implementation, graph, network)
    model = NETWORKS[network](products, given.features, given.hidden, graph.classes).to(device)
    narrow = implementation.endswith("fp16")
    scaler = torch.amp.GradScaler(device, enabled=narrow and device == "cuda")
    autocast = torch.autocast(device, torch.float16) if narrow else contextlib.nullcontext()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    seconds, curve = [], []
    for epoch in range(given.epochs):
        start = time.perf_counter()
        model.train()
        optimizer.zero_grad()
        with autocast:
            scores = model(graph.x)
            loss = functional.cross_entropy(scores[graph.train], graph.labels[graph.train])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        value = loss.item()  # waits for the GPU
        seconds.append(time.perf_counter() - start)
        model.eval()
        with torch.no_grad(), autocast:
            scores = model(graph.x)
        curve.append(
            {
                "graph": graph.name,
                "network": network,
                "implementation": implementation,
                "epoch": epoch,
                "loss": round(value, 6),
                "train_accuracy": round(
                    accuracy(scores[graph.train], graph.labels[graph.train]), 4
                ),
                "test_accuracy": round(accuracy(scores[graph.test], graph.labels[graph.test]), 4),
            }
        )
    # The first epochs prepare plans.
    settled = seconds[min(3, len(seconds) - 1) :]
    row = {
        "graph": graph.name,
        "nodes": graph.nodes,
        "edges": graph.columns.numel(),
        "network": network,
        "implementation": implementation,
        "epochs": given.epochs,
        "epoch_s": round(median(settled), 6),
        "first_epoch_s": round(seconds[0], 6),
        "all_epochs_s": round(sum(seconds), 6),
        "loss": curve[-1]["loss"],
        "test_accuracy": curve[-1]["test_accuracy"],
        "best_test_accuracy": max(point["test_accuracy"] for point in curve),
        "torch_peak_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else "",
        "used_bytes": max(0, used_bytes(device) - before),
        "problem": "",
    }
    return row, curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "graphs",
        nargs="*",
        default=SMALL,
        metavar="GRAPH",
        help="square matrices: files (.npz, .mtx, edge lists), names in $TESSERA_DATA or formulas; two small formulas",
    )
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument(
        "--implementations", nargs="+", default=IMPLEMENTATIONS, choices=IMPLEMENTATIONS
    )
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--classes", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0, help="of the first weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/gnn_training.csv"),
        help="the table; the curves stand beside it, in ..._curves.csv",
    )
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse")
    rows, curves = [], []
    for name in given.graphs:
        graph = Graph(name, given.features, given.classes, given.device)
        for network in given.networks:
            for implementation in given.implementations:
                try:
                    row, curve = train(graph, network, implementation, given)
                except (ImportError, RuntimeError, NotImplementedError) as error:
                    problem = str(error).splitlines()[0]
                    print(f"{name} {network} {implementation}: {problem}", file=sys.stderr)
                    continue
                rows.append(row)
                curves += curve
                print(
                    f"{name:32} {network:9} {implementation:16} {row['epoch_s'] * 1e3:9.2f} ms/epoch, loss {row['loss']:.3f}, test {row['test_accuracy']:.3f}, {row['used_bytes'] / 2**20:.0f} MiB",
                    flush=True,
                )
    where = environment(given.device)
    write_csv(given.out, rows, where)
    write_csv(given.out.with_stem(given.out.stem + "_curves"), curves, where)
    print(f"{given.out}: {len(rows)} trainings", file=sys.stderr)


if __name__ == "__main__":
    main()
