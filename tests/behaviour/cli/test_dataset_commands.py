"""Commands on data sets: what they print is in the data set, and bad arguments take one line."""

from __future__ import annotations

import shutil

import pytest
import torch
from shell import answered, run
from small_datasets import BUYS, LIKES, saved

import headrace as hr


def test_info(data, capsys):
    assert run("info", data.path) == 0
    assert data.info() in capsys.readouterr().out
    fields = answered(capsys, "info", data.path)
    assert (fields["num_nodes"], fields["num_edges"]) == (data.graph.num_nodes, data.graph.num_edges)
    assert set(fields["items"]) == set(data.items)
    assert fields["bytes"] > 0
    assert fields["parts"] == []


def test_info_names_parts(plain, capsys):
    assert run("partition", plain.path, "--parts", 2) == 0
    capsys.readouterr()
    assert answered(capsys, "info", plain.path)["parts"] == ["parts/hash-2"]
    assert hr.open_dataset(plain.path / "parts/hash-2", rank=0).graph.num_nodes == 40


def test_head_of_a_graph_without_types(plain, capsys):
    found = answered(capsys, "head", plain.path, "--count", 3)
    nodes = found["nodes"]["node"]
    assert [row["id"] for row in nodes] == plain.ids["node"].external([0, 1, 2])
    rows = plain.store.node["x"].read(torch.arange(3)).rows
    torch.testing.assert_close(torch.tensor([row["x"] for row in nodes]), rows, rtol=1e-5, atol=0)
    assert [row["time"] for row in nodes] == [0, 1, 2]
    graph = plain.graph
    for place, row in enumerate(found["edges"]["edge"]):
        destination = int((graph.indptr <= place).sum()) - 1
        assert row["edge"] == int(graph.edge_ids[place])
        assert [row["source"], row["destination"]] == plain.ids["node"].external(
            [int(graph.indices[place]), destination]
        )
        assert row["e"] == row["edge"]
        assert row["weight"] == pytest.approx(float(graph.edge_attrs_csc["weight"][place]), rel=1e-5)
    train = plain.items["train"]
    assert [row["id"] for row in found["items"]["train of node"]] == plain.ids["node"].external(train.ids[:3])
    assert [row["label"] for row in found["items"]["train of node"]] == train.labels[:3].tolist()
    assert run("head", plain.path) == 0
    printed = capsys.readouterr().out
    assert "nodes of node:" in printed
    assert "edges of edge, in the order of their destinations:" in printed


def test_head_of_what_has_no_time(tmp_path, capsys):
    least = torch.iinfo(torch.int64).min
    graph = hr.Graph.from_coo([0, 1], [1, 0], node_attrs={"time": torch.tensor([least, 3])})
    items = {"a": hr.Items([0, 1], None, torch.tensor([least, 3])), "b": hr.Items([0], None, [-torch.inf])}
    store = hr.FeatureStore(node={"x": torch.tensor([least, 1])})
    hr.save_dataset(tmp_path / "set", graph, store, items=items, progress=False)
    found = answered(capsys, "head", tmp_path / "set")
    assert found["nodes"]["node"] == [{"id": 0, "time": None, "x": least}, {"id": 1, "time": 3, "x": 1}]
    assert [row["time"] for row in found["items"]["a of node"]] == [None, 3]
    assert [row["time"] for row in found["items"]["b of node"]] == [None]
    assert run("head", tmp_path / "set") == 0
    assert "a of node:\n  id  time\n  0   none\n  1   3\n" in capsys.readouterr().out


def test_head_of_types(typed, capsys):
    found = answered(capsys, "head", typed.path)
    assert set(found["nodes"]) == {"user", "item"}
    assert [row["id"] for row in found["nodes"]["item"]] == [33, 30, 27, 24, 21]
    assert [row["id"] for row in found["nodes"]["user"]] == [0, 1, 2, 3, 4]
    source, destination = typed.graph.edge_types, typed.graph
    for name in (BUYS, LIKES):
        rows = found["edges"][",".join(name)]
        assert len(rows) == 5
        for row in rows:
            place = int((destination.edge_ids == source.id_range(name).start + row["edge"]).nonzero())
            node = int(destination.indices[place]) - destination.node_types.id_range(name[0]).start
            assert row["source"] == (node if name[0] == "user" else 33 - 3 * node)
    pairs = found["items"]["train of user,buys,item"]
    expected = typed.items["train"].ids[BUYS][:5]
    assert [(row["source"], 33 - row["destination"]) for row in pairs] == [(a, 3 * b) for a, b in expected.tolist()]
    assert set(answered(capsys, "head", typed.path, "--type", "user")["nodes"]) == {"user"}


