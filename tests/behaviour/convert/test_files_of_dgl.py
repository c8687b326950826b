"""Graphs that DGL has cut and folders that GraphBolt has preprocessed, as DGL 2.1 wrote them: tests/files_of_dgl."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import warnings
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shell import run

import headrace as hr

FILES = Path(__file__).parents[2] / "files_of_dgl"
EDGES = json.loads((FILES / "edges.json").read_text())
CUT = {"typed": 3, "plain": 2}


def rows(source: hr.FeatureSource) -> torch.Tensor:
    return source.read(torch.arange(source.num_rows)).rows


def edges_of(data: hr.Dataset) -> dict[str, dict[int, tuple[int, int]]]:
    """Return by type the ends of edges by the ids that features have of them, as nodes' features have ids."""
    graph, found = data.graph, {}
    names = [None] if graph.edge_types is None else graph.edge_types.names
    ids = graph.edge_ids.long()
    destinations = torch.arange(graph.num_nodes).repeat_interleave(graph.in_degrees())
    for name in names:
        range_of_type = range(graph.num_edges) if name is None else graph.edge_types.id_range(name)
        first, last = range_of_type.start, range_of_type.stop
        here = ((ids >= first) & (ids < last)).nonzero().reshape(-1)
        ends = []
        types = (None, None) if name is None else (name[0], name[2])
        for of_type, nodes in zip(types, (graph.indices, destinations), strict=True):
            start = 0 if of_type is None else graph.node_types.id_range(of_type).start
            places = nodes[here].long() - start
            key = "id" if of_type is None else (of_type, "id")
            ends.append(rows(data.store.node[key])[places] if key in data.store.node else places)
        # Of numbers GraphBolt makes rows of one.
        numbers = rows(data.store.edge["id" if name is None else (name, "id")]).reshape(-1)[ids[here] - first]
        pairs = zip(*(one.tolist() for one in ends), strict=True)
        found["" if name is None else ":".join(name)] = dict(zip(numbers.tolist(), pairs, strict=True))
    return found


def expected(names: list[str]) -> dict[str, dict[int, tuple[int, int]]]:
    return {name: {place: (src, dst) for place, (src, dst) in enumerate(EDGES[name])} for name in names}


@pytest.mark.parametrize("kind", CUT)
def test_a_graph_that_dgl_has_cut(tmp_path, kind):
    data = hr.convert(FILES / kind / f"{kind}.json", tmp_path / "data", progress=False)
    assert edges_of(data) == expected([""] if kind == "plain" else ["user:buys:item", "item:of:user"])
    assert data.notes["parts of DGL"] == {"num_parts": CUT[kind], "method": "random"}
    if kind == "plain":
        weights = rows(data.store.edge["weight"])
        assert torch.equal(weights, rows(data.store.edge["id"]) / 4)
        assert torch.equal(data.graph.edge_attrs["weight"], weights)
    else:
        assert torch.equal(rows(data.store.node["user", "x"])[:, 0], rows(data.store.node["user", "id"]) * 2.0)
        assert torch.equal(
            rows(data.store.edge[("user", "buys", "item"), "price"]),
            rows(data.store.edge[("user", "buys", "item"), "id"]).float(),
        )
        train = rows(data.store.node["user", "id"])[data.items["train"].ids["user"]]
        assert sorted(train.tolist()) == [0, 3, 6]


@pytest.mark.parametrize("kind", CUT)
def test_its_parts_are_those_of_dgl(tmp_path, kind):
    hr.convert(FILES / kind / f"{kind}.json", tmp_path / "data", progress=False)
    assert run("partition", tmp_path / "data", "--parts", CUT[kind], "--owners", "part") == 0
    parts = [hr.open_dataset(tmp_path / f"data/parts/owners-{CUT[kind]}", rank=part) for part in range(CUT[kind])]
    ranges = json.loads((FILES / kind / f"{kind}.json").read_text())
    sizes = {
        of: [sum(one[part][1] - one[part][0] for one in ranges[of].values()) for part in range(CUT[kind])]
        for of in ("node_map", "edge_map")
    }
    assert [len(part.graph.own_nodes) for part in parts] == sizes["node_map"]
    assert [part.graph.num_local_edges for part in parts] == sizes["edge_map"]


@pytest.mark.parametrize("kind", ["plain", "typed"])
def test_a_folder_that_graphbolt_has_preprocessed(tmp_path, kind):
    folder = FILES / f"graphbolt_{kind}" / "preprocessed"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        data = hr.convert(folder, tmp_path / "data", progress=False)
    told = [str(one.message) for one in warned if "GraphBolt 2.1 wrote them" in str(one.message)]
    assert len(told) == (kind == "typed")  # whose edges have weights
    assert edges_of(data) == expected([""] if kind == "plain" else ["user:buys:item", "item:of:user"])
    items = data.items["train"]
    ids, labels = (items.ids, items.labels) if kind == "plain" else (items.ids["user"], items.labels["user"])
    assert (ids.tolist(), labels.tolist()) == ([0, 1, 2, 3, 4], [0, 1, 0, 1, 0])
    assert data.notes["tasks"] == [{"name": "classes", "num_classes": 2}]
    # Edges have the ids of GraphBolt's sources.
    assert all(rows(one).reshape(-1).tolist() == [*range(one.num_rows)] for one in data.store.edge.values())


def copied(tmp_path: Path, name: str) -> Path:
    shutil.copytree(FILES / name, tmp_path / name)
    return tmp_path / name


