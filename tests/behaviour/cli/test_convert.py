"""The commands `convert` and `generate`: from files to a loader, by flags and by TOML."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest
import torch
from shell import main

import headrace as hr


def run(*arguments: object) -> int:
    return main(list(map(str, arguments)))


@pytest.fixture
def tables(tmp_path):
    """People with integer ids, who know each other."""
    folder = tmp_path / "tables"
    folder.mkdir()
    rng = np.random.default_rng(1)
    ids = rng.permutation(30) * 7
    people = ["id,kind,x0,x1,x10,x2,age,split"]
    for place, one in enumerate(ids):
        split = ["train", "val", ""][place % 3]
        people.append(f"{one},{'cat' if one % 2 else 'dog'},1.5,{place},10,{place / 4},{place},{split}")
    (folder / "people.csv").write_text("\n".join(people))
    ends = rng.choice(ids, (2, 100))
    knows = ["a\tb\tw\twhen"] + [f"{a}\t{b}\t{place / 8}\t{place}" for place, (a, b) in enumerate(ends.T)]
    (folder / "knows.tsv").write_text("\n".join(knows))
    return folder, ids, ends


FLAGS = ["--edges", "knows.tsv", "--src", "a", "--dst", "b", "--weight", "w", "--time", "when"]
FLAGS += ["--nodes", "people.csv", "--id", "id", "--label", "kind", "--features", "x*,age", "--split", "split"]


def test_flags(tables, tmp_path, capsys):
    folder, ids, ends = tables
    assert run("convert", folder, tmp_path / "out", *FLAGS) == 0
    assert "edges: 100" in capsys.readouterr().out
    data = hr.open_dataset(tmp_path / "out")
    data.verify()
    every = torch.arange(30)
    assert data.ids["node"].external(every).tolist() == ids.tolist()
    rows = torch.stack([torch.full((30,), 1.5), every, every / 4, torch.full((30,), 10.0)], 1)
    assert torch.equal(data.store.node["x"].read(every).rows, rows)  # x0, x1, x2, x10
    assert data.store.node["age"].read(every).rows.tolist() == every.tolist()
    assert data.store.node["kind"].read(every).rows.tolist() == [0 if one % 2 else 1 for one in ids]
    assert data.notes["sources"][0]["classes"] == {"kind": ["cat", "dog"]}
    assert data.items["train"].ids.tolist() == list(range(0, 30, 3))
    place = {one: number for number, one in enumerate(ids.tolist())}
    src, dst = ([place[one] for one in end.tolist()] for end in ends)
    assert data.graph.edge_attrs["weight"].dtype == torch.float32
    attributes = {"weight": torch.arange(100) / 8.0, "time": torch.arange(100)}
    graph = hr.Graph.from_coo(src, dst, num_nodes=30, edge_attrs=attributes)
    assert torch.equal(data.graph.indices, graph.indices)
    for name, rows in attributes.items():
        assert data.graph.edge_attrs[name].tolist() == rows.tolist()


def test_the_report_in_json_and_a_dry_run(tables, tmp_path, capsys):
    folder, *_ = tables
    assert run("convert", folder, tmp_path / "out", *FLAGS, "--dry-run", "--json") == 0
    dry = json.loads(capsys.readouterr().out)
    assert dry["dry_run"]
    assert not (tmp_path / "out").exists()
    assert run("convert", folder, tmp_path / "out", *FLAGS, "--loops", "drop", "--reverse", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    data = hr.open_dataset(tmp_path / "out")
    assert report["edges"] == {"edge": data.graph.num_edges}
    assert report["nodes"] == {"node": 30}


def test_edges_alone(tables, tmp_path):
    folder, _, ends = tables
    knows = ["--edges", "knows.tsv", "--src", "a", "--dst", "b"]
    assert run("convert", folder, tmp_path / "out", *knows, "--external") == 0
    data = hr.open_dataset(tmp_path / "out")
    assert data.ids["node"].external(torch.arange(data.graph.num_nodes)).tolist() == np.unique(ends).tolist()
    assert run("convert", folder, tmp_path / "numbers", "--edges", "knows.tsv", "--src", "a", "--dst", "b") == 0
    assert hr.Graph.load(tmp_path / "numbers").num_nodes == ends.max() + 1


@pytest.mark.skipif(importlib.util.find_spec("duckdb") is None, reason="texts as ids take duckdb")
def test_texts_as_ids_by_toml(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "users.csv").write_text("name,group\nann,a\nbob,b\ncid,a\n")
    (tmp_path / "buys.csv").write_text("who,what,amount\nann,tea,1.5\ncid,tea,2\nbob,oil,3\ndan,tea,1\n")
    (tmp_path / "shop.toml").write_text(
        """