def test_verify(data, capsys):
    assert run("verify", data.path) == 0
    assert "are as they were written" in capsys.readouterr().out
    assert answered(capsys, "verify", data.path)["without_checksum"] == []
    file = data.path / "graph.indices.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert run("verify", data.path) == 2
    assert "graph.indices.npy" in capsys.readouterr().err


def test_info_and_verify_of_parts(plain, capsys):
    """Those that are here, of all that there are."""
    folder = plain.path / "parts/range-3"
    assert run("partition", plain.path, "--parts", 3, "--method", "range") == 0
    capsys.readouterr()
    found = answered(capsys, "info", folder)
    assert (found["num_parts"], found["num_nodes"]) == (3, plain.graph.num_nodes)
    assert sum(one["num_edges"] for one in found["parts"]) == plain.graph.num_edges
    assert run("info", folder) == 0
    sizes = [one["num_own"] for one in found["parts"]]
    printed = capsys.readouterr().out
    assert all(f"part-{part}: {size:,} nodes" in printed for part, size in enumerate(sizes))
    assert answered(capsys, "verify", folder)["parts"] == ["part-0", "part-1", "part-2"]
    assert answered(capsys, "verify", folder / "part-1")["parts"] == ["part-1"]
    for path, kind in ((folder, "the parts of one"), (folder / "part-1", "a part of one")):
        assert run("head", path) == 2
        assert f"expected a data set, got {kind}" in capsys.readouterr().err
    (folder / "part-2/dataset.json").unlink()  # half of it is here
    assert run("verify", folder) == 2
    assert "expected part 2, that of rank 2, but there is no" in capsys.readouterr().err
    shutil.rmtree(folder / "part-2")
    assert run("verify", folder) == 0
    printed = capsys.readouterr().out
    assert "are as they were written" in printed
    assert "not here: part-2" in printed
    file = folder / "part-0/node.x.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert run("verify", folder) == 2
    assert "part-0/node.x.npy" in capsys.readouterr().err
    shared = next(folder.glob("items.*.npy"))
    shared.write_bytes(shared.read_bytes()[:-1] + b"\x7f")
    for part in ("part-0", "part-1"):
        shutil.rmtree(folder / part)
    assert run("verify", folder) == 2
    assert shared.name in capsys.readouterr().err


def test_explain_reorder_and_partition_in_json(typed, tmp_path, capsys):
    found = answered(capsys, "explain", typed.path, "--fanouts", "3", "--batch-size", 4, "--measure", 2)
    assert found["items"] == "train"
    assert found["explain"][0].startswith("plan that runs, on")
    assert found["batches"] == found["stats"]["sample_neighbor"]["batches"] == 2
    assert set(answered(capsys, "explain", typed.path)) == {"items", "explain"}
    graph = typed.graph
    found = answered(capsys, "reorder", typed.path, tmp_path / "out", "--by", "pagerank")
    expected = {"folder": str(tmp_path / "out"), "by": "pagerank", "removed": []}
    assert found == {**expected, "num_nodes": graph.num_nodes, "num_edges": graph.num_edges}
    found = answered(capsys, "partition", typed.path, "--parts", 2, "--method", "range")
    assert found["folder"] == str(typed.path / "parts" / "range-2")
    assert sum(found["parts"]["nodes"]) == found["num_nodes"] == graph.num_nodes
    assert sum(found["parts"]["edges"]) == graph.num_edges
    assert found["left_out"] == {}
    assert "item.x" in found["features"]["node"]


@pytest.mark.parametrize("kind", ["plain", "typed"])
@pytest.mark.parametrize("by", ["out-degree", "pagerank", "partition"])
def test_reorder(kind, by, tmp_path):
    """With all neighbours, batches have the same nodes by the users' ids, with the same features and labels."""
    old, _ = saved(tmp_path / "set", kind)
    assert run("reorder", old.path, tmp_path / "out", "--by", by) == 0
    new = hr.open_dataset(tmp_path / "out")
    new.verify()
    assert neighbourhoods(new) == neighbourhoods(old)
    if by == "out-degree" and kind == "plain":
        degrees = hr.scores.out_degree(new.graph)
        assert bool((degrees.diff() <= 0).all())
    assert run("reorder", old.path, tmp_path / "out") == 2


