"""Parts on disk: what is opened is what was cut, and nothing half written or foreign is taken for parts."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from part_files import write
from ranks import partition, run_ranks

import headrace as hr

from copies import run_program
from plans import NUM_NODES, graph, items, store
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
    path = write(tmp_path_factory.mktemp("written") / "parts", whole, cut, features)
    for part in range(num_parts):
        shards = hr.open_dataset(path, rank=part, memory_map=memory_map)
        assert shards.graph == whole.shard(cut, part)
        assert (shards.part.partition, shards.part.number) == (cut, part)
        assert repr(shards.graph) == repr(whole.shard(cut, part))
        assert shards.graph.content_digest() == whole.content_digest()
        assert shards.store.content_digest() == features.content_digest()
        assert shards.store.node["x"] == hr.ShardedFeature.of(features.node["x"].rows_in_place, cut, part)
        for name in ("y", "none"):
            owned = cut.owned(part)
            assert torch.equal(shards.store.node[name].read(owned).rows, features.node[name].read(owned).rows)
        assert shards.store.node["y"] == features.node["y"]
        edges = whole.shard(cut, part).edges
        assert shards.store.edge["e"] == hr.ShardedFeature.of(features.edge["e"].rows_in_place, edges)


@pytest.mark.slow
@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_checkpoints_are_those_of_shards_in_memory(tmp_path, kind, cooperative):
    owners = partition(kind, 3)
    path = write(tmp_path / "parts", graph(), owners, store())
    copies = torch.arange(0, NUM_NODES, 3)

    def run(comm: hr.Comm, one: hr.Graph, features: hr.FeatureStore) -> tuple[list[str], dict, float]:
        plan = items(batch_size=40).sample_neighbor(one, [4, 3], weight="weight")
        plan = plan.fetch_feature(features, node=["x"], edge=["e"], labels="y")
        with plan.loader(comm=comm, cooperative=cooperative) as loader:
            batches = [batch.digest() for batch in loader]
            return batches, loader.state_dict(), loader.stats().total("sent_bytes")

    def in_memory(comm: hr.Comm) -> object:
        x = hr.ShardedFeature.of(store().node["x"].rows_in_place, owners, comm.rank, cached=copies)
        shard = graph().shard(owners, comm.rank)
        e = hr.ShardedFeature.of(store().edge["e"].rows_in_place, shard.edges)
        return run(comm, shard, hr.FeatureStore(node={"x": x, "y": store().node["y"]}, edge={"e": e}))

    def on_disk(comm: hr.Comm) -> object:
        shards = hr.open_dataset(path, rank=comm.rank, cached={"x": copies})
        return run(comm, shards.graph, shards.store)

    assert run_ranks(3, on_disk) == run_ranks(3, in_memory)


def test_a_checkpoint_continues_over_the_whole_graph(folder):
    def plan(one: hr.Graph, features: hr.FeatureStore) -> hr.Plan:
        return items().sample_neighbor(one, [2]).fetch_feature(features, node=["x"], labels="y")

    def work(comm: hr.Comm) -> dict:
        shards = hr.open_dataset(folder, rank=comm.rank)
        with plan(shards.graph, shards.store).loader(comm=comm) as loader:
            next(iter(loader))
            return loader.state_dict()

    states = run_ranks(3, work)
    plan(graph(), store()).loader().load_state_dict(states[0])


def test_a_set_of_one_part_needs_no_rank(tmp_path):
    data = hr.open_dataset(write(tmp_path / "parts", graph(), partition("range", 1), store()))
    assert data.part.number == 0
    assert data.graph.num_local_edges == graph().num_edges


def test_one_part_by_its_own_folder(folder):
    """A rank that has no other part still has what is beside it."""
    data = hr.open_dataset(folder / "part-2")
    assert data.part.number == 2
    assert data.graph == hr.open_dataset(folder, rank=2).graph
    with pytest.raises(hr.InputError, match=r"open_dataset: expected parts of a graph for rank=, got the data set"):
        hr.open_dataset(saved(folder.parent / "data"), rank=0)


def test_a_part_may_be_a_link(folder, tmp_path):
    """As where each rank has its own part on a disk of its machine."""
    (folder / "part-1").rename(tmp_path / "elsewhere")
    (folder / "part-1").symlink_to(tmp_path / "elsewhere")
    for path, rank in ((folder, 1), (folder / "part-1", None)):
        assert hr.open_dataset(path, rank=rank).graph == graph().shard(partition("hash", 3), 1)


def saved(path: Path) -> Path:
    hr.save_dataset(path, graph(), store(), progress=False)
    return path


def test_items_ids_and_notes_are_those_of_the_data_set(tmp_path):
    train = hr.Items(torch.arange(50), torch.arange(50) % 3, torch.arange(50) * 2)
    items = {"train": train, "links": torch.tensor([[0, 1], [2, 3]])}
    ids, notes = {"node": [f"n{node}" for node in range(NUM_NODES)]}, {"tasks": [{"name": "y", "num_classes": 3}]}
    hr.save_dataset(tmp_path / "data", graph(), store(), items=items, ids=ids, notes=notes, progress=False)
    whole = hr.open_dataset(tmp_path / "data")
    whole.partition(partition("hash", 2), tmp_path / "data/parts/two", progress=False)
    for rank in range(2):
        data = hr.open_dataset(tmp_path / "data/parts/two", rank=rank)
        data.verify()
        assert data.notes == whole.notes
        assert data.numbering == whole.numbering
        assert data.ids["node"].external([0, 7]) == ["n0", "n7"]
        for name, expected in whole.items.items():
            for what in ("ids", "labels", "times"):
                one, other = getattr(data.items[name], what), getattr(expected, what)
                assert (one is None) == (other is None)
                assert one is None or torch.equal(one, other)
    whole.partition(partition("hash", 2), tmp_path / "some", features=["y"], whole=[], progress=False)
    data = hr.open_dataset(tmp_path / "some", rank=0)
    assert list(data.store.node) == ["y"]
    assert isinstance(data.store.node["y"], hr.ShardedFeature)
    assert not data.store.edge


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
    path = write(tmp_path / "parts", graph(), owners, hr.FeatureStore(node=names))
    ids = torch.tensor([0, 7, 150])
    shards = hr.open_dataset(path, rank=1, memory_map=memory_map, cached={"cut": ids})
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
    path = write(tmp_path / "parts", graph(), partition("hash", 2), hr.FeatureStore(node={"q": Squares()}))
    source = hr.open_dataset(path, rank=1).store.node["q"]
    owned = partition("hash", 2).owned(1)
    assert torch.equal(source.read(owned).rows, Squares().read(owned).rows)


@pytest.mark.parametrize(("whole", "expected"), [(None, {"y"}), ("x", {"x"}), (["x", "y"], {"x", "y"}), ([], set())])
def test_what_every_rank_reads_whole(tmp_path, whole, expected):
    path = write(tmp_path / "parts", graph(), partition("hash", 2), store(), whole=whole)
    node = hr.open_dataset(path, rank=1).store.node
    assert {name for name in node if not isinstance(node[name], hr.ShardedFeature)} == expected


def test_node_types_stay(tmp_path):
    typed = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=4, node_types={"user": 3, "item": 1})
    shards = hr.open_dataset(write(tmp_path / "parts", typed, hr.Partition.hash(4, 2)), rank=1)
    assert shards.graph.node_types == typed.node_types
    assert not shards.store.node


def test_files_are_memory_maps_of_a_part_alone(folder):
    """A machine that has no other part's files loads its own, without reading rows."""
    for other in (0, 2):
        for file in (folder / f"part-{other}").iterdir():
            file.unlink()
    shards = hr.open_dataset(folder, rank=1)
    maps = (
        Path("/proc/self/maps").read_text()
        if sys.platform.startswith("linux")
        else "part-1/node.x.npy part-1/graph.indices.npy"
    )
    assert "part-1/node.x.npy" in maps
    assert "part-1/graph.indices.npy" in maps
    with pytest.raises(hr.InputError, match=r"expected part 2, that of rank 2, but there is no .*part-2/dataset\.json"):
        hr.open_dataset(folder, rank=1, cached={"x": shards.part.partition.owned(2)})