[nodes.user]
files = "users.csv"
id = "name"
labels = { y = "group" }
[nodes.item]
[edges."user,buys,item"]
files = "buys.csv"
src = "who"
dst = "what"
weight = "amount"
[options]
unknown_ids = "drop"
"""
    )
    data = hr.convert(tmp_path / "shop.toml", tmp_path / "out", progress=False)
    assert data.ids["item"].external([0, 1]) == ["oil", "tea"]
    assert data.store.node["user", "y"].read(torch.arange(3)).rows.tolist() == [0, 1, 0]
    assert data.graph.num_edges == 3
    assert run("convert", tmp_path / "shop.toml", tmp_path / "more", "--unknown-ids", "create") == 0
    assert hr.open_dataset(tmp_path / "more").ids["user"].external([3]) == ["dan"]


@pytest.mark.skipif(importlib.util.find_spec("duckdb") is None, reason="texts as ids take duckdb")
def test_texts_as_ids_by_a_flag(tmp_path, capsys):
    """Ids of which those behind the first rows are no integers."""
    rows = "".join(f"{one},{one}\n" for one in range(1000))
    (tmp_path / "e.csv").write_text(f"src,dst\n{rows}1,010\n")
    (tmp_path / "n.csv").write_text("name\n" + "".join(f"{one}\n" for one in [*range(1000), "010"]))
    assert run("convert", tmp_path, tmp_path / "out", "--edges", "e.csv") == 2
    assert "row 1002" in (message := capsys.readouterr().err)
    assert "pass --text-ids, or in TOML" in message
    for more in ([], ["--nodes", "n.csv", "--id", "name"]):
        flags = ["--edges", "e.csv", *more, "--text-ids", "--overwrite"]
        assert run("convert", tmp_path, tmp_path / "out", *flags) == 0
        assert hr.open_dataset(tmp_path / "out").ids["node"].ours(["010"]).tolist() == [1000 if more else 1]
    (tmp_path / "g.toml").write_text('[edges]\nfiles = "e.csv"\n')
    capsys.readouterr()
    for flag in (["--text-ids"], ["--external"], ["--separator", ";"], ["--comment", "#"], ["--null-values", "NA"]):
        assert run("convert", tmp_path / "g.toml", tmp_path / "more", *flag) == 2
        assert f"expected --edges with {flag[0]}" in capsys.readouterr().err


def test_an_edge_list_with_comments_and_without_a_header(tmp_path):
    """As SNAP has them."""
    (tmp_path / "e.txt").write_text("# Directed graph\n# FromNodeId\tToNodeId\n0\t2\n# more\n2\t1\n")
    (tmp_path / "n.txt").write_text("a line\nx\ty\n1\tNA\n2\t3\n4\t5\n")
    edges = ["--edges", "e.txt", "--edge-names", "src,dst", "--separator", "\t", "--comment", "#"]
    assert run("convert", tmp_path, tmp_path / "out", *edges) == 0
    assert hr.open_dataset(tmp_path / "out").graph.indices.tolist() == [2, 0]
    nodes = ["--nodes", "n.txt", "--node-names", "x,y", "--label", "y", "--null-values", "NA,x", "--skip", "2"]
    (tmp_path / "e.txt").write_text("a line\nanother\n0\t2\n2\t1\n")
    assert run("convert", tmp_path, tmp_path / "out", *edges, *nodes, "--overwrite") == 0
    data = hr.open_dataset(tmp_path / "out")
    assert data.store.node["y"].read(torch.arange(3)).rows.tolist() == [-100, 3, 5]


def test_the_report_in_python(tables, tmp_path, capsys):
    folder, *_ = tables
    (folder / "people.toml").write_text('[edges]\nfiles = "knows.tsv"\nsrc = "a"\ndst = "b"\n')
    hr.convert(folder / "people.toml", tmp_path / "quiet", progress=False)
    assert capsys.readouterr() == ("", "")
    hr.convert(folder / "people.toml", tmp_path / "out")
    printed = capsys.readouterr()
    assert "edges: 100" in printed.err
    assert "that are not used: w, when" in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("model", ["rmat", "relational"])
def test_generate(model, tmp_path, capsys):
    arguments = ["--nodes", 200, "--edges", 900, "--distinct", "--json"]
    assert run("generate", model, tmp_path / "one", *arguments) == 0
    assert run("generate", model, tmp_path / "other", *arguments, "--memory", "3GB") == 0
    capsys.readouterr()
    one, other = (hr.open_dataset(tmp_path / name) for name in ("one", "other"))
    files = sorted(path.name for path in one.path.glob("*.npy"))
    assert files
    for name in files:
        assert (one.path / name).read_bytes() == (other.path / name).read_bytes()
    loader = hr.ItemSampler(one.items["train"], batch_size=50).sample_neighbor(one.graph, [3, 3]).loader()
    assert sum(block.num_edges for batch in loader for block in batch.blocks) > 0
    assert run("generate", model, tmp_path / "one") == 2
    assert "one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--src", "a"], "expected --edges with --src"),
        (["--nodes", "people.csv"], "expected --edges with --nodes"),
        (["--edges", "knows.tsv", "--src", "aa", "--dst", "b"], "did you mean a?"),
        (["--edges", "nkows.tsv"], "nkows.tsv"),
        (["--edges", "../secret.csv"], "secret.csv"),
        (["--edges", "knows.tsv", "--src", "a", "--dst", "b", "--memory", "lots"], "memory"),
        (["--edges", "knows.tsv", "--src", "a", "--dst", "b", "--separator", "ab"], "has no column 'a'"),
        ([*FLAGS[:-2], "--split", "kind2"], "no column 'kind2'; its columns are"),
    ],
)
def test_errors_take_one_line(tables, tmp_path, capsys, arguments, message):
    (tmp_path / "secret.csv").write_text("src,dst\n0,1\n")
    assert run("convert", tables[0], tmp_path / "out", *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
