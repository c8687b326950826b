"""Hybrid-parallel execution (GraphTheta, arXiv 2104.10569): work, messages and bytes of layers, by ranks and partition.

Ranks share the edges of each batch by source, by destination (1D), or on a grid (2D vertex cut). What they do and send
is counted in the in-process twin, and nothing is timed: total work must not depend on the number of ranks, and that is
checked. On a grid of R x C ranks R + C - 1 of them need a node at most, and each of a hub's column has 1/R of its
edges. A layer's rows go from masters to mirrors and come back, once in each direction of training; bytes are those of
one direction, at --width float32 columns. Graphs: Chung-Lu and a star with all edges into its hub, both generated, and
amazon_computers, which is skipped where its file is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from chung_lu import chung_lu_graph
from harness import Record, add_data, arguments, describe_machine, summarised, write_json
from plot import draw_lines
from twin import run_twin

import headrace as hr

BENCH = "hybrid-parallel"
NUM_SPOKES, NUM_CLUSTERS, TOGETHER = 80_000, 50, 5
GRID = "2D grid"
PARTITIONS: dict[str, Callable[..., hr.EdgePartition]] = {
    "1D by source": hr.EdgePartition.by_source,
    "1D by destination": hr.EdgePartition.by_destination,
    GRID: hr.EdgePartition.grid,
}
#: What is counted of a layer, and the unit.
UNITS = {
    "nodes": "nodes",
    "edges": "edges",
    "rows to mirrors": "rows",
    "rows to masters": "rows",
    "messages": "messages",
    "bytes": "bytes",
}


def graphs(path: Path) -> Iterator[tuple[str, hr.Graph]]:
    """Yield the graphs with their names."""
    yield "Chung-Lu", chung_lu_graph()
    spokes = torch.arange(1, NUM_SPOKES + 1)
    yield "star", hr.Graph.from_coo(spokes, torch.zeros_like(spokes), num_nodes=NUM_SPOKES + 1)
    if path.exists():
        with np.load(path) as arrays:
            src, dst = torch.from_numpy(arrays["edge_index"].astype(np.int64))
            num_nodes = len(arrays["y"] if "y" in arrays else arrays["labels"])
        yield "amazon_computers", hr.Graph.from_coo(src, dst, num_nodes=num_nodes)
    else:
        print(f"skipped: amazon_computers, as there is no {path}")


def sources(graph: hr.Graph, batch_size: int) -> dict[str, hr.Plan]:
    """Return the strategies; a star has one batch in all of them."""
    clusters = hr.Partition.stream(graph, NUM_CLUSTERS)
    return {
        "global-batch": hr.GlobalBatch(graph, seed=0),
        "mini-batch": hr.ItemSampler(graph.num_nodes, batch_size=batch_size, shuffle=True, seed=0),
        "cluster-batch": hr.ClusterSampler(clusters, TOGETHER, seed=0),
    }


def counted(batch: hr.MiniBatch, width: int) -> list[list[int]]:
    """Return what one rank has of each layer, input side first, in the order of `UNITS`."""
    layers = []
    for block in batch.blocks:
        if batch.exchanges:
            shared: Any = block
            nodes, sent, returned = block.num_src, shared.sources.num_sent, shared.destinations.num_received
            messages = sum(map(bool, (*shared.sources.send_counts, *shared.destinations.receive_counts)))
        else:
            nodes, sent, returned, messages = block.num_src, 0, 0, 0
        layers.append([nodes, block.num_edges, sent, returned, messages, 4 * width * (sent + returned)])
    return layers


def records_of(
    case: str, source: hr.Plan, graph: hr.Graph, name: str, world_size: int, options: Any
) -> tuple[list[Record], np.ndarray]:
    """Return the records of a case with one partition, and the counts [layers, metrics, batches] over all ranks."""
    partition = PARTITIONS[name](graph, world_size)
    plan = source.sample_in_subgraph(graph, num_hops=options.layers, edge_ids=False)

    def work(comm: Any) -> list[list[list[int]]]:
        with plan.loader(cooperative=True, comm=comm, partition=partition, prefetch=False, num_threads=1) as loader:
            return [counted(batch, options.width) for batch in islice(loader, options.batches)]

    ranks = np.array(run_twin(world_size, work)).transpose(2, 3, 1, 0)  # [layers, metrics, batches, ranks]
    totals = ranks.sum(3)
    records = []
    for layer, metrics in enumerate(totals):
        for (metric, unit), values in zip(UNITS.items(), metrics, strict=True):
            label = f"layer {layer + 1}: {metric}"
            records.append(summarised(BENCH, case, name, label, unit, values.tolist(), 1))
        edges = ranks[layer, 1]
        balance = edges.max(1) / np.maximum(edges.mean(1), 1)
        records.append(summarised(BENCH, case, name, f"layer {layer + 1}: edge balance", "ratio", balance.tolist(), 1))
    copies = partition.report(graph).replication_factor
    records.append(summarised(BENCH, case, name, "replication", "copies", [copies], 1))
    if name == GRID:
        rows, columns = partition.num_rows, partition.num_columns
        most = most_copies(graph, partition) / (rows + columns - 1)
        records.append(summarised(BENCH, case, f"{name} over R + C - 1", "most copies", "ratio", [most], 1))
        # Where a hub hears all, its column has all edges: a share of 1/R for each rank in it.
        shares = rows * ranks[0, 1].max(1) / np.maximum(totals[0, 1], 1)
        system = f"{name} over 1/R"
        records.append(summarised(BENCH, case, system, "largest share of edges", "ratio", shares.tolist(), 1))
    return records, totals[:, :2]


def most_copies(graph: hr.Graph, partition: hr.EdgePartition) -> int:
    """Return how many ranks need a node at most: its master, and those that hold edges of it."""
    nodes, parts = torch.arange(graph.num_nodes), partition.num_parts
    sources, destinations = graph.indices.long(), nodes.repeat_interleave(graph.in_degrees())
    holders = partition.owner(sources, destinations)
    needs = torch.cat([sources, destinations, nodes]) * parts
    needs += torch.cat([holders, holders, partition.nodes.owner(nodes)])
    return int(torch.bincount(needs.unique() // parts).max())


def work_records(case: str, totals: dict[tuple[str, int], np.ndarray]) -> list[Record]:
    """Return nodes and edges of the largest number of ranks over those of the smallest, for each partition."""
    least, most = (choose(ranks for _, ranks in totals) for choose in (min, max))
    found = []
    for name in PARTITIONS:
        ratios = totals[name, most] / np.maximum(totals[name, least], 1)
        system = f"{name}, {most} ranks over {least}"
        found.append(summarised(BENCH, case, system, "nodes and edges", "ratio", ratios.flatten().tolist(), 1))
    return found


def check_work(case: str, totals: dict[tuple[str, int], np.ndarray]) -> None:
    """Refuse counts of nodes and edges that depend on the number of ranks or on the partition.

    Raises
    ------
    ValueError
        Naming the case.
    """
    first, *others = totals.items()
    for (name, world_size), found in others:
        if not np.array_equal(found, first[1]):
            raise ValueError(f"{case}: expected the same nodes and edges by {name} on {world_size} ranks as on one")


def print_layers(records: list[Record]) -> None:
    """Print a line for each case and partition: what the layer of the inputs takes."""
    print(f"\n{'the first layer, all ranks together':64}" + "".join(f"{metric:>18}" for metric in (*UNITS, "balance")))
    for case, name in dict.fromkeys((record.case, record.system) for record in records if record.system in PARTITIONS):
        found = {r.metric: r.median for r in records if (r.case, r.system) == (case, name)}
        cells = [found[f"layer 1: {metric}"] for metric in UNITS]
        balance = found["layer 1: edge balance"]
        print(f"{f'{case}, {name}':64}" + "".join(f"{cell:>18,.0f}" for cell in cells) + f"{balance:>18.2f}")


def main() -> None:
    parser = arguments(__doc__ or "", rounds=1)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="(default: %(default)s)")
    parser.add_argument("--layers", type=int, default=2, help="layers of the model (default: %(default)s)")
    parser.add_argument("--batches", type=int, default=3, help="batches of each case (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=256, help="seeds of a mini-batch (default: %(default)s)")
    parser.add_argument("--width", type=int, default=128, help="float32 columns of rows (default: %(default)s)")
    add_data(parser)
    options = parser.parse_args()

    print(describe_machine(["headrace", "torch", "numpy"]))
    records: list[Record] = []
    for graph_name, graph in graphs(options.data / "amazon_computers.npz"):
        print(f"{graph_name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges")
        for strategy, source in sources(graph, options.batch_size).items():
            if graph_name == "star" and strategy != "global-batch":
                continue
            totals = {}
            for world_size in options.ranks:
                case = f"{graph_name}, {strategy}, {world_size} ranks"
                for name in PARTITIONS:
                    taken, totals[name, world_size] = records_of(case, source, graph, name, world_size, options)
                    records += taken
            check_work(f"{graph_name}, {strategy}", totals)
            records += work_records(f"{graph_name}, {strategy}", totals)
    print_layers(records)
    write_json(options.json, records)
    draw_lines(options.plot, panels(records), axis="ranks")


def panels(records: list[Record]) -> list[tuple[str, list[tuple[float, Record]]]]:
    """Return the bytes of the first layer by ranks, a panel for each graph and strategy."""
    found: dict[str, list[tuple[float, Record]]] = {}
    for record in records:
        if record.metric == "layer 1: bytes":
            title, ranks = record.case.rsplit(", ", 1)
            found.setdefault(title, []).append((float(ranks.split()[0]), record))
    return list(found.items())


if __name__ == "__main__":
    main()
