"""A table of edges with its own split: its held-out links are not what a model trains on, or somebody is told."""

from __future__ import annotations

import dataclasses
import random
import warnings

import pytest
import torch
from shell import main
from table_files import write_toml

import headrace as hr


def write_edges(folder) -> dict[str, set[tuple[int, int]]]:
    """Write 300 different links between 40 nodes, each in one part, and return them by part."""
    drawn = random.Random(0)
    pairs = drawn.sample([(src, dst) for src in range(40) for dst in range(40) if src < dst], 300)
    parts = drawn.choices(["train", "valid", "test", ""], [6, 2, 2, 1], k=300)
    lines = [f"{src},{dst},{part},{row}" for row, ((src, dst), part) in enumerate(zip(pairs, parts, strict=True))]
    (folder / "e.csv").write_text("\n".join(["src,dst,part,day", *lines]) + "\n")
    return {name: {pair for pair, part in zip(pairs, parts, strict=True) if part == name} for name in set(parts)}


def converted(folder, options=None, *, typed: bool = False, **fields):
    parts = write_edges(folder)
    name = 'edges."user,knows,user"' if typed else "edges"
    sections = {name: {"files": "e.csv", "split": "part", **fields}, "options": options or {}}
    data = hr.convert(write_toml(folder / "d.toml", sections), folder / "out", progress=False, overwrite=True)
    data.verify()
    return data, parts


