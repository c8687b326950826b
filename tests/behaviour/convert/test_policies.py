"""What is done with odd rows, and what a description may say."""

import json

import numpy as np
import pytest
import torch
from table_files import Description, EdgeTable, Items, NodeTable, Options, Table, converted

import headrace as hr

BUYS = ("user", "buys", "item")


def edges_of(src, dst, name="edges", **more):
    return Table(name, {"src": src, "dst": dst, **more})


def opened(tmp_path, description, **options):
    """The data set, and what the conversion has counted."""
    data = converted(description, tmp_path, **options)
    return data, data.notes["counts"]


def masked(name, columns, nulls):
    """A table some of whose columns have nulls."""
    return Table(name, {one: np.ma.MaskedArray(rows, nulls.get(one, False)) for one, rows in columns.items()})


def texts(*names):
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    return np.array(names, object)


def test_node_numbers_without_a_table_of_nodes(tmp_path):
    src, dst = np.array([0, 4, 2]), np.array([3, 3, 0])
    data, counts = opened(tmp_path, Description([EdgeTable(edges_of(src, dst))]))
    expected = hr.Graph.from_coo(src, dst)
    assert data.graph.content_digest() == expected.content_digest()
    assert data.graph.num_nodes == 5
    assert counts == {}
    # Ids that are numbers of nodes are themselves, in both directions.
    assert not data.manifest.ids
    assert data.ids["node"].external([3, 0]).tolist() == data.ids["node"].ours([3, 0]).tolist() == [3, 0]
    assert len(data.ids["node"]) == 5
    for read in (data.ids["node"].external, data.ids["node"].ours):
        with pytest.raises(hr.InputError, match=r"no node with the id 5.*\[0, 5\)"):
            read([0, 5])
    data, _ = opened(tmp_path, Description([EdgeTable(edges_of(src, dst))], [NodeTable(num_nodes=9)]))
    assert data.graph.num_nodes == 9


@pytest.mark.parametrize("kind", ["integers", "texts"])
def test_keys_without_a_table_of_nodes_are_in_ascending_order(tmp_path, kind):
    src, dst = np.array([50, -3, 50]), np.array([7, 7, 11])
    order = [-3, 7, 11, 50]
    if kind == "texts":
        src, dst, order = texts("ü", "b", "ü"), texts("bb", "bb", "Z"), ["Z", "b", "bb", "ü"]
    data, _ = opened(tmp_path, Description([EdgeTable(edges_of(src, dst))], [NodeTable(external=True)]))
    external = data.ids["node"].external([0, 1, 2, 3])
    assert (external if kind == "texts" else external.tolist()) == order
    ids = [[order.index(one) for one in side] for side in (src.tolist(), dst.tolist())]
    assert data.graph.content_digest() == hr.Graph.from_coo(*ids, num_nodes=4).content_digest()
    assert data.ids["node"].ours(src.tolist()).tolist() == ids[0]


@pytest.mark.parametrize("kind", ["integers", "texts"])
def test_unknown_nodes_are_created_behind_the_others(tmp_path, kind):
    keys, src, dst = np.array([30, 10]), np.array([10, 99, 30]), np.array([5, 30, 99])
    if kind == "texts":
        keys, src, dst = (texts(*map("{:02}".format, one)) for one in (keys, src, dst))
    nodes = Table("nodes", {"id": keys, "x": np.array([1.0, 2.0]), "y": np.array([3, 4]), "n": np.array([1, 2])})
    node = NodeTable(table=nodes, id="id", features={"x": ["x", "x"], "n": "n"}, labels={"y": "y"})
    description = Description([EdgeTable(edges_of(src, dst))], [node], options=Options(unknown_ids="create"))
    data, counts = opened(tmp_path, description)
    found = data.ids["node"].external(range(4))
    assert [int(one) for one in found] == [30, 10, 5, 99]
    assert counts == {"nodes of node added": 2}
    x = data.store.node["x"].read(torch.arange(4)).rows
    assert x[:2].tolist() == [[1, 1], [2, 2]]
    assert bool(x[2:].isnan().all())
    assert data.store.node["y"].read(torch.arange(4)).rows.tolist() == [3, 4, -100, -100]
    assert data.store.node["n"].read(torch.arange(4)).rows.tolist() == [1, 2, 0, 0]
    with pytest.raises(hr.InputError, match=r"edges.parquet, row 0: there is no node with the id '?0?5'? of 'dst'"):
        opened(tmp_path, Description([EdgeTable(edges_of(src, dst))], [node]))


