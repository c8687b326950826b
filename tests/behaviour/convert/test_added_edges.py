"""Reverse edges and loops that are added, and repeats that are counted, in any memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from shell import main
from table_files import Description, EdgeTable, NodeTable, Options, Table, converted

import headrace as hr


def convert(tmp_path, description):
    """The data set, and what the conversion has counted."""
    data = converted(description, tmp_path)
    return data, data.notes["counts"]


def test_undirected_graphs_with_loops(tmp_path):
    rng = np.random.default_rng(5)
    src, dst = rng.integers(0, 9, (2, 60))
    split = np.array(["train", None] * 30, object)
    columns = {"src": src, "dst": dst, "w": rng.random(60), "t": rng.integers(0, 9, 60, np.int32), "split": split}
    table = Table("edges", {**columns, "f": rng.integers(0, 9, (60, 2)), "y": rng.integers(0, 3, 60)})
    edge = EdgeTable(table, weight="w", time="t", features={"f": "f"}, labels={"y": "y"}, split="split")
    original = hr.Graph.from_coo(src, dst, num_nodes=9, edge_attrs={"weight": columns["w"], "time": columns["t"]})
    expected = original.undirected(origin="edge")
    origin = expected.edge_attrs["edge"]
    nodes = [NodeTable(num_nodes=9)]
    data, counts = convert(tmp_path, Description([edge], nodes, (), Options(undirected=True)))
    assert data.graph.content_digest() == original.undirected().content_digest()
    assert counts["edges that are reverse edges added"] == len(origin) - 60 > 0
    for name in ("f", "y"):
        rows = torch.from_numpy(table.columns[name])
        assert torch.equal(data.store.edge[name].read(torch.arange(len(origin))).rows, rows[origin])
    assert len(data.items["train"].ids) == 30  # those of the table
    options = Options(loops="add", undirected=True)
    data, counts = convert(tmp_path, Description([edge], nodes, (), options))
    lacking = sorted(set(range(9)) - set(src[src == dst].tolist()))
    assert counts["edges that are loops added"] == len(lacking) > 0
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


def test_repeats_are_counted(tmp_path):
    """Also by type."""
    rng = np.random.default_rng(6)
    edges, pairs = [], {"a": [], "b": []}
    for number, name in enumerate(("a", "b", "a")):
        src, dst = rng.integers(0, 30, (2, 300))
        dst[:100] = number % 2
        edges.append(EdgeTable(Table(f"t{number}", {"src": src, "dst": dst}), ("n", name, "n")))
        pairs[name] += zip(src.tolist(), dst.tolist(), strict=True)
    repeats = {name: len(some) - len(set(some)) for name, some in pairs.items()}
    for reverse in (False, True):
        data, counts = convert(tmp_path, Description(edges, options=Options(reverse=reverse)))
        assert counts == {f"edges of n {one} n that repeat another one, kept": repeats[one] for one in "ab"}
        assert data.graph.num_edges == 900 * (1 + reverse)


def test_undirected_types(tmp_path):
    """Those between nodes of two types get a reverse type, with the same features, unless they have one."""
    rng = np.random.default_rng(9)
    edges = []
    for name in (("a", "to", "b"), ("a", "by", "a"), ("b", "has", "a"), ("a", "rev_has", "b")):
        columns = {"src": rng.integers(0, 7, 30), "dst": rng.integers(0, 7, 30), "t": rng.integers(0, 9, 30)}
        edges.append(EdgeTable(Table(",".join(name), {**columns, "f": rng.random(30)}), name, time="t"))
        edges[-1] = replace(edges[-1], features={"f": "f"})
    of_type = {one.type: one.table.columns for one in edges}
    ends = {name: (one["src"], one["dst"]) for name, one in of_type.items()}
    times = {name: {"time": one["t"]} for name, one in of_type.items()}
    expected = hr.Graph.from_coo(ends, num_nodes={"a": 7, "b": 7}, edge_attrs=times).undirected()
    nodes = [NodeTable("a", num_nodes=7), NodeTable("b", num_nodes=7)]
    data, _ = convert(tmp_path, Description(edges, nodes, options=Options(undirected=True)))
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
