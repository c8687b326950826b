"""The command `headrace`: parts that open, a report, and errors of one line."""

from __future__ import annotations

import json
import sys
from importlib.metadata import entry_points

import numpy as np
import pytest
import torch
from shell import main

import headrace as hr

from copies import run_program

NUM_NODES = 60


@pytest.fixture
def data(tmp_path):
    """Two cliques of 30, one edge between them, all training nodes in one."""
    one = np.stack(np.meshgrid(np.arange(30), np.arange(30))).reshape(2, -1)
    arrays = {
        "edge_index": np.concatenate([one, one + 30, [[0], [30]]], axis=1),
        "x": np.random.default_rng(0).random((NUM_NODES, 4), np.float32),
        "y": np.arange(NUM_NODES) % 3,
        "train_mask": np.arange(NUM_NODES) < 20,
    }
    np.savez(tmp_path / "graph.npz", **arrays)
    return tmp_path / "graph.npz"


def run(*arguments: object) -> int:
    return main(["partition", *map(str, arguments)])


@pytest.mark.parametrize("method", ["hash", "range", "metis", "louvain", "stream"])
def test_every_method(data, tmp_path, capsys, method):
    for library in {"metis": ["pymetis"], "louvain": ["igraph"]}.get(method, []):
        pytest.importorskip(library)
    assert run(data, tmp_path / "out", "--parts", 2, "--method", method) == 0
    printed = capsys.readouterr()
    assert "2 parts of 60 nodes and 1,801 edges" in printed.out
    assert f"2 parts in {tmp_path / 'out'}, with features x, y, train_mask" in printed.out
    assert printed.err == ""
    shards = [hr.open_dataset(tmp_path / "out", rank=part) for part in range(2)]
    assert sum(one.graph.num_local_edges for one in shards) == 1801
    with np.load(data) as arrays:
        whole = hr.Graph.from_coo(*arrays["edge_index"])
        for one in shards:
            owned = one.part.partition.owned(one.part.number)
            assert np.array_equal(one.store.node["x"].read(owned).rows, arrays["x"][owned])
            assert np.array_equal(one.store.node["y"].read(torch.arange(NUM_NODES)).rows, arrays["y"])
    if method in ("range", "metis", "louvain"):
        assert shards[0].part.partition.report(whole).edges_cut == 1


def test_it_ends_with_what_comes_next(data, tmp_path, capsys):
    """The last line is Python as it stands."""
    out = tmp_path / "it's out"
    assert run(data, out, "--parts", 1) == 0
    *_, before, last = capsys.readouterr().out.splitlines()
    assert "torchrun" in before
    assert "1 ranks" in before
    assert last.startswith("data = headrace.open_dataset(")
    names = {"headrace": hr}
    exec(last, names)  # noqa: S102 - what a user types
    assert names["data"].graph.num_local_edges == 1801


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"headrace {hr.__version__}\n"


def test_balance(data, tmp_path, capsys):
    pytest.importorskip("pymetis")
    assert run(data, tmp_path / "out", "--parts", 2, "--method", "metis", "--balance", "train_mask") == 0
    labelled = hr.open_dataset(tmp_path / "out", rank=0).part.partition.owner(torch.arange(20))
    assert torch.bincount(labelled, minlength=2).tolist() == [10, 10]
    assert "labelled" in capsys.readouterr().out
    both = ("--method", "metis", "--balance", "train_mask", "--balance-edges", "--dry-run", "--json")
    assert run(data, tmp_path / "other", "--parts", 2, *both) == 0
    edges = json.loads(capsys.readouterr().out)["parts"]["edges"]
    assert max(edges) <= 1.1 * sum(edges) / 2


def test_features_and_what_is_whole(data, tmp_path):
    assert run(data, tmp_path / "out", "--parts", 2, "--features", "x,y", "--whole", "x,y") == 0
    node = hr.open_dataset(tmp_path / "out", rank=1).store.node
    assert set(node) == {"x", "y"}
    assert not any(isinstance(node[name], hr.ShardedFeature) for name in node)


@pytest.mark.parametrize("whole", [[], ["--whole", "y"]])
def test_reorder(data, tmp_path, whole):
    """Parts of the graph in the order of its parts, whose owners are ranges."""
    assert run(data, tmp_path / "plain", "--parts", 3) == 0
    assert run(data, tmp_path / "out", "--parts", 3, "--reorder", *whole) == 0
    owners = hr.open_dataset(tmp_path / "plain", rank=0).part.partition
    assert json.loads((tmp_path / "out/parts.json").read_text())["owners"]["kind"] == "range"
    with np.load(data) as arrays:
        src, dst = arrays["edge_index"]
        x = torch.from_numpy(arrays["x"])
    for part in range(3):
        shards = hr.open_dataset(tmp_path / "out", rank=part)
        assert shards.part.partition == owners.ranges()
        old_ids = torch.as_tensor(shards.ids["node"].external(torch.arange(NUM_NODES)))
        assert torch.equal(old_ids, owners.order())
        ours = shards.part.partition.owned(part)
        assert torch.equal(shards.store.node["x"].read(ours).rows, x[owners.owned(part)])
        ids = shards.graph.edge_ids.long()
        new_dst = torch.repeat_interleave(torch.arange(NUM_NODES), shards.graph.in_degrees())
        assert old_ids[shards.graph.indices.long()].tolist() == src[ids].tolist()
        assert old_ids[new_dst].tolist() == dst[ids].tolist()