@pytest.mark.parametrize("kind", ["integers", "texts"])
def test_ids_are_there_once_and_not_null(tmp_path, kind):
    keys = np.array([3, 1, 4, 1, 3]) if kind == "integers" else texts("3", "1", "4", "1", "3")
    edge = EdgeTable(edges_of(keys[:1], keys[:1]))
    nodes = Table("nodes", {"id": keys})
    with pytest.raises(hr.InputError, match=r"nodes.*, row [34]: expected each id once in 'id', got '?[13]'? again"):
        opened(tmp_path, Description([edge], [NodeTable(table=nodes, id="id")]))
    if kind == "integers":
        twice = Table("nodes", {"id": keys[:4]})
        with pytest.raises(hr.InputError, match=r"got 1 again, which is in .*nodes.parquet, row 1 \(1 such row\)"):
            opened(tmp_path, Description([edge], [NodeTable(table=twice, id="id")]))
    if kind == "texts":
        nodes = Table("nodes", {"id": np.array(["1", "3", None], object)})
    else:
        nodes = masked("nodes", {"id": np.array([1, 3, 0])}, {"id": np.array([False, False, True])})
    with pytest.raises(hr.InputError, match=r"nodes.parquet, row 2: expected an id of a node in 'id', got null"):
        opened(tmp_path, Description([edge], [NodeTable(table=nodes, id="id")]))


def test_null_ends_are_unknown(tmp_path):
    table = masked("edges", {"src": np.array([0, 1]), "dst": np.array([1, 0])}, {"src": np.array([False, True])})
    node = NodeTable(num_nodes=2)
    message = (
        r"edges.*, row 1: there is no node with the id null of 'src'; fill it in, or pass unknown_ids='drop' .*out.$"
    )
    for policy in ("refuse", "create"):
        with pytest.raises(hr.InputError, match=message):
            opened(tmp_path, Description([EdgeTable(table)], [node], options=Options(unknown_ids=policy)))
    with pytest.warns(UserWarning, match="1 of 2 rows of .*edges.parquet are left out"):
        data, counts = opened(tmp_path, Description([EdgeTable(table)], [node], options=Options(unknown_ids="drop")))
    assert data.graph.num_edges == 1
    assert counts == {"edges to unknown nodes left out": 1}


def test_a_graph_without_types_with_reverse_edges_and_without_repeats(tmp_path):
    src, dst = np.array([0, 1, 0, 2, 0]), np.array([1, 0, 1, 2, 1])
    table = edges_of(src, dst, f=np.arange(5), w=np.arange(5.0))
    edge = EdgeTable(table, weight="w", features={"f": "f"})
    options = Options(reverse=True, duplicate_edges="drop", loops="drop")
    data, counts = opened(tmp_path, Description([edge], options=options))
    expected = hr.Graph.from_coo(
        [0, 1], [1, 0], num_nodes=3, edge_attrs={"weight": np.array([0.0, 1.0])}
    ).with_reverse()
    assert data.graph.content_digest() == expected.content_digest()
    assert data.store.edge["f"].read(torch.arange(4)).rows.tolist() == [0, 1, 0, 1]
    assert counts == {"edges that are loops left out": 1, "edges that repeat another one, left out": 2}
    assert data.notes["counts"] == counts
    assert data.notes["options"]["loops"] == "drop"


