"""metadata.yaml of GraphBolt as people have it: fields of their own, attributes beside features, numbers of nodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr

EDGES = np.array([[0, 1, 2], [1, 2, 0]])
NUM_NODES = 3


def folder(path, *, attributes="", features="", tasks="", edges="format: numpy\n    path: e.npy", **arrays):
    """A folder with a graph of three nodes and edges; entries are lines of YAML in braces."""

    def section(name, entries):
        return f"{name}:\n" + "".join(f"- {one}\n" for one in entries.splitlines()) if entries else ""

    path.mkdir()
    for name, array in {"e": EDGES, **arrays}.items():
        np.save(path / f"{name}.npy", array)
    of_graph = "".join(f"  {line}\n" for line in section("feature_data", attributes).splitlines())
    (path / "metadata.yaml").write_text(
        f"graph:\n  nodes:\n  - num: {NUM_NODES}\n  edges:\n  - {edges}\n{of_graph}"
        f"{section('feature_data', features)}{tasks}"
    )
    return path


def array(domain, name, file, more=""):
    return f"{{domain: {domain}, name: {name}, format: numpy, path: {file}.npy{more}}}"


def converted(source):
    data = hr.convert(source, source.with_name("out"), progress=False, overwrite=True)
    data.verify()
    return data


def rows(source):
    return source.read(torch.arange(NUM_NODES)).rows.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("src,dst\n0,1\n1,2\n", r"e\.csv, row 1: expected an integer of 64 bits in 'src', got 'src'"),
        ("0,1\n1,2\n" * 600 + "0,x\n", r"e\.csv, row 1201: expected an integer of 64 bits in 'dst', got 'x'"),
        ("0,1\n1,\n", "null"),
    ],
)
def test_ids_are_numbers_below_num(tmp_path, text, message):
    source = folder(tmp_path / "source", edges="format: csv\n    path: e.csv")
    (source / "e.csv").write_text(text)
    with pytest.raises(hr.InputError, match=message):
        converted(source)


def test_ids_with_zeros_in_front_are_numbers(tmp_path):
    source = folder(tmp_path / "source", edges="format: csv\n    path: e.csv")
    (source / "e.csv").write_text("00,01\n01,02\n")
    data = converted(source)
    assert (data.graph.num_nodes, data.graph.num_edges) == (NUM_NODES, 2)


def test_further_fields_of_features_are_in_the_notes(tmp_path):
    more = ", num_categories: 7, my_note: [a, b], num_classes: 2"
    features = f"{array('node', 'c', 'c', more)}\n{array('node', 'd', 'c')}"
    data = converted(folder(tmp_path / "source", features=features, c=np.arange(NUM_NODES)))
    fields = {"num_categories": 7, "my_note": ["a", "b"], "num_classes": 2}
    assert data.notes["features"] == [{"domain": "node", "name": "c", **fields}]


def test_further_fields_of_features_are_no_misspellings(tmp_path):
    source = folder(
        tmp_path / "source", features=array("node", "c", "c", ", num_categories: 7"), c=np.arange(NUM_NODES)
    )
    assert rows(converted(source).store.node["c"]) == [0, 1, 2]


@pytest.mark.parametrize("name", ["__timestamp__", "timestamp", "time"])
@pytest.mark.parametrize("of", ["attributes", "features"])
def test_timestamps_of_nodes_are_their_times(tmp_path, name, of):
    more = {of: array("node", name, "t")}
    data = converted(folder(tmp_path / "source", t=np.array([3, 1, 2]), **more))
    assert data.graph.node_attrs["time"].tolist() == [3, 1, 2]
    assert not list(data.store.node)


def test_timestamps_of_edges_are_their_times(tmp_path):
    data = converted(folder(tmp_path / "source", attributes=array("edge", "__timestamp__", "t"), t=np.array([3, 1, 2])))
    assert data.graph.edge_attrs["time"].tolist() == [3, 1, 2]


@pytest.mark.parametrize("name", ["w", "timestamp"])
def test_an_attribute_and_a_feature_of_edges_with_one_name(tmp_path, name):
    attributes, features = array("edge", name, "a"), array("edge", name, "f")
    data = converted(
        folder(tmp_path / "source", attributes=attributes, features=features, a=np.arange(3), f=np.arange(3) * 10)
    )
    assert data.graph.edge_attrs["time" if name == "timestamp" else name].tolist() == [0, 1, 2]
    assert rows(data.store.edge[name]) == [0, 10, 20]


def test_an_attribute_and_a_feature_of_nodes_with_one_name(tmp_path):
    """Times are attributes of nodes; all else is a feature, and two of one name are one, or refused."""
    both = {"attributes": array("node", "timestamp", "a"), "features": array("node", "timestamp", "f")}
    data = converted(folder(tmp_path / "time", a=np.arange(3), f=np.arange(3) * 10, **both))
    assert data.graph.node_attrs["time"].tolist() == [0, 1, 2]
    assert rows(data.store.node["timestamp"]) == [0, 10, 20]
    one = {"attributes": array("node", "x", "f"), "features": array("node", "x", "f")}
    assert rows(converted(folder(tmp_path / "one", f=np.arange(3), **one)).store.node["x"]) == [0, 1, 2]
    for domain, shape in (("node", (3,)), ("edge", (3, 2))):
        two = {"attributes": array(domain, "x", "a"), "features": array(domain, "x", "f")}
        source = folder(tmp_path / domain, a=np.ones(shape), f=np.ones(shape), **two)
        with pytest.raises(hr.InputError, match=f"features of {domain}s of different names, got 'x' from a.npy and f"):
            converted(source)


def test_arrays_in_fortran_order(tmp_path):
    wide = np.arange(6.0).reshape(3, 2)
    for name, edges in (("across", EDGES), ("along", EDGES.T)):
        source = folder(
            tmp_path / name,
            e=np.asfortranarray(edges),
            x=np.asfortranarray(wide),
            y=np.arange(3),
            w=np.asfortranarray(wide),
            features="\n".join((array("node", "x", "x"), array("node", "y", "y"), array("edge", "w", "w"))),
        )
        data = converted(source)
        assert data.graph.num_edges == 3
        assert sorted(zip(*(one.tolist() for one in EDGES), strict=True)) == sorted(edges_of(data.graph))
        assert rows(data.store.node["x"]) == rows(data.store.edge["w"]) == wide.tolist()
        assert rows(data.store.node["y"]) == [0, 1, 2]


def edges_of(graph):
    ends = torch.arange(graph.num_nodes).repeat_interleave(graph.indptr.diff())
    return list(zip(graph.indices.tolist(), ends.tolist(), strict=True))


def test_further_columns_of_sets_are_named(tmp_path):
    data = "".join(f"    - {{name: {name}, format: numpy, path: s.npy}}\n" for name in ("seeds", "labels", "query_id"))
    source = folder(tmp_path / "source", tasks=f"tasks:\n- train_set:\n  - data:\n{data}", s=np.array([2, 0]))
    with pytest.warns(UserWarning, match=r"train_set\[0\]: left out 'query_id'; items have seeds, labels and times"):
        items = converted(source).items["train"]
    assert (items.ids.tolist(), items.labels.tolist()) == ([2, 0], [2, 0])


@pytest.mark.parametrize("kind", ["toml", "folder", "mag240m"])
def test_arrays_in_fortran_order_of_other_sources(tmp_path, kind):
    source = tmp_path / "source"
    places = {"mag240m": ("processed/a___to___a/edge_index", "processed/a/x")}.get(kind, ("edge_index", "x"))
    for place, array_ in zip(places, (EDGES, np.arange(6.0).reshape(3, 2)), strict=True):
        (source / place).parent.mkdir(parents=True, exist_ok=True)
        np.save(source / f"{place}.npy", np.asfortranarray(array_))
    if kind == "toml":
        (source / "g.toml").write_text(
            '[nodes]\ncolumns = { x = "x.npy" }\nfeatures = "x"\n'
            '[edges]\ncolumns = { src = ["edge_index.npy", 0], dst = ["edge_index.npy", 1] }\n'
        )
    data = converted(source)
    assert edges_of(data.graph) == [(2, 0), (0, 1), (1, 2)]
    assert rows(next(iter(data.store.node.values()))) == [[0, 1], [2, 3], [4, 5]]
