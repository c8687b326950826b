# ruff: noqa: SLF001 - what others do with the rows of all ranks is done here by the parts that SAR is made of
"""Peak live bytes of a rank in full-batch training against the number of ranks: SAR beside one exchange a layer.

Ranks are threads of this process; what counts are the tensors that a rank's thread makes and that autograd keeps
(bench/live_bytes.py), not the graph. The graph is a random one so dense that every rank needs the rows of all others.

- "one layer": a sum, forward and backward. Features are a rank's own rows, and those of others with the copies that are
  made to send them; what the layer returns does not count. SAR says 2/N of all rows, 3/N with prefetch.
- "SAGE" and "GAT": a step of three layers with batch normalisation between them, as published (arXiv 2111.06483: hidden
  256; hidden 128, 4 heads). "one-shot" is our mode of that name, whose kernels write nothing for each edge either;
  "one-shot, autograd" sends the same rows in one exchange a layer and leaves to autograd what is kept of them; sums are
  our kernels', attention is computed for each edge and head before, as in DGL, which the published baseline ran on.
  "one-shot, PyG" sends them to PyG's own layers, which write a row for each edge.

What must be alive in a step of GAT at 8 ranks, in tables of a rank's rows of 128 columns; one of the last layer, of 4
heads of 47, is 1.47 of them. The peak of SAR is in the backward direction of the last layer, where the others keep what
theirs will need:

- 1 for the features, and 3 for each of the two layers before: what attention returned (its product with the gradient is
  asked for), the same with the bias (for batch normalisation), and the rectified rows (for the next matrix).
- 5 x 1.47 in the layer: its transformed rows, what it returned, the gradient of that, the sums of gradients of its own
  rows, and the rows of one shard, over which their gradients are written.

That is 14.3; scores, pieces on their way and small tables make it 15.1. One exchange a layer keeps the rows of all
shards, 7 + 7 + 10.3, and in the last layer has 10.3 for gradients of such rows and 10.3 for those that come back; with
the 14.3, without its shard, and 2 for transformed rows it is 61.3, 4.05 times as much. It was 3.3 times before rows
were computed anew, which saves 2, and their gradients written over them, which saves 1.2.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
import torch_geometric.nn as pyg
from harness import Record, arguments, describe_machine, print_table, write_json
from live_bytes import LiveBytes, copies_of_channel_uncounted
from plot import draw_lines
from torch import Tensor, nn
from torch_geometric.utils import softmax
from twin import run_twin

import headrace as hr
from headrace import ops

BENCH = "sar: memory"
SAR, PREFETCH, SEQUENTIAL, ONE_SHOT = "SAR", "SAR, prefetch", "sequential", "one-shot"
KERNELS, PLAIN = "one-shot, autograd", "one-shot, PyG"
OPTIONS: dict[str, dict[str, Any]] = {
    SAR: {},
    PREFETCH: {"prefetch": 1},
    SEQUENTIAL: {"mode": "sequential"},
    ONE_SHOT: {"mode": "one-shot"},
    KERNELS: {"mode": "one-shot"},
    PLAIN: {"mode": "one-shot"},
}
WIDTH, CLASSES, HEADS = 128, 47, 4
LAYER = "one layer"


class Network(nn.Module):
    """Three layers with batch normalisation between them."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        if kind == "SAGE":
            convs = [pyg.SAGEConv(WIDTH, 256), pyg.SAGEConv(256, 256), pyg.SAGEConv(256, CLASSES)]
        else:
            options = {"heads": HEADS, "add_self_loops": False}
            convs = [pyg.GATConv(WIDTH, 32, **options), pyg.GATConv(128, 32, **options)]
            convs.append(pyg.GATConv(128, CLASSES, concat=False, **options))
        self.convs = nn.ModuleList(convs)
        width = 256 if kind == "SAGE" else 128
        self.norms = nn.ModuleList([nn.BatchNorm1d(width) for _ in convs[1:]])

    def forward(self, x: Tensor, place: Any) -> Tensor:
        for number, conv in enumerate(self.convs):
            x = conv(x, place) if isinstance(place, hr.sar.ShardedGraph) else place(conv, x)
            if number < len(self.norms):
                x = self.norms[number](x).relu()
        return x