class _Runs:
    """An object that would run a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch was-run",)


def test_no_object_is_unpickled(tmp_path, monkeypatch):
    folder = copied(tmp_path, "graphbolt_plain") / "preprocessed"
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile(folder / "fused_csc_sampling_graph.pt", "w") as archive:
        archive.writestr("graph/data.pkl", pickle.dumps(_Runs(), 2))
    with pytest.raises(hr.InputError, match=r"expected tensors, got posix\.system: it is not imported"):
        hr.convert(folder, tmp_path / "data", progress=False)
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda top: top.update(num_parts=3), "expected node_map of '_N' to be .* of each of 3 parts"),
        (lambda top: top["node_map"]["_N"].reverse(), "rows of _N/id in part 0"),
        (lambda top: top["edge_map"].update({"_N:_E:_N": [[0, 14], [15, 30]]}), "expected edge_map to be all ids"),
        (lambda top: top["part-1"].update(part_graph="../../typed/part0/graph.dgl"), "leads elsewhere"),
        (lambda top: top["part-1"].update(part_graph="part0/graph.dgl"), "each edge to be in a part"),
        (lambda top: top["part-1"].update(node_feats="part0/node_feat.dgl"), "rows of _N/id in part 1"),
        (lambda top: top["part-1"].pop("edge_feats"), "expected edge_feats to be str"),
        (lambda top: top["part-1"].update(part_graph="part1/node_feat.dgl"), "graphs as DGL 1.1 to 2.1 write them"),
    ],
)
def test_json_that_contradicts_its_files_is_refused(tmp_path, change, words):
    path = copied(tmp_path, "plain") / "plain.json"
    top = json.loads(path.read_text())
    change(top)
    path.write_text(json.dumps(top))
    with pytest.raises(hr.InputError, match=words):
        hr.convert(path, tmp_path / "data", progress=False)
    assert not (tmp_path / "data").exists()


FILES_TO_DAMAGE = [
    "plain/part0/graph.dgl",
    "typed/part1/node_feat.dgl",
    "graphbolt_plain/preprocessed/fused_csc_sampling_graph.pt",
    "graphbolt_typed/preprocessed/fused_csc_sampling_graph.pt",
]


@pytest.mark.parametrize("file", FILES_TO_DAMAGE)
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_files_are_refused_or_read(tmp_path_factory, file, data):
    name = file.split("/")[0]
    folder = copied(tmp_path_factory.mktemp("damaged"), name)
    path = folder.parent / file
    content = bytearray(path.read_bytes())
    first = 4096 if file.endswith("graph.dgl") else 0
    if data.draw(st.booleans(), label="shortened"):
        del content[data.draw(st.integers(0, len(content) - 1), label="size") :]
    else:
        for _ in range(data.draw(st.integers(1, 4), label="changes")):
            content[data.draw(st.integers(first, len(content) - 1), label="place")] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    source = folder / "preprocessed" if "graphbolt" in name else folder / f"{name}.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            hr.convert(source, folder.parent / "data", progress=False)
        except hr.InputError as error:
            assert str(error).startswith("convert: ")  # noqa: PT017 - the one of damage that is seen


def test_owners_of_something_else_are_refused(tmp_path, capsys):
    hr.convert(FILES / "typed/typed.json", tmp_path / "data", progress=False)
    for name, words in (
        ("x", "expected a feature of all nodes, of every type, that is one integer, among item.part, "),
        ("id", "expected parts below --parts 3 in --owners id, got 8; write --parts 9"),
    ):
        assert run("partition", tmp_path / "data", "--parts", 3, "--owners", name) == 2
        assert words in capsys.readouterr().err


def written(tmp_path: Path, pickled: bytes, *, packed: bool = False) -> Path:
    """A folder that GraphBolt has preprocessed, with another pickle in its graph."""
    folder = copied(tmp_path, "graphbolt_plain") / "preprocessed"
    how = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(folder / "fused_csc_sampling_graph.pt", "w", how) as archive:
        archive.writestr("graph/data.pkl", pickled)
    return folder


@pytest.mark.parametrize(
    ("pickled", "packed"),
    [
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x07\x00\x00\x00__doc__X\x01\x00\x00\x00xsb.", False),
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nN}X\x04\x00\x00\x00kindX\x01\x00\x00\x00xs\x86b.", False),
        (b"\x80\x02Nr\xff\xff\xff\xff.", False),  # a place for 2**32 objects
        (b"\x80\x02" + b"]" * (2 << 20) + b".", False),
        (b"\x80\x02" + b"]" * (2 << 20) + b".", True),
    ],
)
def test_pickles_change_nothing_and_take_no_memory(tmp_path, pickled, packed):
    folder = written(tmp_path, pickled, packed=packed)
    with pytest.raises(hr.InputError, match=r"expected a file of torch\.save in .*write it once more"):
        hr.convert(folder, tmp_path / "data", progress=False)


def test_counts_that_files_do_not_have_are_refused_before_they_take_memory(tmp_path):
    path = copied(tmp_path, "plain") / "plain.json"
    top = json.loads(path.read_text())
    top.update(num_edges=10**13, edge_map={"_N:_E:_N": [[0, 14], [14, 10**13]]})
    path.write_text(json.dumps(top))
    with pytest.raises(hr.InputError, match="expected 10000000000000 edges and 12 nodes in its parts, got"):
        hr.convert(path, tmp_path / "data", progress=False)


def test_a_feature_of_the_name_of_parts_is_not_lost(tmp_path):
    path = copied(tmp_path, "plain") / "plain.json"
    for part in (0, 1):
        file = path.parent / f"part{part}/node_feat.dgl"
        old, new = (len(name).to_bytes(8, "little") + name for name in (b"_N/id", b"_N/part"))
        assert old in file.read_bytes()
        file.write_bytes(file.read_bytes().replace(old, new))
    with pytest.raises(hr.InputError, match="expected no feature of nodes called 'part'"):
        hr.convert(path, tmp_path / "data", progress=False)