def neighbourhoods(data: hr.Dataset) -> dict:
    """Return of each node, by ids outside: features and in-edges with their ids, attributes; and the items."""
    graph = data.graph
    types = graph.node_types or hr.Graph.from_coo([], [], node_types={"node": graph.num_nodes}).node_types
    names = []
    for one in types.names:
        count = len(types.id_range(one))
        ids = data.ids[one].external(torch.arange(count)) if one in data.ids else torch.arange(count)
        names += [(one, str(name)) for name in (ids if isinstance(ids, list) else ids.tolist())]
    found: dict = {}
    for key in data.store.node:
        one, feature = ("node", key) if isinstance(key, str) else key
        rows = data.store.node[key].read(torch.arange(len(types.id_range(one)))).rows.tolist()
        found |= {(names[types.id_range(one).start + place], feature): row for place, row in enumerate(rows)}
    edges = graph.edge_ids.tolist()
    for node, name in enumerate(names):
        own = range(int(graph.indptr[node]), int(graph.indptr[node + 1]))
        attributes = graph.edge_attrs_csc.items()
        found[name, "edges"] = sorted(
            (edges[place], names[int(graph.indices[place])], *(float(rows[place]) for _, rows in attributes))
            for place in own
        )
        found[name, "attributes"] = [rows[node].tolist() for rows in graph.node_attrs.values()]
    for what, items in data.items.items():
        by_type = items.ids if isinstance(items.ids, dict) else {"node": items.ids}
        for one, ids in by_type.items():
            ends = (one[0], one[2]) if isinstance(one, tuple) else (one,)
            columns = ids.reshape(len(ids), -1).T.tolist()
            found[what, one] = [
                [names[types.id_range(end).start + node] for node in column]
                for end, column in zip(ends, columns, strict=True)
            ]
    return found


def test_what_cannot_be_reordered_is_refused_before_the_report(typed, capsys):
    assert run("partition", typed.path, "--parts", 2, "--reorder") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"expected no node types for --reorder, got user, item in {typed.path}" in printed.err


def test_a_dry_run_of_parts_that_are_there(plain, capsys):
    assert run("partition", plain.path, "--parts", 2) == 0
    assert run("partition", plain.path, "--parts", 2) == 2
    before = sorted((path, path.stat().st_mtime_ns) for path in plain.path.rglob("*"))
    assert run("partition", plain.path, "--parts", 2, "--dry-run") == 0
    assert "would be 2 parts in" in capsys.readouterr().out
    assert sorted((path, path.stat().st_mtime_ns) for path in plain.path.rglob("*")) == before
    other = plain.path.parent / "other"
    other.mkdir()
    (other / "mine.txt").write_text("")
    for options in ((), ("--dry-run",)):  # what the real run refuses
        assert run("partition", plain.path, other, "--parts", 2, *options) == 2


@pytest.mark.parametrize("method", ["hash", "stream"])
def test_partition_takes_all_of_a_data_set(data, tmp_path, capsys, method):
    assert run("partition", data.path, tmp_path / "out", "--parts", 3, "--method", method) == 0
    printed = capsys.readouterr().out
    assert "left out" not in printed
    graph = data.graph
    for part in range(3):
        shards = hr.open_dataset(tmp_path / "out", rank=part)
        assert shards.graph.node_types == graph.node_types
        assert shards.graph.edge_types == graph.edge_types
        owned = shards.part.partition.owned(part)
        assert set(shards.store.node) == set(data.store.node)
        assert set(shards.store.edge) == set(data.store.edge)
        places = torch.cat([torch.arange(graph.indptr[node], graph.indptr[node + 1]) for node in owned])
        assert shards.graph.indices.tolist() == graph.indices[places].tolist()
        assert set(shards.graph.edge_attrs_csc) == set(graph.edge_attrs_csc) != set()
        for name, rows in graph.edge_attrs_csc.items():
            assert torch.equal(shards.graph.edge_attrs_csc[name], rows[places])
        for name, rows in graph.node_attrs.items():
            assert torch.equal(shards.graph.node_attrs[name], rows)
        for name, source in data.store.edge.items():
            own = shards.store.edge[name].partition.owned(part)
            assert torch.equal(shards.store.edge[name].read(own).rows, source.read(own).rows)


