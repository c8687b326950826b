"""Parts of a graph that is cut by edges: together they are the whole, in which edges and nodes keep their places."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from part_files import data

import headrace as hr

from copies import run_program
from plans import NUM_NODES, graph, store, typed_graph, typed_store
from strategies import edge_lists

KINDS = {
    "source": hr.EdgePartition.by_source,
    "destination": hr.EdgePartition.by_destination,
    "grid": hr.EdgePartition.grid,
}


COMMAND = "import runpy, sys; sys.argv[0] = 'headrace'; runpy.run_module('headrace', run_name='__main__')"


def cut(folder: Path, whole: hr.Graph, rows: hr.FeatureStore, kind: str, nodes: hr.Partition | int) -> hr.EdgePartition:
    """Save a graph and cut it by edges into ``folder/parts``."""
    hr.save_dataset(folder / "data", whole, rows, progress=False)
    opened = hr.open_dataset(folder / "data")
    partition = KINDS[kind](opened.graph, nodes)
    opened.partition(partition, folder / "parts", progress=False)
    return partition


def check_parts(folder: Path, whole: hr.Graph, rows: hr.FeatureStore, partition: hr.EdgePartition) -> None:
    """Compare the parts with the whole, array for array, by what a reader of the whole would count."""
    num_parts, num_edges = partition.num_parts, whole.num_edges
    destinations = torch.arange(whole.num_nodes).repeat_interleave(whole.in_degrees())
    masters = partition.nodes.owner(torch.arange(whole.num_nodes))
    seen: Counter[tuple[int, int]] = Counter()
    repeats = []
    for pair in zip(whole.indices.tolist(), destinations.tolist(), strict=True):
        repeats.append(seen[pair])
        seen[pair] += 1
    found = {name: torch.full((num_edges,), -1) for name in ("sources", "destinations", "ids", "offsets", "repeats")}
    attributes = {name: torch.empty_like(values) for name, values in whole.edge_attrs_csc.items()}
    weights = {name: values.double() for name, values in whole.edge_attrs_csc.items() if values.is_floating_point()}
    before = {name: torch.full((num_edges,), -1.0, dtype=torch.float64) for name in weights}
    sums = {name: [0.0] * whole.num_nodes for name in weights}
    sums_before: dict[str, list[float]] = {name: [] for name in weights}
    for edge, node in enumerate(destinations.tolist()):
        for name, values in weights.items():
            sums_before[name].append(sums[name][node])
            sums[name][node] += values[edge].item()
    holders: dict[int, set[int]] = {node: set() for node in range(whole.num_nodes)}
    parts = [hr.open_dataset(folder / "parts", rank=part) for part in range(num_parts)]
    for number, part in enumerate(parts):
        own, at = part.graph, part.graph.positions
        ends = own.nodes.repeat_interleave(own.indptr.diff())
        for name, values in (("sources", own.indices), ("destinations", ends), ("ids", own.edge_ids)):
            found[name][at] = values.long()
        found["offsets"][at], found["repeats"][at] = own.offsets, own.repeats
        for name, values in own.edge_attrs_csc.items():
            attributes[name][at] = values
        for name, values in own.sums_before.items():
            before[name][at] = values
        assert {name: values.tolist() for name, values in own.row_sums.items()} == {
            name: [values[node] for node in own.nodes_at_hand.tolist()] for name, values in sums.items()
        }
        for node in own.nodes.tolist():
            holders[node].add(number)
        owned = partition.nodes.owned(number)
        assert own.nodes_at_hand.tolist() == [
            *owned.tolist(),
            *sorted({*ends.tolist(), *own.indices.tolist()} - {*owned.tolist()}),
        ]
        assert torch.equal(own.in_degrees, whole.in_degrees()[own.nodes_at_hand])
        of_sources = torch.bincount(whole.indices, minlength=whole.num_nodes)
        assert torch.equal(own.out_degrees, of_sources[own.nodes_at_hand])
        loops = own.indices == ends
        assert (masters[ends[loops]] == number).all()
        for name in rows.node:
            assert torch.equal(part.store.node[name].read(owned[:0]).rows, rows.node[name].read(owned[:0]).rows)
        for name in [one for one in rows.edge if isinstance(one, str)]:
            ids = own.edge_ids.long()
            assert torch.equal(part.store.edge[name].read(ids).rows, rows.edge[name].read(ids).rows)
        for name in [one for one in rows.node if isinstance(one, str)]:
            assert torch.equal(part.store.node[name].read(owned).rows, rows.node[name].read(owned).rows)
        assert own.content_digest() == whole.content_digest()
    assert torch.equal(found["sources"], whole.indices.long())
    assert torch.equal(found["destinations"], destinations)
    assert torch.equal(found["ids"], whole.edge_ids.long())
    assert torch.equal(found["offsets"], torch.arange(num_edges) - whole.indptr[destinations])
    assert found["repeats"].tolist() == repeats
    assert {name: values.tolist() for name, values in before.items()} == sums_before
    assert all(torch.equal(values, whole.edge_attrs_csc[name]) for name, values in attributes.items())
    for number, part in enumerate(parts):
        owned = partition.nodes.owned(number)
        told = part.graph.who_holds(owned)
        pairs = zip(owned[told.rows].tolist(), told.ranks.tolist(), strict=True)
        assert sorted(pairs) == [(node, rank) for node in owned.tolist() for rank in sorted(holders[node])]


@pytest.mark.slow
@settings(max_examples=30)  # each makes two folders and some hundred files
@given(edges=edge_lists(min_nodes=1), kind=st.sampled_from(sorted(KINDS)), num_parts=st.integers(1, 13), data=st.data())
def test_parts_together_are_the_whole(tmp_path_factory, edges, kind, num_parts, data):
    whole = hr.Graph.from_coo(
        edges.src, edges.dst, num_nodes=edges.num_nodes, edge_attrs={"w": torch.rand(len(edges.src))}
    )
    owners = data.draw(
        st.lists(st.integers(0, num_parts - 1), min_size=edges.num_nodes, max_size=edges.num_nodes), label="owners"
    )
    rows = hr.FeatureStore(node={"x": torch.rand(edges.num_nodes, 2)}, edge={"e": torch.rand(len(edges.src), 3)})
    folder = tmp_path_factory.mktemp("cut")
    check_parts(folder, whole, rows, cut(folder, whole, rows, kind, hr.Partition.of(owners, num_parts)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("typed", [False, True])
def test_parts_of_graphs_with_types(tmp_path, kind, typed):
    whole, rows = (typed_graph(), typed_store()) if typed else (graph(), store())
    partition = cut(tmp_path, whole, rows, kind, 4)
    check_parts(tmp_path, whole, rows, partition)
    part = hr.open_dataset(tmp_path / "parts", rank=1)
    assert (part.graph.node_types, part.graph.edge_types) == (whole.node_types, whole.edge_types)
    for name, source in part.store.edge.items():
        low = 0 if isinstance(name, str) else whole.edge_types.id_range(name[0]).start
        high = whole.num_edges if isinstance(name, str) else whole.edge_types.id_range(name[0]).stop
        ids = part.graph.edge_ids.long()
        ids = ids[(ids >= low) & (ids < high)] - low
        assert torch.equal(source.read(ids).rows, rows.edge[name].read(ids).rows)


def test_plans_refuse_them(tmp_path):
    cut(tmp_path, graph(), store(), "grid", 4)
    part = hr.open_dataset(tmp_path / "parts", rank=0)
    with pytest.raises(hr.InputError, match=r"expected an hr\.Graph, got EdgePart; plans do not read parts that are"):
        hr.ItemSampler(5).sample_neighbor(part.graph, [2])


def test_whole_graph_training_and_loaders_of_other_graphs_refuse_them(tmp_path):
    cut(tmp_path, graph(), store(), "grid", 4)
    part = hr.open_dataset(tmp_path / "parts", rank=0)
    with pytest.raises(hr.InputError, match="expected a part of a graph that is cut by its nodes"):
        hr.sar.ShardedGraph(part.graph)
    with pytest.raises(hr.InputError, match="this is part 0 of a graph already"):
        part.partition(hr.Partition.hash(NUM_NODES, 2), tmp_path / "again", progress=False)
    plan = hr.ItemSampler(5).sample_neighbor(graph(), [2]).fetch_feature(part.store, edge=["e"])
    with pytest.raises(hr.PlanError, match="got it in parts that are cut by edges"):
        plan.explain(machine=hr.Machine(world_size=4))
    with pytest.raises(hr.InputError, match="expected destinations of its edges"):
        part.graph.in_edges(torch.tensor([NUM_NODES - 1, *range(NUM_NODES - 1)]))


def test_attributes_of_nodes_are_at_hand(tmp_path):
    times = torch.arange(NUM_NODES)
    whole = hr.Graph.from_csc(graph().indptr, graph().indices, node_attrs={"t": times})
    cut(tmp_path, whole, hr.FeatureStore(), "grid", 4)
    part = hr.open_dataset(tmp_path / "parts", rank=2)
    assert torch.equal(part.graph.node_attrs["t"], times)
    assert torch.equal(part.graph.own_nodes, part.part.partition.owned(2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_told_before(tmp_path, kind):
    """Nearly: of copies of nodes at most is told."""
    cut(tmp_path, graph(), store(), kind, 4)
    written = sum(np.load(path).nbytes for path in (tmp_path / "parts").rglob("*.npy"))
    arguments = ["partition", str(tmp_path / "data"), "--parts", "4", "--cut", kind, "--dry-run", "--json"]
    told = json.loads(run_program(COMMAND, *arguments).stdout)["bytes"]
    assert written <= told <= 1.5 * written


def test_a_partition_of_another_graph_is_refused(tmp_path):
    partition = hr.EdgePartition.grid(graph(), 4)
    with pytest.raises(hr.InputError, match=r"expected an hr\.EdgePartition of the graph of the data set"):
        data().partition(partition, tmp_path / "parts", progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_command(tmp_path, kind):
    out = tmp_path / "parts"
    arguments = ["partition", str(data().path), str(out), "--parts", "4", "--cut", kind, "--memory", "1GB"]
    for one in (arguments, ["verify", str(out)]):
        assert run_program(COMMAND, *one).returncode == 0
    parts = [hr.open_dataset(out, rank=part).graph for part in range(4)]
    expected = KINDS[kind](data().graph, 4)
    assert [part.num_local_edges for part in parts] == list(expected.sizes)
    assert all(torch.equal(part.positions, expected.owned(rank)) for rank, part in enumerate(parts))
    assert sum(len(part.masters.owned(part.part)) for part in parts) == NUM_NODES


@pytest.mark.parametrize(
    ("name", "forged", "words"),
    [
        ("nodes", lambda rows: rows.flip(0), "expected nodes to ascend"),
        ("others", lambda rows: rows + NUM_NODES, "expected others to ascend"),
        ("positions", lambda rows: rows - rows.max(), "expected positions to ascend"),
        ("first_positions", lambda rows: rows + 5_000, "expected first_positions at or before"),
        ("in_degrees", lambda rows: -rows - 1, "expected in_degrees of at least 0"),
        ("row_sums.weight", lambda rows: rows - 1e9, "expected row_sums of 'weight' of at least 0, got -1"),
        ("sums_before.weight", lambda rows: rows * float("nan"), "expected sums_before of 'weight' of at least 0"),
        ("holders", lambda rows: rows + 4, "expected holders below 4"),
        ("holders_indptr", lambda rows: rows * 2, "expected holders_indptr to rise"),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(tmp_path, name, forged, words):
    cut(tmp_path, graph(), store(), "grid", 4)
    part = tmp_path / "parts/part-1"
    files = [part / f"cut.{name}.npy", part / "dataset.json", tmp_path / "parts/parts.json"]
    values = torch.from_numpy(np.load(files[0]))
    before = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files[:2]]
    np.save(files[0], forged(values).to(values.dtype).numpy())
    for file, digest, above in zip(files[:2], before, files[1:], strict=True):
        now = hashlib.sha256(file.read_bytes()).hexdigest()
        above.write_text(above.read_text().replace(digest, now))
    with pytest.raises(hr.InputError, match=f"part-1 is damaged: {words}"):
        hr.open_dataset(tmp_path / "parts", rank=1)