def told_by(plan) -> list[str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        plan.loader().close()
    return [str(one.message) for one in told if "data set" in str(one.message)]


TOLD = (
    "sample_neighbor: the graph has the edges of the items 'val' and 'test' of its data set, so that a model trains on "
    "links that it is to predict; convert with held_out='drop' (--held-out drop), which leaves them out of the graph"
)


@pytest.mark.parametrize("typed", [False, True])
def test_training_on_a_graph_with_held_out_links_is_warned_of(tmp_path, typed):
    data, _ = converted(tmp_path, {"undirected": True}, typed=typed)
    for exclude in (False, True):
        plan = hr.ItemSampler(data.items["train"], batch_size=32, seed=0)
        plan = plan.exclude_seed_edges(reverse=True) if exclude else plan
        assert told_by(plan.sample_neighbor(data.graph, [-1])) == [TOLD]


def test_what_is_meant_is_not_warned_of(tmp_path):
    data, _ = converted(tmp_path, time="day")
    labelled = dataclasses.replace(data.items["train"], labels=torch.zeros(len(data.items["train"])))
    for items in (data.items["val"], data.items["test"], labelled, torch.arange(40)):
        assert told_by(hr.ItemSampler(items).sample_neighbor(data.graph, [-1])) == []
    by_time = hr.ItemSampler(data.items["train"]).sample_neighbor(data.graph, [-1], time="time", strictly_before=True)
    assert told_by(by_time) == []
    split = hr.split_links(data.graph)
    assert told_by(hr.ItemSampler(split.items["train"]).sample_neighbor(split.graphs["train"], [-1])) == []


def test_items_of_other_links_are_not_warned_of(tmp_path):
    """Pairs in a table of their own, which are no edges."""
    (tmp_path / "e.csv").write_text("src,dst\n" + "".join(f"{node},{node + 1}\n" for node in range(50)))
    for name, step in (("train", 1), ("val", 2)):
        (tmp_path / f"{name}.csv").write_text("a,b\n" + "".join(f"{node},{node + step}\n" for node in range(40)))
    items = {f"items.{name}": {"files": f"{name}.csv", "ids": ["a", "b"]} for name in ("train", "val")}
    source = write_toml(tmp_path / "d.toml", {"edges": {"files": "e.csv"}, **items})
    data = hr.convert(source, tmp_path / "out", progress=False)
    assert told_by(hr.ItemSampler(data.items["train"]).sample_neighbor(data.graph, [-1])) == []


@pytest.mark.parametrize("value", ["dorp", True, None])
def test_other_values_are_refused(tmp_path, value):
    if value is not None:
        with pytest.raises(hr.InputError, match=f"held_out to be 'keep' or 'drop', got {value!r}"):
            converted(tmp_path, {"held_out": value})
    else:
        with pytest.raises(SystemExit):
            main(["convert", str(tmp_path), str(tmp_path / "out"), "--edges", "e.csv", "--held-out", "none"])


@pytest.mark.slow
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("added", ["undirected", "reverse", None])
def test_held_out_links_are_items_alone(tmp_path, typed, added):
    options = {"held_out": "drop", **({added: True} if added else {})}
    data, parts = converted(tmp_path, options, typed=typed, time="day", attributes={"day": "day"}, features=["day"])
    held = parts["valid"] | parts["test"]
    for ours, theirs in (("train", "train"), ("val", "valid"), ("test", "test")):
        ids = data.items[ours].ids
        pairs = next(iter(ids.values())) if typed else ids
        assert set(map(tuple, pairs.tolist())) == parts[theirs]
        times = data.items[ours].times
        assert (next(iter(times.values())) if typed else times).shape == (len(parts[theirs]),)
    graph = data.graph
    ends = torch.arange(graph.num_nodes).repeat_interleave(graph.indptr.diff())
    edges = list(zip(graph.indices.tolist(), ends.tolist(), strict=True))
    assert not {tuple(sorted(edge)) for edge in edges} & held
    assert len(edges) == (2 if added else 1) * (300 - len(held))
    assert graph.num_nodes == 40
    assert data.notes["options"]["held_out"] == "drop"
    name = "edges of user knows user" if typed else "edges"
    assert data.notes["counts"][f"{name}: held out as items alone"] == len(held)
    assert told_by(hr.ItemSampler(data.items["train"]).sample_neighbor(graph, [-1])) == []


def test_edges_are_numbered_without_those_held_out(tmp_path):
    data, parts = converted(tmp_path, {"held_out": "drop"}, attributes=["day"], features=["day"])
    lines = (tmp_path / "e.csv").read_text().split()[1:]
    days = [int(line.split(",")[3]) for line in lines if line.split(",")[2] in ("train", "")]
    assert data.graph.edge_attrs["day"].tolist() == days
    assert data.store.edge["day"].read(torch.arange(len(days))).rows.tolist() == days
    assert len(days) == len(parts["train"]) + len(parts[""])


def test_the_word_is_an_argument_and_an_option(tmp_path):
    parts = write_edges(tmp_path)
    held = len(parts["valid"]) + len(parts["test"])
    source = write_toml(tmp_path / "d.toml", {"edges": {"files": "e.csv", "split": "part"}})
    assert hr.convert(source, tmp_path / "out", held_out="drop", progress=False).graph.num_edges == 300 - held
    command = ["convert", str(tmp_path), str(tmp_path / "other"), "--edges", "e.csv", "--edge-split", "part"]
    assert main([*command, "--held-out", "drop"]) == 0
    assert hr.open_dataset(tmp_path / "other").graph.num_edges == 300 - held


def test_a_table_without_splits_has_nothing_to_hold_out(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n")
    source = write_toml(tmp_path / "d.toml", {"edges": {"files": "e.csv"}, "options": {"held_out": "drop"}})
    with pytest.raises(
        hr.InputError, match=r"held_out='drop' .*: expected a column of splits in a table of edges, got none"
    ):
        hr.convert(source, tmp_path / "out", progress=False)


def test_splits_of_other_names_are_warned_of(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst,part\n0,1,train\n1,2,dev\n2,0,test\n")
    edges = {"files": "e.csv", "split": "part"}
    source = write_toml(tmp_path / "d.toml", {"edges": edges, "options": {"held_out": "drop"}})
    with pytest.warns(
        UserWarning, match="edges in the splits 'dev' stay in the graph: held_out='drop' takes those of val"
    ):
        data = hr.convert(source, tmp_path / "out", progress=False)
    assert data.graph.num_edges == 2