def test_items_of_tables_masks_and_columns(tmp_path):
    users = Table("users", {"id": np.array([7, 5, 9]), "train": np.array([True, False, True])})
    table = edges_of(
        np.array([5, 7, 9]),
        np.array([1, 0, 1]),
        part=np.array(["train", None, "test"], object),
        label=np.array([1.0, 2, 3]),
        t=np.array([4, 5, 6]),
    )
    pairs = Table("pairs", {"u": np.array([9, 9, 1]), "i": np.array([1, 0, 0]), "label": np.array([1, 0, 0])})
    some = Table("some", {"id": np.array([5, 7]), "t": np.array([1.5, 2.5])})
    description = Description(
        [EdgeTable(table, BUYS, labels={"y": "label"}, time="t", split="part")],
        [NodeTable("user", users, "id", splits={"mine": "train"}), NodeTable("item", num_nodes=2)],
        [
            Items("pairs", pairs, ("u", "i"), BUYS, labels="label"),
            Items("some", some, "id", "user", time="t"),
        ],
        Options(unknown_ids="drop"),
    )
    data, counts = opened(tmp_path, description)
    items = data.items
    assert items["mine"].ids["user"].tolist() == [0, 2]
    assert items["train"].ids[BUYS].tolist() == [[1, 1]]
    assert items["test"].ids[BUYS].tolist() == [[2, 1]]
    assert items["test"].labels[BUYS].tolist() == [3]
    assert items["test"].times[BUYS].tolist() == [6]
    assert items["pairs"].ids[BUYS].tolist() == [[2, 1], [2, 0]]
    assert items["pairs"].labels[BUYS].tolist() == [1, 0]
    assert items["some"].ids["user"].tolist() == [1, 0]
    assert items["some"].times["user"].tolist() == [1.5, 2.5]
    assert counts == {"items pairs of unknown nodes left out": 1}
    plan = hr.ItemSampler(items["pairs"]).sample_neighbor(data.graph, [2])
    assert sum(len(batch.seeds) for batch in plan.loader()) > 0


def test_labels_that_are_null_or_nan(tmp_path):
    null = np.array([False, True])
    nodes = masked("nodes", {"y": np.array([1, 0]), "z": np.array([1.5, 0])}, {"y": null, "z": null})
    edge = EdgeTable(edges_of(np.array([0]), np.array([1])))
    data, _ = opened(tmp_path, Description([edge], [NodeTable(table=nodes, labels={"y": "y", "z": "z"})]))
    assert data.store.node["y"].read(torch.arange(2)).rows.tolist() == [1, -100]
    assert data.store.node["z"].read(torch.arange(2)).rows.isnan().tolist() == [False, True]
    with pytest.raises(hr.InputError, match=r"nodes.parquet, row 1: expected a number in 'y' for a feature, got null"):
        opened(tmp_path, Description([edge], [NodeTable(table=nodes, features={"y": "y"})]))


def test_nodes_without_a_time(tmp_path):
    nodes = masked("nodes", {"t": np.array([5, 0], np.int32)}, {"t": np.array([False, True])})
    edge = EdgeTable(edges_of(np.array([0]), np.array([1])))
    with pytest.raises(hr.InputError, match=r"nodes.parquet, row 1: expected a time in 't', got null"):
        opened(tmp_path, Description([edge], [NodeTable(table=nodes, time="t")]))
    options = Options(null_times="earliest", time_unit="s")
    data, _ = opened(tmp_path, Description([edge], [NodeTable(table=nodes, time="t")], options=options))
    assert data.graph.node_attrs["time"].tolist() == [5, torch.iinfo(torch.int64).min]
    assert data.notes["options"]["time_unit"] == "s"


def test_a_conversion_gives_the_same_manifest_again(tmp_path):
    """It names files, and no times."""
    description = Description([EdgeTable(edges_of(np.array([0]), np.array([1])))])
    data, _ = opened(tmp_path, description)
    text = (tmp_path / "data" / "dataset.json").read_text()
    assert json.loads(text)["notes"]["sources"][0]["files"][0]["file"] == "edges.parquet"
    with pytest.raises(hr.InputError, match="expected nothing at"):
        opened(tmp_path, description, overwrite=False)
    assert data.graph.num_nodes == 2
    hr.convert(tmp_path / "tables" / "tables.toml", tmp_path / "again", progress=False)
    assert (tmp_path / "again" / "dataset.json").read_text() == text