class Halo(torch.autograd.Function):
    """A rank's rows and behind them those of all others; gradients go back to the owners."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, transfer: Any) -> Tensor:
        ctx.transfer = transfer
        return torch.cat([x, *transfer.fetch_all((x,))])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        own = gradients[0][: ctx.transfer.num_rows].clone()
        ctx.transfer.give_back_all((gradients[0][ctx.transfer.num_rows :],), (own,))
        return own, None


class Plainly:
    """How layers of PyG are called on the rows of all ranks, which come in one exchange."""

    def __init__(self, place: hr.sar.ShardedGraph, system: str) -> None:
        rounds, parts, offset = place._rounds, [], place.num_src
        for shard in rounds.shards:
            own = shard is rounds.own
            parts.append(torch.stack([shard.indices.long() + (0 if own else offset), shard.destinations]))
            offset += 0 if own else shard.num_sources
        edges = torch.cat(parts, 1)
        self.transfer, self.number, self.on_kernels = rounds.transfer, place.num_dst, system == KERNELS
        self.edge_index = edges[:, edges[1].argsort(stable=True)]
        self.indptr = torch.zeros(self.number + 1, dtype=torch.int64)
        self.indptr[1:] = torch.bincount(edges[1], minlength=self.number).cumsum(0)
        self.indices = self.edge_index[0].int()
        self.back = ops.transpose_csc(self.indptr, self.indices, offset)

    def __call__(self, conv: Any, x: Tensor) -> Tensor:
        if not self.on_kernels:
            rows = self.all_rows(x)
            out: Tensor = conv((rows, x), self.edge_index, size=(len(rows), self.number))
            return out
        if isinstance(conv, pyg.SAGEConv):
            return conv.lin_l(self.reduced(self.all_rows(x), "mean")) + conv.lin_r(x)
        own = conv.lin(x).view(-1, conv.heads, conv.out_channels)
        rows = self.all_rows(own)
        of_sources, of_targets = (rows * conv.att_src).sum(-1), (own * conv.att_dst).sum(-1)
        scores = nn.functional.leaky_relu(of_sources[self.edge_index[0]] + of_targets[self.edge_index[1]], 0.2)
        out = self.reduced(rows, "sum", softmax(scores, ptr=self.indptr))
        return (out.flatten(1) if conv.concat else out.mean(1)) + conv.bias

    def all_rows(self, x: Tensor) -> Tensor:
        """Return the rows of this rank and of all others."""
        rows: Tensor = Halo.apply(x, self.transfer) if self.transfer.world_size > 1 else x
        return rows

    def reduced(self, rows: Tensor, reduce: Any, weight: Tensor | None = None) -> Tensor:
        return ops.aggregate_with_grad(
            self.indptr, self.indices, rows, reduce=reduce, weight=weight, transpose=lambda: self.back
        )


def known(place: hr.sar.ShardedGraph) -> list[Tensor]:
    """Return the tensors of the graph, which all systems have and which do not grow with features."""
    edges, transfer = place._edges, place._rounds.transfer
    found = [edges.owned, edges.destinations, edges.edge_ids, edges.in_degrees, edges.out_degrees]
    found += [rows for rows in transfer.sends if rows is not None]
    for shard in place._rounds.shards:
        found += [shard.indptr, shard.indices, shard.positions, shard.destinations, *shard.transposed]
    return found


def one_layer(place: hr.sar.ShardedGraph) -> dict[str, float]:
    """Return the bytes of rows in memory, forward, and of gradients on their way, backward."""
    x = torch.randn(place.num_src, 256, requires_grad=True)
    gradient = torch.ones(place.num_dst, 256)
    live = LiveBytes([x], [*known(place), gradient])
    with live:
        out = place.aggregate(x)
        features, held = live.most - out.nbytes, live.now  # what it holds from here on is for the backward direction
        live.begin()
        out.backward(gradient)
    return {
        "features": features,
        "gradients": live.most - held - x.nbytes,
    }  # but for that of x, the result


def step(place: hr.sar.ShardedGraph, model: nn.Module, system: str) -> dict[str, float]:
    """Return the peak of a training step, with a rank's features, without parameters and labels."""
    y = torch.arange(place.num_dst) % CLASSES
    on: Any = place
    if system in (KERNELS, PLAIN):
        on = Plainly(place, system)
        hr.sar.wrap(model.norms, place)  # type: ignore[arg-type]
    else:
        hr.sar.wrap(model, place)
    x = torch.randn(place.num_src, WIDTH)
    of_system = [one for one in vars(on).values() if isinstance(one, Tensor)] if system in (KERNELS, PLAIN) else []
    if of_system:
        of_system += on.back
    live = LiveBytes([x], [*known(place), *of_system, *model.parameters(), *model.buffers(), y])
    with live:
        out = model(x, on)
        loss = nn.functional.cross_entropy(out, y, reduction="sum") / place.num_nodes
        del out
        loss.backward()
    return {"peak": live.most}


