"""Types, times and features of types in parts on disk: what is opened is what was cut."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from part_files import write
from ranks import partition, run_ranks

import headrace as hr

from plans import RELATIONS, typed_graph, typed_items, typed_store, with_times

NODE = {"a": ["x"], "b": ["x"]}


def same_rows(found: hr.FeatureSource, expected: hr.FeatureSource, ids: torch.Tensor) -> bool:
    return torch.equal(found.read(ids).rows, expected.read(ids).rows)


@pytest.mark.parametrize(("kind", "memory_map"), [("hash", True), ("range", False), ("table", True)])
def test_what_is_loaded_is_what_was_cut(tmp_path, kind, memory_map):
    owners, one, features = partition(kind, 3), with_times(typed_graph()), typed_store()
    path = write(tmp_path / "parts", one, owners, features)
    for part in range(3):
        shards = hr.open_dataset(path, rank=part, memory_map=memory_map)
        cut = one.shard(owners, part)
        assert shards.graph == cut
        assert (shards.graph.node_types, shards.graph.edge_types) == (one.node_types, one.edge_types)
        assert shards.graph.by_time("time") == cut.by_time("time")
        assert torch.equal(shards.graph.by_time("time").edge_times, cut.by_time("time").edge_times)
        assert repr(shards.graph) == repr(cut)
        assert shards.graph.content_digest() == one.content_digest()
        assert shards.store.content_digest() == features.content_digest()
        assert set(shards.store.node) == set(features.node)
        for name in ("a", "b"):
            of_type = owners.of_type(one.node_types, name)
            found, expected = shards.store.node[name, "x"], features.node[name, "x"]
            assert found == hr.ShardedFeature.of(expected.rows_in_place, of_type, part)
            assert found.nodes == one.node_types.id_range(name)
        for name in (("a", "y"), "all"):
            assert shards.store.node[name] == features.node[name]
        of_type = cut.edges.of_type(one.edge_types, RELATIONS[1])
        rows = features.edge[RELATIONS[1], "e"].rows_in_place
        assert shards.store.edge[RELATIONS[1], "e"] == hr.ShardedFeature.of(rows, of_type)


@st.composite
def typed_shapes(draw) -> tuple[list[int], list[int]]:
    """Counts of nodes and of edges by type, some of them nothing."""
    nodes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(sum))
    return nodes, draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))


@pytest.mark.slow
@settings(max_examples=40)  # each makes a folder and some twenty files
@given(typed_shapes(), st.integers(1, 3), st.booleans(), st.integers(0, 99))
def test_any_types(tmp_path_factory, shapes, num_parts, named, seed):
    nodes, edges = shapes
    generator = torch.Generator().manual_seed(seed)
    num_nodes, num_edges = sum(nodes), sum(edges)
    ends = torch.randint(num_nodes, (2, num_edges), generator=generator)
    node_types = {f"t,{i}/": count for i, count in enumerate(nodes)} if named else None
    edge_types = {f"r{i}": count for i, count in enumerate(edges)}
    one = hr.Graph.from_coo(
        *ends,
        num_nodes=num_nodes,
        node_types=node_types,
        edge_types=edge_types,
        node_attrs={"..": torch.rand(num_nodes, 2, generator=generator)},
    )
    of_types = node_types or {"node": num_nodes}
    node = {(name, "x,y"): torch.rand(count, 1 + i) for i, (name, count) in enumerate(of_types.items())}
    edge = {(name, "e"): torch.rand(count, 2) for name, count in edge_types.items()}
    features = hr.FeatureStore(node=node, edge=edge)
    owners = hr.Partition.hash(num_nodes, num_parts)
    path = write(tmp_path_factory.mktemp("written") / "parts", one, owners, features, whole=[])
    for part in range(num_parts):
        shards = hr.open_dataset(path, rank=part)
        assert shards.graph == one.shard(owners, part)
        assert shards.store.content_digest() == features.content_digest()
        for name in node:
            own = shards.store.node[name].partition.owned(part)
            assert same_rows(shards.store.node[name], features.node[name], own)
        for name in edge:
            own = shards.store.edge[name].partition.owned(part)
            assert same_rows(shards.store.edge[name], features.edge[name], own)


@pytest.mark.slow
@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.parametrize("times", [False, True])
def test_batches_and_checkpoints_are_those_of_shards_in_memory(tmp_path, times, cooperative):
    owners, features = partition("table", 3), typed_store()
    one = with_times(typed_graph()) if times else typed_graph()
    path = write(tmp_path / "parts", one, owners, features)
    copies = {("b", "x"): torch.arange(0, 70, 3), ("a", "x"): torch.arange(0, 120, 4)}

    def run(comm: hr.Comm, over: hr.GraphShard, rows: hr.FeatureStore) -> tuple[list[str], dict, float]:
        items = typed_items(time=torch.arange(60) * 7 % 50) if times else typed_items()
        plan = items.sample_neighbor(over, {"likes": [4, 2], "default": [3, 2]}, time="time" if times else None)
        plan = plan.fetch_feature(rows, node=NODE, edge={RELATIONS[1]: ["e"]}, labels={"a": "y"})
        with plan.loader(comm=comm, cooperative=cooperative) as loader:
            return [batch.digest() for batch in loader], loader.state_dict(), loader.stats().total("sent_bytes")

    def in_memory(comm: hr.Comm) -> object:
        node: dict = {("a", "y"): features.node["a", "y"]}
        for name, ids in copies.items():
            of_type = owners.of_type(one.node_types, name[0])
            node[name] = hr.ShardedFeature.of(features.node[name].rows_in_place, of_type, comm.rank, cached=ids)
        shard, rows = one.shard(owners, comm.rank), features.edge[RELATIONS[1], "e"].rows_in_place
        e = hr.ShardedFeature.of(rows, shard.edges.of_type(one.edge_types, RELATIONS[1]))
        return run(comm, shard, hr.FeatureStore(node=node, edge={(RELATIONS[1], "e"): e}))

    def on_disk(comm: hr.Comm) -> object:
        shards = hr.open_dataset(path, rank=comm.rank, cached=copies)
        return run(comm, shards.graph, shards.store)

    found = run_ranks(3, on_disk)
    assert found == run_ranks(3, in_memory)
    assert all(digests for digests, *_ in found)


def test_names_with_commas_have_files_of_their_own(tmp_path):
    """Features whose types and names run together to one text."""
    one = hr.Graph.from_coo([0], [1], num_nodes=4, node_types={"u": 2, "u,v": 2})
    rows = {("u", "v,x"): torch.rand(2, 3), ("u,v", "x"): torch.rand(2, 3), "u,v,x": torch.rand(4, 3)}
    path = write(tmp_path / "parts", one, hr.Partition.range(4, 2), hr.FeatureStore(node=rows), whole=list(rows))
    found = hr.open_dataset(path, rank=0).store.node
    assert all(torch.equal(found[name].read(torch.arange(len(x))).rows, x) for name, x in rows.items())


@pytest.mark.parametrize("file", ["part-0/node.b.x.npy", "node_attribute.time.npy", "part-0/edge.a,likes,a.e.npy"])
def test_files_of_another_write_are_refused(tmp_path, file):
    path = write(tmp_path / "parts", with_times(typed_graph()), partition("hash", 2), typed_store())
    data = bytearray((path / file).read_bytes())
    data[-1] ^= 1
    (path / file).write_bytes(data)
    with pytest.raises(hr.InputError, match=rf"expected in .*{file} what was written there, got something else"):
        hr.open_dataset(path, rank=0)


@pytest.mark.parametrize("field", ["num_own_of_types", "num_edges_of_types"])
def test_counts_of_types_that_do_not_add_up(tmp_path, field):
    path = write(tmp_path / "parts", typed_graph(), partition("hash", 2), typed_store()) / "part-0" / "dataset.json"
    manifest = json.loads(path.read_text())
    manifest["part"][field][0] += 1
    path.write_text(json.dumps(manifest))
    with pytest.raises(hr.InputError, match=rf"expected part\.{field} to add up to part\.num_"):
        hr.open_dataset(tmp_path / "parts", rank=0)


def test_what_every_rank_reads_whole(tmp_path):
    owners = partition("hash", 2)
    path = write(tmp_path / "parts", typed_graph(), owners, typed_store(), whole=[("b", "x"), ("b", "z"), ("a", "y")])
    node = hr.open_dataset(path, rank=1).store.node
    assert {name for name in node if isinstance(node[name], hr.ShardedFeature)} == {("a", "x"), "all"}
    with pytest.raises(hr.InputError, match=r"node features in shards, \[.*'all'.*\], got \('b', 'x'\)"):
        hr.open_dataset(path, rank=1, cached={("b", "x"): [0]})
    with pytest.raises(hr.InputError, match="nodes below 120, got ids from 0 to 120"):
        hr.open_dataset(path, rank=1, cached={("a", "x"): [0, 120]})