def test_what_exists_is_not_replaced_unless_asked(tmp_path, folder):
    with pytest.raises(hr.InputError, match="or overwrite it"):
        write(folder, graph(), partition("range", 2))
    write(folder, graph(), partition("range", 2), overwrite=True)
    assert hr.open_dataset(folder, rank=1).part.partition == partition("range", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]


@pytest.mark.parametrize("content", [None, "[]", '{"format": "another"}', "no JSON"])
def test_what_is_no_parts_is_never_replaced(tmp_path, content):
    foreign = tmp_path / "home"
    foreign.mkdir()
    if content is not None:
        (foreign / "parts.json").write_text(content)
    with pytest.raises(hr.InputError, match=r"expected parts of a graph at .* to overwrite"):
        write(foreign, graph(), partition("hash", 2), overwrite=True)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(hr.InputError, match=r"expected parts of a graph at .* to overwrite"):
        write(file, graph(), partition("hash", 2), overwrite=True)


@pytest.mark.parametrize("there", [False, True])
def test_a_failure_leaves_what_was_there(tmp_path, there):
    path = tmp_path / "parts"
    if there:
        write(path, graph(), partition("range", 2), store())

    class Broken(Squares):
        def read(self, ids: torch.Tensor, *, num_threads: int = 1, to: hr.Place = CPU) -> hr.Rows:
            raise KeyboardInterrupt

    whole = hr.open_dataset(saved(tmp_path.with_name(f"{tmp_path.name}-data")))
    broken = replace(whole, store=hr.FeatureStore(node={"q": Broken()}))
    with pytest.raises(KeyboardInterrupt):
        broken.partition(partition("hash", 2), path, overwrite=True, progress=False)
    assert [one.name for one in tmp_path.iterdir()] == (["parts"] if there else [])
    if there:
        assert hr.open_dataset(path, rank=1).part.partition == partition("range", 2)