def measured(graph: hr.Graph, case: str, system: str, world_size: int) -> dict[str, float]:
    """Return what the rank holds that holds most."""
    torch.manual_seed(0)
    model = None if case == LAYER else Network(case)

    def work(comm: Any) -> dict[str, float]:
        with copies_of_channel_uncounted(comm):
            partition = hr.Partition.range(graph.num_nodes, world_size)
            place = hr.sar.ShardedGraph(graph, partition, comm, **OPTIONS[system])
            return one_layer(place) if model is None else step(place, copy.deepcopy(model), system)

    found = run_twin(world_size, work)
    return {name: max(rank[name] for rank in found) for name in found[0]}


def records_of(graph: hr.Graph, case: str, world_sizes: list[int]) -> list[Record]:
    """Return the bytes of every system at each number of ranks, and what follows from them."""
    records: list[Record] = []

    def add(system: str, metric: str, unit: str, value: float) -> None:
        records.append(Record(BENCH, case, system, metric, unit, value, value, value, 1, 1))

    systems = [SAR, PREFETCH, ONE_SHOT] if case == LAYER else list(OPTIONS)
    for number in world_sizes:
        found = {system: measured(graph, case, system, number) for system in systems}
        for system, values in found.items():
            for metric, value in values.items():
                add(system, f"{metric}, {ranks(number)}", "MB", value / 1e6)
        if case == LAYER:
            share = graph.num_nodes * 256 * 4 / number
            for system, times in ((SAR, 2), (PREFETCH, 3)):
                least = min(times, number) * share  # one rank has no others, two have no third
                add(f"{system} over {times}/N", f"gain, {ranks(number)}", "×", found[system]["features"] / least)
        elif number > 1:
            for system in (SEQUENTIAL, ONE_SHOT, KERNELS, PLAIN):
                gain = found[system]["peak"] / found[SAR]["peak"]
                add(f"{system} over {SAR}", f"gain, {ranks(number)}", "×", gain)
    return records


def ranks(number: int) -> str:
    """Name a number of ranks."""
    return f"{number} rank{'s' * (number > 1)}"


def main() -> None:
    parser = arguments(__doc__ or "", rounds=1)
    parser.add_argument("--nodes", type=int, default=8192)
    parser.add_argument("--degree", type=int, default=64, help="in-edges of each node")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    options = parser.parse_args()
    print(describe_machine(["headrace", "torch", "torch_geometric"]))
    torch.set_num_threads(1)  # ranks are threads already
    generator = torch.Generator().manual_seed(0)
    src = torch.randint(options.nodes, (options.nodes * options.degree,), generator=generator)
    graph = hr.Graph.from_coo(src, torch.arange(len(src)) % options.nodes, num_nodes=options.nodes)
    records: list[Record] = []
    for case in (LAYER, "SAGE", "GAT"):
        found = records_of(graph, case, options.ranks)
        print_table(found)
        records += found
    write_json(options.json, records)

    def points(case: str, metric: str) -> list[tuple[float, Record]]:
        return [
            (float(record.metric.split()[-2]), replace(record, metric=metric))
            for record in records
            if record.case == case
            and record.metric.startswith(f"{metric},")
            and record.system != PLAIN  # far above all
        ]

    panels = [(f"{LAYER}: rows in memory", points(LAYER, "features"))]
    panels += [(f"{case}: a step", points(case, "peak")) for case in ("SAGE", "GAT")]
    draw_lines(options.plot, panels, axis="ranks")


if __name__ == "__main__":
    main()