@pytest.mark.filterwarnings("ignore:convert. .* rows of .* are left out")
@pytest.mark.parametrize("policy", ["refuse", "drop"])
def test_both_ends_of_one_column_are_looked_up_in_their_own_types(tmp_path, policy):
    """An id that one of the types has, and not the other one."""
    nodes = [
        NodeTable("user", Table("users", {"id": np.array([5, 7])}), "id"),
        NodeTable("item", Table("items", {"id": np.array([5, 9])}), "id"),
    ]
    table = Table("same", {"id": np.array([5, 9, 7])})
    description = Description([EdgeTable(table, ("user", "is", "item"), "id", "id")], nodes)
    description = Description(description.edges, nodes, options=Options(unknown_ids=policy))
    if policy == "refuse":
        with pytest.raises(hr.InputError, match="there is no node with the id 9 of 'id'"):
            opened(tmp_path, description)
        return
    data, counts = opened(tmp_path, description)
    assert data.graph.num_edges == 1
    assert counts == {"edges of user is item to unknown nodes left out": 2}


def test_items_of_several_types_have_labels_all_or_none(tmp_path):
    users = Table("users", {"id": np.array([5, 7]), "part": np.array(["train", "train"], object)})
    labelled = Table("labelled", {"id": np.array([0, 1]), "label": np.array([1, 2])})
    description = Description(
        [EdgeTable(edges_of(np.array([5]), np.array([1])), BUYS)],
        [NodeTable("user", users, "id", splits="part"), NodeTable("item", num_nodes=2)],
        [Items("train", labelled, "id", "item", labels="label")],
    )
    with pytest.raises(
        hr.InputError, match="items 'train': expected labels of all types or of none, got none of 'user'"
    ):
        opened(tmp_path, description)


def test_ids_with_gaps_are_no_numbers_of_nodes(tmp_path):
    table = edges_of(np.array([0, 1]), np.array([1, 3_000_000_000]))
    with pytest.raises(hr.InputError, match=r"numbers of nodes, got 3000000000.*external"):
        opened(tmp_path, Description([EdgeTable(table)]))
    data, _ = opened(tmp_path, Description([EdgeTable(table)], [NodeTable(external=True)]))
    assert data.graph.num_nodes == 3


def test_times_of_two_units_are_joined_in_the_finest(tmp_path):
    pa = pytest.importorskip("pyarrow")
    edges: list[EdgeTable] = []
    users = [NodeTable("user", num_nodes=2)]
    for number, unit in enumerate(("ms", "us")):
        times = pa.array([10**12, 10**12 + 1], pa.timestamp(unit))
        table = edges_of(np.array([0, 1]), np.array([1, 0]), t=times, name=unit)
        edges.append(EdgeTable(table, ("user", f"r{number}", "user"), time="t"))
    data, _ = opened(tmp_path, Description(edges, users))
    assert data.graph.edge_attrs["time"].tolist() == [10**15, 10**15 + 1_000, 10**12, 10**12 + 1]
    data, _ = opened(tmp_path, Description(edges[:1], users))
    assert data.graph.edge_attrs["time"].tolist() == [10**12, 10**12 + 1]


@pytest.mark.parametrize("pair", [(8, 1), (1, 8)])
def test_the_largest_number_may_be_at_either_end_of_a_pair(tmp_path, pair):
    items = Items("some", Table("items", {"a": np.array([pair[0]]), "b": np.array([pair[1]])}), ("a", "b"))
    edge = EdgeTable(edges_of(np.array([0]), np.array([1])))
    data, _ = opened(tmp_path, Description([edge], items=[items], options=Options(unknown_ids="create")))
    assert data.graph.num_nodes == 9
