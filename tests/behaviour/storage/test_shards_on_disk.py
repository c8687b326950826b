"""Shards on disk: what is loaded is what was cut, and nothing half written or foreign is taken for shards."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import partition, run_ranks

import headrace as hr

from copies import run_program
from plans import NUM_NODES, graph, items, store
from shard_files import write
from strategies import edge_lists

CPU = hr.Place("cpu")
KINDS = ["hash", "range", "table"]


@pytest.mark.slow
@settings(max_examples=40)  # each makes a folder and some thirty files
@given(st.data(), st.integers(1, 4), st.booleans())
def test_what_is_loaded_is_what_was_cut(tmp_path_factory, data, num_parts, memory_map):
    edges = data.draw(edge_lists(min_nodes=1))
    num_nodes, num_edges = edges.num_nodes, edges.num_edges
    owners = data.draw(st.lists(st.integers(0, num_parts - 1), min_size=num_nodes, max_size=num_nodes))
    sizes = np.bincount(owners, minlength=num_parts).tolist()
    attributes = {"a/b": torch.rand(num_edges), "..": torch.randint(9, (num_edges, 2), dtype=torch.uint8)}
    whole = hr.Graph.from_coo(edges.src, edges.dst, num_nodes=num_nodes, edge_attrs=attributes)
    features = hr.FeatureStore(
        node={"x": torch.rand(num_nodes, 3), "y": torch.arange(num_nodes), "none": torch.empty(num_nodes, 0)},
        edge={"e": torch.rand(num_edges, 2)},
    )
    cut = data.draw(
        st.sampled_from(
            [
                hr.Partition.of(owners, num_parts),
                hr.Partition.hash(num_nodes, num_parts),
                hr.Partition.range_of(sizes),
            ]
        )
    )
    path = write(tmp_path_factory.mktemp("written") / "shards", whole, cut, features)
    for part in range(num_parts):
        shards = hr.load_shards(path, part, memory_map=memory_map)
        assert shards.graph == whole.shard(cut, part)
        assert type(shards.partition) is type(cut)
        assert (shards.partition, shards.part) == (cut, part)
        assert repr(shards.graph) == repr(whole.shard(cut, part))
        assert shards.graph.content_digest() == whole.content_digest()
        assert shards.store.content_digest() == features.content_digest()
        assert shards.store.node["x"] == hr.ShardedFeature.of(features.node["x"].rows_in_place, cut, part)
        for name in ("y", "none"):
            owned = cut.owned(part)
            assert torch.equal(shards.store.node[name].read(owned).rows, features.node[name].read(owned).rows)
        assert shards.store.node["y"] == features.node["y"]
        assert shards.store.edge["e"] == features.edge["e"]


@pytest.mark.slow
@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_checkpoints_are_those_of_shards_in_memory(tmp_path, kind, cooperative):
    owners = partition(kind, 3)
    path = write(tmp_path / "shards", graph(), owners, store())
    copies = torch.arange(0, NUM_NODES, 3)

    def run(comm: hr.Comm, one: hr.Graph, features: hr.FeatureStore) -> tuple[list[str], dict, float]:
        plan = items(batch_size=40).sample_neighbor(one, [4, 3], weight="weight")
        plan = plan.fetch_feature(features, node=["x"], edge=["e"], labels="y")
        with plan.loader(comm=comm, cooperative=cooperative) as loader:
            batches = [batch.digest() for batch in loader]
            return batches, loader.state_dict(), loader.stats().total("sent_bytes")

    def in_memory(comm: hr.Comm) -> object:
        x = hr.ShardedFeature.of(store().node["x"].rows_in_place, owners, comm.rank, cached=copies)
        features = hr.FeatureStore(node={"x": x, "y": store().node["y"]}, edge=store().edge)
        return run(comm, graph().shard(owners, comm.rank), features)

    def on_disk(comm: hr.Comm) -> object:
        shards = hr.load_shards(path, comm.rank, cached={"x": copies})
        return run(comm, shards.graph, shards.store)

    assert run_ranks(3, on_disk) == run_ranks(3, in_memory)


def test_a_checkpoint_continues_over_the_whole_graph(folder):
    def plan(one: hr.Graph, features: hr.FeatureStore) -> hr.Plan:
        return items().sample_neighbor(one, [2]).fetch_feature(features, node=["x"], labels="y")

    def work(comm: hr.Comm) -> dict:
        shards = hr.load_shards(folder, comm.rank)
        with plan(shards.graph, shards.store).loader(comm=comm) as loader:
            next(iter(loader))
            return loader.state_dict()

    states = run_ranks(3, work)
    plan(graph(), store()).loader().load_state_dict(states[0])


def test_the_part_of_this_process_is_the_default(folder):
    assert hr.load_shards(folder).part == 0


DTYPES = [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.float64, torch.complex64]
DTYPES += [torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn]


@pytest.mark.parametrize("memory_map", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(tmp_path, dtype, memory_map):
    """Bit for bit, NaNs included, also of dtypes that NumPy lacks."""
    bits = torch.arange(NUM_NODES * 4 * dtype.itemsize).to(torch.uint8)
    x = (bits % 2).bool()[: NUM_NODES * 4] if dtype == torch.bool else bits.view(dtype)
    x, owners = x.reshape(NUM_NODES, 2, 2), partition("table", 3)
    names = {"cut": x, "whole": x[:, 0, 0]}
    path = write(tmp_path / "shards", graph(), owners, hr.FeatureStore(node=names))
    ids = torch.tensor([0, 7, 150])
    shards = hr.load_shards(path, 1, memory_map=memory_map, cached={"cut": ids})
    for rows in (ids, owners.owned(1)):
        for name, expected in names.items():
            found = shards.store.node[name].read(rows).rows
            assert found.dtype == dtype
            assert torch.equal(bytes_of(found), bytes_of(expected[rows]))


def bytes_of(rows: torch.Tensor) -> torch.Tensor:
    return rows.contiguous().reshape(-1).view(torch.uint8)


class Squares:
    """A source that has no array."""

    num_rows, row_bytes, dtype, shape = NUM_NODES, 16, torch.int64, (NUM_NODES, 2)

    def read(self, ids: torch.Tensor, *, num_threads: int = 1, to: hr.Place = CPU) -> hr.Rows:
        return hr.Rows(torch.stack([ids, ids**2], 1).long())

    def content_digest(self) -> str:
        return "squares"


def test_sources_of_ones_own(tmp_path):
    path = write(tmp_path / "shards", graph(), partition("hash", 2), hr.FeatureStore(node={"q": Squares()}))
    source = hr.load_shards(path, 1).store.node["q"]
    assert source.content_digest() == "squares"
    owned = partition("hash", 2).owned(1)
    assert torch.equal(source.read(owned).rows, Squares().read(owned).rows)


@pytest.mark.parametrize(("whole", "expected"), [(None, {"y"}), ("x", {"x"}), (["x", "y"], {"x", "y"}), ([], set())])
def test_what_every_rank_reads_whole(tmp_path, whole, expected):
    path = write(tmp_path / "shards", graph(), partition("hash", 2), store(), whole=whole)
    node = hr.load_shards(path, 1).store.node
    assert {name for name in node if not isinstance(node[name], hr.ShardedFeature)} == expected


def test_node_types_stay(tmp_path):
    typed = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=4, node_types={"user": 3, "item": 1})
    shards = hr.load_shards(write(tmp_path / "shards", typed, hr.Partition.hash(4, 2)), 1)
    assert shards.graph.node_types == typed.node_types
    assert not shards.store.node


def test_files_are_memory_maps_of_a_part_alone(folder):
    """A machine that has no other part's files loads its own, without reading rows."""
    for other in (0, 2):
        for file in (folder / f"part-{other}").iterdir():
            file.unlink()
    shards = hr.load_shards(folder, 1)
    maps = Path("/proc/self/maps").read_text() if sys.platform.startswith("linux") else "part-1/node.x.npy"
    assert "part-1/node.x.npy" in maps
    assert "part-1/indices.npy" in maps
    with pytest.raises(hr.InputError, match=r"part-2/node\.x\.npy, but there is no such file"):
        hr.load_shards(folder, 1, cached={"x": shards.partition.owned(2)})