def test_folders_above_are_made(tmp_path):
    hr.open_dataset(write(tmp_path / "a" / "b" / "parts", graph(), partition("hash", 2)), rank=0)


def test_progress_counts_every_byte(tmp_path, capsys, monkeypatch):
    data = hr.open_dataset(saved(tmp_path / "data"))
    data.partition(partition("table", 3), tmp_path / "silent")
    assert capsys.readouterr().err == ""  # no terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    data.partition(partition("table", 3), tmp_path / "parts")
    shown = capsys.readouterr().err
    written = sum(np.load(path).nbytes for path in (tmp_path / "parts").rglob("*.npy"))
    assert "write parts: 100%" in shown
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
hr.save_dataset(f"{folder}/small", hr.Graph.from_coo([0], [1]), progress=False)
hr.open_dataset(f"{folder}/small").partition(hr.Partition.hash(2, 2), f"{folder}/first", progress=False)
hr.save_dataset(f"{folder}/data", graph, store, progress=False)
data = hr.open_dataset(f"{folder}/data")

held = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
allowed = int(sys.argv[2]) << 20
resource.setrlimit(resource.RLIMIT_DATA, (held + allowed, held + allowed))
data.partition(hr.Partition.hash(num_nodes, 2), f"{folder}/parts", progress=False)
print("written")
"""


@pytest.mark.slow
@pytest.mark.uninstrumented
def test_writing_takes_less_memory_than_one_part(tmp_path):
    """Two parts of 110 MB, in a process that may allocate 100; half of that is pieces and what malloc keeps."""
    if not sys.platform.startswith("linux"):
        pytest.skip("limits and reads what Linux counts")
    run = run_program(_CUT, tmp_path, 100)
    assert run.stdout == "written\n", run.stderr