@pytest.mark.parametrize("more", [[], ["--reorder"]])
def test_arrays_of_edges_are_taken_over_and_others_named(tmp_path, capsys, more):
    src = np.arange(300) % 48
    arrays = {"src": src, "dst": src[::-1], "num_nodes": 48, "y": src[:48], "edge_time": np.arange(300)}
    np.savez(tmp_path / "graph.npz", **arrays, x=np.zeros((40, 4)))
    assert run(tmp_path / "graph.npz", tmp_path / "out", "--parts", 2, *more) == 0
    first, *_ = out = capsys.readouterr().out.splitlines()
    assert first == "left out x: float64[40, 4], which has no row for each of 48 nodes, or of 300 edges"
    assert any(line.endswith("and of edges edge_time") for line in out)
    shards = hr.open_dataset(tmp_path / "out", rank=0)
    ids = shards.graph.edge_ids.long()
    assert torch.equal(shards.store.edge["edge_time"].read(ids).rows, ids)


@pytest.mark.slow
def test_picture(data, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert run(data, tmp_path / "out", "--parts", 2, "--report", tmp_path / "report.png") == 0
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    assert "report.png" in capsys.readouterr().out


def test_overwrite(data, tmp_path, capsys):
    assert run(data, tmp_path / "out", "--parts", 2) == 0
    assert run(data, tmp_path / "out", "--parts", 3) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run(data, tmp_path / "out", "--parts", 3, "--overwrite") == 0
    assert hr.open_dataset(tmp_path / "out", rank=0).part.num_parts == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--parts", "0"], "--parts to be an integer from 1"),
        (["--parts", "2", "--method", "metis", "--seed", "-1"], "--seed to be an integer of at least 0"),
        (
            ["--parts", "2", "--balance", "train_mask"],
            "expected --method metis for --balance train_mask, got --method hash",
        ),
        (
            ["--parts", "2", "--balance-edges"],
            "expected --method metis for --balance-edges, got --method hash",
        ),
        (["--parts", "2", "--method", "metis", "--balance", "z"], "there is no such array"),
        (["--parts", "2", "--method", "metis", "--balance", "x"], "balance"),
        (["--parts", "2", "--features", "z"], "expected 'z' to be an array with a row for each of 60 nodes"),
        (["--parts", "2", "--whole", "z"], "no node feature 'z'"),
        (["--parts", "2", "--report", "report.txt"], "expected a name that ends in .png"),
    ],
)
def test_errors_take_one_line(data, tmp_path, capsys, options, message):
    assert run(data, tmp_path / "out", *options) == 2
    error = capsys.readouterr().err
    assert error.startswith("headrace: ")
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "options", [["--parts", "0"], ["--parts", "2", "--seed", "-1"], ["--parts", "2", "--whole", "z"]]
)
def test_arguments_are_checked_before_work_is_shown(tmp_path, capsys, options):
    graph = hr.Graph.from_coo([0, 1], [1, 0])
    hr.save_dataset(
        tmp_path / "data", graph, hr.FeatureStore({"x": torch.ones(2, 2)}), items={"train": [0]}, progress=False
    )
    capsys.readouterr()
    assert run(tmp_path / "data", tmp_path / "out", *options) == 2
    assert capsys.readouterr().out == ""


def test_no_such_folder(tmp_path, capsys):
    assert main(["partition", str(tmp_path / "nodir"), "--parts", "2"]) == 2
    assert f"{tmp_path / 'nodir'}: there is no such file or folder" in capsys.readouterr().err


def test_a_library_that_is_missing(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    assert run(data, tmp_path / "out", "--parts", 2, "--method", "metis") == 2
    assert "headrace[partition]" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["partition"], ["cut"], ["partition", "a", "b", "--parts", "two"]])
def test_usage(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: headrace" in capsys.readouterr().err


@pytest.mark.slow
def test_both_ways_to_start_it(tmp_path):
    """As the script that pip installs, and as a module."""
    (script,) = entry_points(group="console_scripts", name="headrace")
    assert script.load() is main
    missing = tmp_path / "missing.npz"
    as_module = "import runpy; runpy.run_module('headrace', run_name='__main__', alter_sys=True)"
    result = run_program(as_module, "partition", missing, tmp_path / "out", "--parts", 2)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"headrace: {missing}: there is no such file")