def test_what_exists_is_not_replaced_unless_asked(tmp_path, folder):
    with pytest.raises(hr.InputError, match="or overwrite it"):
        write(folder, graph(), partition("range", 2))
    write(folder, graph(), partition("range", 2), overwrite=True)
    assert hr.load_shards(folder, 1).partition == partition("range", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]


@pytest.mark.parametrize("content", [None, "[]", '{"format": "another"}', "no JSON"])
def test_what_is_no_shards_is_never_replaced(tmp_path, content):
    foreign = tmp_path / "home"
    foreign.mkdir()
    if content is not None:
        (foreign / "meta.json").write_text(content)
    with pytest.raises(hr.InputError, match=r"expected shards at .* to overwrite"):
        write(foreign, graph(), partition("hash", 2), overwrite=True)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(hr.InputError, match=r"expected shards at .* to overwrite"):
        write(file, graph(), partition("hash", 2), overwrite=True)


@pytest.mark.parametrize("there", [False, True])
def test_a_failure_leaves_what_was_there(tmp_path, there):
    path = tmp_path / "shards"
    if there:
        write(path, graph(), partition("range", 2), store())

    class Broken(Squares):
        def read(self, ids: torch.Tensor, *, num_threads: int = 1, to: hr.Place = CPU) -> hr.Rows:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, graph(), partition("hash", 2), hr.FeatureStore(node={"q": Broken()}), overwrite=True)
    assert [one.name for one in tmp_path.iterdir()] == (["shards"] if there else [])
    if there:
        assert hr.load_shards(path, 1).partition == partition("range", 2)


