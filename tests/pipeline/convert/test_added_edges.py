"""Reverse edges and loops that are added, and repeats that are counted, in any memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from shell import main

import headrace as hr
from headrace.pipeline.convert import convert_tables as door
from headrace.pipeline.convert.bit_set import BitSet
from headrace.pipeline.convert.description import Description, EdgeTable, NodeTable, Options
from headrace.pipeline.convert.table import ArrayTable


def convert(folder, description, room=1 << 30):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "room", lambda *_: room)
        patch.setattr("headrace.pipeline.convert.sort_edges.LEAST_AT_ONCE", 2)
        report = door.convert_tables(description, folder, progress=False, overwrite=True)
    data = hr.open_dataset(folder)
    data.verify()
    return data, report


def test_undirected_graphs_with_loops(tmp_path):
    rng = np.random.default_rng(5)
    src, dst = rng.integers(0, 9, (2, 60))
    split = np.array(["train", None] * 30, object)
    columns = {"src": src, "dst": dst, "w": rng.random(60), "t": rng.integers(0, 9, 60, np.int32), "split": split}
    table = ArrayTable("edges", {**columns, "f": rng.integers(0, 9, (60, 2)), "y": rng.integers(0, 3, 60)})
    edge = EdgeTable(table, weight="w", time="t", features={"f": "f"}, labels={"y": "y"}, split="split")
    original = hr.Graph.from_coo(src, dst, num_nodes=9, edge_attrs={"weight": columns["w"], "time": columns["t"]})
    expected = original.undirected(origin="edge")
    origin = expected.edge_attrs["edge"]
    nodes = [NodeTable(num_nodes=9)]
    data, report = convert(tmp_path / "data", Description([edge], nodes, (), Options(undirected=True)))
    assert data.graph.content_digest() == original.undirected().content_digest()
    assert report.counts["edges that are reverse edges added"] == len(origin) - 60 > 0
    for name in ("f", "y"):
        rows = torch.from_numpy(next(table.chunks([name], 60))[name])
        assert torch.equal(data.store.edge[name].read(torch.arange(len(origin))).rows, rows[origin])
    assert len(data.items["train"].ids) == 30  # those of the table
    options = Options(loops="add", undirected=True)
    data, report = convert(tmp_path / "data", Description([edge], nodes, (), options))
    lacking = sorted(set(range(9)) - set(src[src == dst].tolist()))
    assert report.counts["edges that are loops added"] == len(lacking) > 0
    loops = torch.arange(len(origin), data.graph.num_edges)
    assert data.graph.num_edges == len(origin) + len(lacking)
    order = data.graph.edge_ids.argsort()
    dst_of = torch.repeat_interleave(torch.arange(9), data.graph.indptr.diff())
    assert data.graph.indices[order][loops].tolist() == dst_of[order][loops].tolist() == lacking
    assert data.graph.edge_attrs["weight"][loops].unique().tolist() == [1]
    assert data.graph.edge_attrs["time"][loops].unique().tolist() == [torch.iinfo(torch.int64).min]
    assert data.graph.edge_attrs["time"][: len(origin)].tolist() == columns["t"][origin].tolist()
    assert data.store.edge["f"].read(loops).rows.unique().tolist() == [1]
    assert data.store.edge["y"].read(loops).rows.unique().tolist() == [-100]


def test_repeats_are_counted_in_any_memory(tmp_path, monkeypatch):
    """Also those of a node whose edges are not in memory at a time, and by type."""
    rng = np.random.default_rng(6)
    edges = []
    for number, name in enumerate(("a", "b", "a")):
        src, dst = rng.integers(0, 30, (2, 300))
        dst[:100] = number % 2
        edges.append(EdgeTable(ArrayTable(f"t{number}", {"src": src, "dst": dst}), ("n", name, "n")))
    expected = {}
    for name in ("a", "b"):
        pairs = [
            pair
            for one in edges
            if one.type[1] == name
            for chunk in one.table.chunks(["src", "dst"], 300)
            for pair in zip(chunk["src"].tolist(), chunk["dst"].tolist(), strict=True)
        ]
        expected[name] = len(pairs) - len(set(pairs))
    for room, most_keys in ((1 << 30, 1 << 62), (20_000, 1), (300, 1 << 62)):
        monkeypatch.setattr("headrace.pipeline.convert.unique_edges._MOST_KEYS", most_keys)
        for reverse in (False, True):
            options = Options(reverse=reverse)
            data, report = convert(tmp_path / "data", Description(edges, options=options), room)
            assert report.counts == {f"edges of n {one} n that repeat another one, kept": expected[one] for one in "ab"}
            assert data.graph.num_edges == 900 * (1 + reverse)


@pytest.mark.parametrize(
    "options",
    [
        Options(duplicate_edges="drop"),
        Options(undirected=True, loops="add"),
        Options(undirected=True, loops="add", duplicate_edges="drop"),
        Options(reverse=True, duplicate_edges="drop"),
    ],
    ids=["drop", "add", "add and drop", "reverse and drop"],
)
def test_edges_go_in_any_memory(options, tmp_path):
    """Also those of a node whose edges are not in memory at a time."""
    rng = np.random.default_rng(8)
    edges = []
    for number, name in enumerate(("a", "b", "a")):
        src, dst = rng.integers(0, 40, (2, 400))
        (src if number == 2 else dst)[:200] = number % 2  # also many reverse edges to one node
        edges.append(EdgeTable(ArrayTable(f"t{number}", {"src": src, "dst": dst}), ("n", name, "n")))
    much, report = convert(tmp_path / "much", Description(edges, options=options))
    little, other = convert(tmp_path / "little", Description(edges, options=options), 1500)
    assert little.graph.content_digest() == much.graph.content_digest()
    assert other.counts == report.counts
    assert sum(report.counts.values()) > 100


def test_undirected_types(tmp_path):
    """Those between nodes of two types get a reverse type, with the same features, unless they have one."""
    rng = np.random.default_rng(9)
    edges = []
    for name in (("a", "to", "b"), ("a", "by", "a"), ("b", "has", "a"), ("a", "rev_has", "b")):
        columns = {"src": rng.integers(0, 7, 30), "dst": rng.integers(0, 7, 30), "t": rng.integers(0, 9, 30)}
        edges.append(EdgeTable(ArrayTable(",".join(name), {**columns, "f": rng.random(30)}), name, time="t"))
        edges[-1] = replace(edges[-1], features={"f": "f"})
    of_type = {one.type: next(one.table.chunks(["src", "dst", "t"], 30)) for one in edges}
    ends = {name: (one["src"], one["dst"]) for name, one in of_type.items()}
    times = {name: {"time": one["t"]} for name, one in of_type.items()}
    expected = hr.Graph.from_coo(ends, num_nodes={"a": 7, "b": 7}, edge_attrs=times).undirected()
    nodes = [NodeTable("a", num_nodes=7), NodeTable("b", num_nodes=7)]
    data, _ = convert(tmp_path / "data", Description(edges, nodes, options=Options(undirected=True)))
    assert data.graph.edge_types.names[4:] == (("b", "rev_to", "a"),)
    assert data.graph.content_digest() == expected.content_digest()
    rows = [data.store.edge[name, "f"].read(torch.arange(30)).rows for name in (("a", "to", "b"), ("b", "rev_to", "a"))]
    assert torch.equal(*rows)


def test_flags_and_toml(tmp_path, capsys):
    """The flags, and TOML, are the same options."""
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n1,2\n2,1\n")
    (tmp_path / "g.toml").write_text('[edges]\nfiles = "e.csv"\n[options]\nundirected = true\nloops = "add"\n')
    assert main(["convert", str(tmp_path / "g.toml"), str(tmp_path / "toml")]) == 0
    flags = ["--edges", "e.csv", "--undirected", "--loops", "add"]
    assert main(["convert", str(tmp_path), str(tmp_path / "flags"), *flags]) == 0
    assert "edges that are reverse edges added: 1" in capsys.readouterr().out
    graphs = [hr.open_dataset(tmp_path / name).graph for name in ("toml", "flags")]
    assert graphs[0].content_digest() == graphs[1].content_digest()
    assert graphs[0].num_edges == 3 + 1 + 3


def test_sets_of_bits():
    rng = np.random.default_rng(7)
    for size in (1, 63, 64, 65, 1000):
        numbers = rng.integers(0, size, size // 2 + 1)
        bits, plain = BitSet(size), np.zeros(size, bool)
        for some in np.array_split(numbers, 3):
            bits.add(some)
            plain[some] = True
        assert (bits.has(np.arange(size)) == plain).all()
        below = np.concatenate([[0], np.cumsum(plain)])
        assert (bits.num_below(np.arange(size + 1, dtype=np.int32)) == below).all()
        for start, stop in rng.integers(0, size + 1, (20, 2)):
            assert (bits.between(start, max(start, stop)) == plain[start : max(start, stop)]).all()