def test_reordered_parts_have_items_by_their_new_ids(plain, tmp_path, capsys):
    """The program that the command prints has the labels of the data set's items, and the users' ids."""
    out = tmp_path / "out"
    assert run("partition", plain.path, out, "--parts", 3, "--reorder") == 0
    assert 'nodes have other numbers: data.ids["node"].ours(ids)' in capsys.readouterr().out
    for rank in range(3):
        data = hr.open_dataset(out, rank=rank)
        labels = data.store.node["y"]
        for name, old in plain.items.items():
            new = data.items[name]
            assert not torch.equal(new.ids, old.ids)
            assert torch.equal(labels.read(new.ids).rows, plain.store.node["y"].read(old.ids).rows)
            assert torch.equal(new.labels, old.labels)
            assert data.ids["node"].external(new.ids) == plain.ids["node"].external(old.ids)
        assert data.notes["order"] == {"by": "partition, hash", "of": plain.path.name}


def test_features_of_types_to_partition(typed, tmp_path, capsys):
    out = tmp_path / "out"
    assert run("partition", typed.path, out, "--parts", 2, "--features", "item.x,item.y", "--whole", "item.x") == 0
    assert "left out feature user.x: --features does not name it" in capsys.readouterr().out
    store = hr.open_dataset(out, rank=1).store
    assert set(store.node) == {("item", "x"), ("item", "y")}
    assert not isinstance(store.node["item", "x"], hr.ShardedFeature)
    assert isinstance(store.node["item", "y"], hr.ShardedFeature)


def test_items_are_balanced(plain, tmp_path):
    pytest.importorskip("pymetis")
    out = tmp_path / "out"
    assert run("partition", plain.path, out, "--parts", 2, "--method", "metis", "--balance", "train") == 0
    counts = torch.bincount(hr.open_dataset(out, rank=0).part.partition.owner(plain.items["train"].ids))
    assert abs(int(counts[0]) - int(counts[1])) <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["head", "{}", "--type", "itm"],
            "expected one of user, item, user,buys,item, user,likes,user, got 'itm'; did ",
        ),
        (["head", "{}", "--count", "0"], "--count"),
        (["explain", "{}", "--items", "trian"], "did you mean train?"),
        (["explain", "{}", "--features", "item.z"], "did you mean item."),
        (["explain", "{}", "--fanouts", "3,-2"], "expected a fanout"),
        (["partition", "{}", "--parts", "2", "--features", "item.xx"], "got 'item.xx'; did you mean item.x?"),
        (["partition", "{}", "--parts", "2", "--whole", "user,buys,item.price"], "--whole: expected some of"),
        (["partition", "{}", "--parts", "2", "--method", "metis", "--balance", "node"], "did you mean nodes?"),
        (["info", "{}/none"], "expected a folder with dataset.json"),
        (["verify", "{}/none"], "expected a folder with dataset.json"),
        (["partition", "{}/..", "--parts", "2"], "whose parts have a place in it, got none; name OUT"),
    ],
)
def test_errors_take_one_line(typed, arguments, message, capsys):
    assert run(*(one.format(typed.path) for one in arguments)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inof", "x"], "'inof'; did you mean info?"),
        (["explain", "x", "--fanuots", "3"], "got --fanuots; did you mean --fanouts?"),
        (["head", "x", "--ids"], "expected options among --help, --type, --count, --json, got --ids"),
        (["info", "x", "extra"], "expected one folder, got also 'extra'"),
        (["partition", "x", "y", "z", "--parts", "2"], "expected DATA and OUT, got also 'z'"),
        (["doctor", "x"], "expected options alone, got also 'x'"),
        (["explain", "x", "--sampler", "neighbour"], "'neighbour'; did you mean neighbor?"),
        (["partition", "x", "--parts", "2", "--method", "metsi"], "did you mean metis?"),
    ],
)
def test_the_nearest_name_is_named(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        run(*arguments)
    assert end.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--parts", 4], "expected --by partition"),
        (["--by", "partition", "--parts", 0], "--parts to be an integer from 1"),
    ],
)
def test_parts_that_no_order_has(plain, tmp_path, capsys, options, message):
    assert run("reorder", plain.path, tmp_path / "out", *options) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("*out*"))
