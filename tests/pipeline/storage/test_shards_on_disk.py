"""Shards on disk: what is loaded is what was cut, and nothing half written or foreign is taken for shards."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import partition, run_ranks

import headrace as hr
from headrace.pipeline.data.place import CPU
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.storage.array_source import ArraySource

from plans import NUM_NODES, graph, items, store
from strategies import edge_lists

KINDS = ["hash", "range", "table"]


def write(path: Path, *arguments: object, **options: object) -> Path:
    hr.write_shards(path, *arguments, progress=False, **options)
    return path


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "shards", graph(), partition("hash", 3), store())


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
        assert shards.store.node["x"] == hr.ShardedFeature.of(features.node["x"]._tensor, cut, part)
        for name in ("y", "none"):
            owned = cut.owned(part)
            assert torch.equal(shards.store.node[name].read(owned).rows, features.node[name].read(owned).rows)
        assert shards.store.node["y"] == features.node["y"]
        assert shards.store.edge["e"] == features.edge["e"]


@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_checkpoints_are_those_of_shards_in_memory(tmp_path, kind, cooperative):
    owners = partition(kind, 3)
    path = write(tmp_path / "shards", graph(), owners, store())
    copies = torch.arange(0, NUM_NODES, 3)

    def run(comm: Comm, one: hr.Graph, features: hr.FeatureStore) -> tuple[list[str], dict, float]:
        plan = items(batch_size=40).sample_neighbor(one, [4, 3], weight="weight")
        plan = plan.fetch_feature(features, node=["x"], edge=["e"], labels="y")
        with plan.loader(comm=comm, cooperative=cooperative) as loader:
            batches = [batch.digest() for batch in loader]
            return batches, loader.state_dict(), loader.stats().total("sent_bytes")

    def in_memory(comm: Comm) -> object:
        x = hr.ShardedFeature.of(store().node["x"]._tensor, owners, comm.rank, cached=copies)
        features = hr.FeatureStore(node={"x": x, "y": store().node["y"]}, edge=store().edge)
        return run(comm, graph().shard(owners, comm.rank), features)

    def on_disk(comm: Comm) -> object:
        shards = hr.load_shards(path, comm.rank, cached={"x": copies})
        return run(comm, shards.graph, shards.store)

    assert run_ranks(3, on_disk) == run_ranks(3, in_memory)


def test_a_checkpoint_continues_over_the_whole_graph(folder):
    def plan(one: hr.Graph, features: hr.FeatureStore) -> hr.Stage:
        return items().sample_neighbor(one, [2]).fetch_feature(features, node=["x"], labels="y")

    def work(comm: Comm) -> dict:
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


def test_pieces_make_up_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.pipeline.storage.write_shards.PIECE_BYTES", 100)
    monkeypatch.setattr("headrace.ops.graphs.rows.PIECE_EDGES", 7)
    owners = partition("table", 2)
    shards = hr.load_shards(write(tmp_path / "shards", graph(), owners, store()), 0)
    assert shards.graph == graph().shard(owners, 0)
    assert shards.partition == owners
    assert shards.store.node["x"] == hr.ShardedFeature.of(store().node["x"]._tensor, owners, 0)
    assert shards.store.node["y"] == store().node["y"]
    assert shards.store.edge["e"] == store().edge["e"]


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


# --- a folder that is complete, or not there --------------------------------------------------------------------------


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


# --- what is refused --------------------------------------------------------------------------------------------------


def test_graphs_and_features_that_cannot_be_cut_are_refused(tmp_path):
    path, owners = tmp_path / "shards", partition("hash", 2)
    typed = hr.Graph.from_coo([0], [1], num_nodes=NUM_NODES, edge_types={"likes": 1})
    for one, message in (
        (typed, "write_shards: graphs with edge types"),
        (graph().shard(owners, 0), "write_shards: this is part 0"),
        (hr.Graph.from_coo([0], [1]), "write_shards: the partition has 200 vertices, the graph 2"),
    ):
        with pytest.raises(hr.GraphError, match=message):
            write(path, one, owners)
    long = torch.zeros(NUM_NODES + 1, 2)
    for node, whole, message in (
        ({"x": hr.ShardedFeature.of(long[1:], owners, 0)}, None, "'x' is in shards already"),
        ({"x": long}, None, "row of node feature 'x' for each of 200 vertices, got 201"),
        ({"x": long}, ["z"], "no node feature 'z'"),
    ):
        with pytest.raises(hr.FeatureError, match=message):
            write(path, graph(), owners, hr.FeatureStore(node=node), whole=whole)
    assert not path.exists()
    write(path, graph(), owners, hr.FeatureStore(node={"x": long}), whole="x")


def changed(folder: Path, **fields: object) -> Path:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**meta, **fields}))
    return folder


def test_what_is_no_shards_is_not_loaded(tmp_path, folder):
    with pytest.raises(hr.InputError, match=r"expected a folder that write_shards made, but .* has no meta\.json"):
        hr.load_shards(tmp_path)
    for part in (-1, 3, "0"):
        with pytest.raises(hr.InputError, match=r"part of .* must be an integer from 0 to 2"):
            hr.load_shards(folder, part)
    for fields, message in (
        ({"num_parts": 2}, None),  # a hash of fewer parts is another one: the arrays have other lengths
        ({"node": {"x": 1}}, "is damaged"),
        ({"indices": "int99"}, "is damaged"),
        ({"partition": "metis"}, "kind 'metis'; expected range, hash or table"),
        ({"partition": "range", "sizes": [1, 2]}, "200 vertices in 3 parts, but sizes of 3 in 2"),
        ({"version": 2}, "version 2, this headrace reads version 1"),
        ({"format": "parquet"}, "something else than headrace shards"),
    ):
        original = (folder / "meta.json").read_text()
        with pytest.raises(hr.InputError, match=message):
            hr.load_shards(changed(folder, **fields), 1)
        (folder / "meta.json").write_text(original)
    (folder / "meta.json").write_text("{")
    with pytest.raises(hr.InputError, match="is no JSON"):
        hr.load_shards(folder)


@pytest.mark.parametrize("memory_map", [False, True])
@pytest.mark.parametrize("file", ["part-1/indptr.npy", "part-1/indices.npy", "part-1/node.x.npy", "whole/edge.e.npy"])
def test_damaged_files_are_refused(folder, file, memory_map):
    path = folder / file
    content = path.read_bytes()
    array = np.load(path)

    def refused(message: str) -> None:
        with pytest.raises(hr.InputError, match=message):
            hr.load_shards(folder, 1, memory_map=memory_map)

    path.write_bytes(content[:-3])
    refused("damaged file")
    path.write_bytes(b"")
    refused("damaged file")
    np.save(path, array[:-1])
    refused(f"expected .* in .*{path.name}, got")
    np.save(path, array.astype(np.int16))
    refused(f"expected {array.dtype}.* in .*{path.name}, got int16")
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    refused("damaged file .*([Oo]bject|pickle)")
    path.unlink()
    refused("there is no such file")


@pytest.mark.parametrize(
    ("cached", "message"),
    [
        ({"y": [1]}, r"cached names node feature 'y'; those in shards are \['x'\]"),
        ({"z": [1]}, "cached names node feature 'z'"),
        ({"x": [NUM_NODES]}, "cached to be vertices below 200, got ids from 200 to 200"),
        ({"x": [0.5]}, "cached to be int32 or int64 ids"),
    ],
)
def test_copies_of_what_there_is_not_are_refused(folder, cached, message):
    with pytest.raises(hr.FeatureError, match=message):
        hr.load_shards(folder, 1, cached=cached)


# --- memory -----------------------------------------------------------------------------------------------------------

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
    run = subprocess.run([sys.executable, "-c", _CUT, tmp_path, "100"], capture_output=True, text=True, check=False)
    assert run.stdout == "written\n", run.stderr


class Liar(ArraySource):
    """A source that returns other rows than it announces."""

    def __init__(self, returned):
        super().__init__(torch.ones(NUM_NODES, 2))
        self._returned = returned

    def read(self, ids, **options):
        return hr.Rows(self._returned(super().read(ids, **options).rows))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda rows: rows.double(), r"expected float32\[0, 2\], got pieces of float64\[\d+, 2\]"),
        (lambda rows: rows[:, :1], r"expected float32\[0, 2\], got pieces of float32\[\d+, 1\]"),
        (lambda rows: rows[1:], r"expected \d+ rows, got \d+"),
    ],
    ids=["dtype", "width", "number"],
)
def test_rows_that_were_not_announced_are_refused(returned, message, tmp_path):
    features = hr.FeatureStore(node={"x": Liar(returned)})
    with pytest.raises(hr.FeatureError, match=message):
        hr.write_shards(tmp_path / "shards", graph(), hr.Partition.hash(NUM_NODES, 2), features, progress=False)
    assert not list(tmp_path.iterdir())
