"""Folders as other libraries have them: batches of the data set are those of the objects that they were made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from source_folders import (
    BUYS,
    ITEMS,
    KNOWS,
    NUM_EDGES,
    NUM_NODES,
    USERS,
    TypedWorld,
    World,
    arrays,
    dgl_csv,
    gconstruct,
    graphbolt,
    graphbolt_typed,
    mag240m,
    ogb,
    ogb_binary,
    ogb_typed,
    toml,
)
from stopped import stop_late

import headrace as hr

from contracts import digests


def converted(source: Path, out: Path) -> hr.Dataset:
    data = hr.convert(source, out, progress=False)
    data.verify()
    return data


def batches(graph, store, items, *, node, labels, edge=()):
    sampler = hr.ItemSampler(items, batch_size=4, shuffle=True, seed=3)
    return digests(
        sampler.sample_neighbor(graph, [3, 2]).fetch_feature(store, node=node, edge=edge, labels=labels).loader()
    )


def assert_plain(data: hr.Dataset, *, edge: tuple[str, ...] = (), graph: hr.Graph | None = None) -> None:
    world = World()
    graph = world.graph if graph is None else graph
    assert set(data.items) == set(world.splits)
    for name, ids in world.splits.items():
        got = batches(data.graph, data.store, data.items[name], node=["x"], labels="y", edge=edge)
        store = hr.FeatureStore(dict(world.store.node), {one: world.store.edge[one] for one in edge})
        assert got == batches(graph, store, ids, node=["x"], labels="y", edge=edge)


def assert_typed(data: hr.Dataset) -> None:
    world = TypedWorld()
    wanted = {"node": [("user", "x"), ("item", "x")], "labels": {"item": "y"}}
    reordered = hr.Graph.from_coo(
        {name: world.edges[name] for name in data.graph.edge_types.names},
        num_nodes={name: {"user": USERS, "item": ITEMS}[name] for name in data.graph.node_types.names},
    )
    got = batches(data.graph, data.store, data.items["train"], **wanted)
    assert got == batches(reordered, world.store, {"item": world.train}, **wanted)


@pytest.mark.parametrize("write", [ogb, graphbolt])
def test_graphs_without_types(write, tmp_path):
    source = tmp_path / ("ogbn_arxiv" if write is ogb else "source")  # OGB's data sets are known by their names
    write(source)
    data = converted(source, tmp_path / "out")
    if write is ogb:
        assert torch.equal(data.store.edge["x"].read(torch.arange(NUM_EDGES)).rows, torch.from_numpy(World().wide))
    assert_plain(data, edge=("wide",) if write is graphbolt else ())


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_ogb_in_binary_form(save, tmp_path):
    ogb_binary(tmp_path / "source", save)
    data = converted(tmp_path / "source", tmp_path / "out")
    assert torch.equal(data.graph.node_attrs["time"], torch.arange(NUM_NODES))
    labels = data.store.node["y"].read(torch.arange(NUM_NODES)).rows
    assert labels.flatten().tolist() == World().y.tolist()
    world = World()
    for name, ids in world.splits.items():
        assert data.items[name].ids.tolist() == ids.tolist()
    got = [batch.n_id.tolist() for batch in hr.ItemSampler(9).sample_neighbor(data.graph, [-1]).loader()]
    assert got == [batch.n_id.tolist() for batch in hr.ItemSampler(9).sample_neighbor(world.graph, [-1]).loader()]


def test_dgl(tmp_path):
    dgl_csv(tmp_path / "source")
    data = converted(tmp_path / "source", tmp_path / "out")
    world = World()
    for name, ids in world.splits.items():
        got = batches(data.graph, data.store, data.items[name], node=["x"], labels="label", edge=["wide"])
        store = hr.FeatureStore({"x": world.x, "label": world.y}, {"wide": world.wide})
        assert got == batches(world.graph, store, ids, node=["x"], labels="label", edge=["wide"])


@pytest.mark.parametrize("write", [ogb_typed, graphbolt_typed, gconstruct, toml])
def test_graphs_with_types(write, tmp_path):
    write(tmp_path / "source")
    source = tmp_path / "source" / "build.json" if write is gconstruct else tmp_path / "source"
    assert_typed(converted(source, tmp_path / "out"))


def test_mag240m(tmp_path):
    mag240m(tmp_path / "source")
    data = converted(tmp_path / "source", tmp_path / "out")
    world = TypedWorld()
    rows = data.store.node["paper", "x"].read(torch.arange(ITEMS)).rows
    assert torch.equal(rows, torch.from_numpy(world.x["item"].astype(np.float16)))
    assert data.items["train"].ids["paper"].tolist() == world.train.tolist()
    labels = data.store.node["paper", "y"].read(torch.arange(5, ITEMS)).rows
    assert labels.tolist() == world.y[5:].tolist()


@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("csc", [False, True])
def test_arrays(archive, csc, tmp_path):
    data = converted(arrays(tmp_path / "source", archive=archive, csc=csc), tmp_path / "out")
    world = World()
    order = np.argsort(world.edges[1], kind="stable")
    indptr = np.searchsorted(world.edges[1][order], np.arange(NUM_NODES + 1))
    assert_plain(data, graph=hr.Graph.from_csc(indptr, world.edges[0][order]) if csc else None)
    assert data.graph.edge_attrs_csc["edge_weight"].tolist() == world.weight[order].tolist()


def test_a_conversion_does_not_go_on_with_other_columns(tmp_path):
    """One that was stopped behind a pass, with the ends of edges the other way round, begins from the start."""
    toml(tmp_path / "source")
    stop_late(lambda out: converted(tmp_path / "source", out), tmp_path / "out")
    assert (tmp_path / ".out.converting").exists()
    edit(
        tmp_path / "source/graph.toml",
        'src = ["knows.npy", 0], dst = ["knows.npy", 1]',
        'src = ["knows.npy", 1], dst = ["knows.npy", 0]',
    )
    data = converted(tmp_path / "source", tmp_path / "out")
    world = TypedWorld()
    edges = {BUYS: world.edges[BUYS], KNOWS: world.edges[KNOWS][[1, 0]]}
    expected = hr.Graph.from_coo(edges, num_nodes={"user": USERS, "item": ITEMS})
    assert torch.equal(data.graph.indices, expected.indices)


class Bomb:
    """What runs code when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("executed"),)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("write", "file", "old", "new", "message"),
    [
        (
            graphbolt,
            "metadata.yaml",
            "format: numpy\n      path: data/edges.npy",
            "format: torch\n      path: e.pt",
            "Python objects",
        ),
        (graphbolt, "metadata.yaml", "path: data/x.npy", "path: ../x.npy", "below"),
        (graphbolt, "metadata.yaml", "path: data/x.npy", "path: /etc/passwd", "below"),
        (graphbolt, "metadata.yaml", "path: data/x.npy", "path: data/z.npy", "z.npy"),
        (graphbolt, "metadata.yaml", "num: 40", "num: forty", "expected num to be int, got 'forty'"),
        (graphbolt, "metadata.yaml", "num: 40", "num: 41", "41"),
        (graphbolt, "metadata.yaml", "edges:", "edgse:", "did you mean edges"),
        (graphbolt, "metadata.yaml", "name: seeds", "name: negative_srcs", "sample_uniform_negative"),
        (graphbolt, "metadata.yaml", "dataset_name: plain", "dataset_name: !!python/object:os.system x", "line 1"),
        (graphbolt, "metadata.yaml", "domain: node", "domain: graph", "nodes or edges"),
        (dgl_csv, "meta.yaml", "file_name: edges.csv", "file_nam: edges.csv", "did you mean file_name"),
        (dgl_csv, "meta.yaml", "file_name: edges.csv", "file_name: ../edges.csv", "edges.csv"),
        (dgl_csv, "meta.yaml", "dataset_name", "separator: '\"'\ndataset_name", "separator without quotes"),
        (dgl_csv, "meta.yaml", "dataset_name", "graph_data: {file_name: g.csv}\ndataset_name", "of many"),
        (
            gconstruct,
            "build.json",
            '"feature_name": "x"',
            '"feature_name": "x", "transform": {"name": "rank_gauss"}',
            "'rank_gauss'",
        ),
        (
            gconstruct,
            "build.json",
            '"label_col": "y"',
            '"label_col": "y", "split_pct": [0.8, 0.1, 0.1]',
            "hr.split_nodes",
        ),
        (gconstruct, "build.json", '"source_id_col": "s"', '"source_id_col": "z"', "no column 'z'"),
        (toml, "graph.toml", "features", "featuers", "did you mean features"),
        (toml, "graph.toml", "[nodes.item]", "[node.item]", "did you mean nodes"),
        (toml, "graph.toml", "user_x.npy", "../user_x.npy", "user_x.npy"),
        (toml, "graph.toml", "user,buys,item", "user,buys", "expected an edge type"),
        (toml, "graph.toml", 'labels = "y"', 'labels = "z"', "has no column 'z'"),
        (toml, "graph.toml", 'labels = "y"', "labels = ", "expected TOML"),
        (toml, "graph.toml", "[items.train]", '[options]\nloops = "dorp"\n[items.train]', "'dorp'"),
        (toml, "graph.toml", "[items.train]", '[options]\nlopos = "drop"\n[items.train]', "did you mean loops"),
    ],
)
def test_what_is_wrong_is_named(write, file, old, new, message, tmp_path):
    write(tmp_path / "source")
    (tmp_path / "x.npy").write_bytes(b"outside")
    edit(tmp_path / "source" / file, old, new)
    source = tmp_path / "source" / (file if file.endswith("json") else "")
    with pytest.raises(hr.InputError, match=message):
        converted(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_pickles_are_refused_with_what_to_write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ogb(tmp_path / "source")
    split = tmp_path / "source/split/time"
    for file in split.glob("*.csv.gz"):
        file.unlink()
    torch.save(Bomb(), split / "split_dict.pt")
    with pytest.raises(hr.InputError, match=r"split_dict.pt, which holds Python objects.*numpy.savetxt"):
        converted(tmp_path / "source", tmp_path / "out")
    np.save(tmp_path / "source/x.npy", np.array([Bomb()] * NUM_NODES, dtype=object), allow_pickle=True)
    (tmp_path / "source/x.toml").write_text('[edges]\ncolumns = { src = "x.npy", dst = "x.npy" }')
    with pytest.raises(hr.InputError, match=r"x\.npy"):
        converted(tmp_path / "source", tmp_path / "out")
    assert not (tmp_path / "executed").exists()


def test_links_to_outside_are_refused(tmp_path):
    graphbolt(tmp_path / "source")
    target = tmp_path / "outside.npy"
    (tmp_path / "source/data/x.npy").rename(target)
    (tmp_path / "source/data/x.npy").symlink_to(target)
    with pytest.raises(hr.InputError, match="leads elsewhere"):
        converted(tmp_path / "source", tmp_path / "out")


@pytest.mark.parametrize("name", ["none", "a.xlsx", "empty"])
def test_sources_of_no_format_are_refused(name, tmp_path):
    (tmp_path / "a.xlsx").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(hr.InputError, match="convert: expected"):
        hr.convert(tmp_path / name, tmp_path / "out", progress=False)