def test_folders_above_are_made(tmp_path):
    hr.load_shards(write(tmp_path / "a" / "b" / "shards", graph(), partition("hash", 2)))


def test_progress_counts_every_byte(tmp_path, capsys, monkeypatch):
    hr.write_shards(tmp_path / "silent", graph(), partition("table", 3), store())
    assert capsys.readouterr().err == ""  # no terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    hr.write_shards(tmp_path / "shards", graph(), partition("table", 3), store())
    shown = capsys.readouterr().err
    written = sum(np.load(path).nbytes for path in (tmp_path / "shards").rglob("*.npy"))
    assert "write shards: 100%" in shown
    assert f"{written / 1000:.1f}k/{written / 1000:.1f}k" in shown


_CUT = """
import resource, sys
import numpy as np, torch
import headrace as hr

torch.set_num_threads(1)  # stacks of threads count as well
folder, num_nodes, width, degree = sys.argv[1], 200_000, 150, 60
np.lib.format.open_memmap(f"{folder}/x.npy", "w+", np.float32, (num_nodes, width)).flush()
np.lib.format.open_memmap(f"{folder}/indices.npy", "w+", np.int32, (num_nodes * degree,)).flush()
graph = hr.Graph.from_csc(torch.arange(num_nodes + 1) * degree, np.load(f"{folder}/indices.npy", mmap_mode="r"))
store = hr.FeatureStore(node={"x": np.load(f"{folder}/x.npy", mmap_mode="r")})
hr.write_shards(f"{folder}/first", hr.Graph.from_coo([0], [1]), hr.Partition.hash(2, 2), progress=False)

held = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
allowed = int(sys.argv[2]) << 20
resource.setrlimit(resource.RLIMIT_DATA, (held + allowed, held + allowed))
hr.write_shards(f"{folder}/shards", graph, hr.Partition.hash(num_nodes, 2), store, progress=False)
print("written")
"""


@pytest.mark.slow
@pytest.mark.uninstrumented
def test_writing_takes_less_memory_than_one_shard(tmp_path):
    """Two shards of 110 MB, in a process that may allocate 100; half of that is pieces and what malloc keeps."""
    if not sys.platform.startswith("linux"):
        pytest.skip("limits and reads what Linux counts")
    run = run_program(_CUT, tmp_path, 100)
    assert run.stdout == "written\n", run.stderr
