"""What fits a data set of before does not fit one that was converted anew, if ids have moved."""

from __future__ import annotations

import pytest
import torch
from table_files import write_toml

import headrace as hr

NODES = "id,split\na,train\nb,train\nc,test\n"
MOVED = "id,split\nb,train\na,train\nc,test\n"


def converted(folder, name, nodes, edges="src,dst\na,b\nb,c\nc,a\n"):
    (folder / "n.csv").write_text(nodes)
    (folder / "e.csv").write_text(edges)
    sections = {"nodes": {"files": "n.csv", "id": "id", "split": "split"}, "edges": {"files": "e.csv"}}
    hr.convert(write_toml(folder / "d.toml", sections), folder / name, progress=False)
    return hr.open_dataset(folder / name)


@pytest.fixture
def data(tmp_path):
    return [
        converted(tmp_path, "old", NODES),
        converted(tmp_path, "moved", MOVED),
        converted(tmp_path, "more edges", NODES, "src,dst\na,c\n"),
    ]


def plan(items, graph):
    return hr.ItemSampler(items, batch_size=2).sample_neighbor(graph, [1])


def test_items(data, tmp_path):
    old, moved, more = data
    torch.save(old.items["train"], tmp_path / "items.pt")
    items = torch.load(tmp_path / "items.pt", weights_only=False)
    with pytest.raises(hr.InputError, match=r"expected items of the data set of the graph, .* numbered otherwise"):
        plan(items, moved.graph).loader()
    for one in (old, more):
        assert len(list(plan(items, one.graph).loader())) == 1
    assert len(list(plan(items.ids, moved.graph).loader())) == 1  # nobody knows of what these are


def test_configs(data):
    old, moved, more = data
    config = plan(old.items["train"], old.graph).config(graphs=old.graph)
    with pytest.raises(hr.PlanError, match=r"from_config: expected the graph of the data set .* numbered otherwise"):
        hr.Plan.from_config(config, graphs=moved.graph, items=moved.items["train"])
    assert hr.Plan.from_config(config, graphs=more.graph, items=more.items["train"]).config() == config


def test_numbering(data):
    old, moved, more = data
    assert old.numbering == more.numbering != moved.numbering
    assert len(old.numbering) == 16


def test_ids_that_are_numbers_of_nodes(tmp_path):
    """They have moved where they are others afterwards, and not where edges are."""
    edges = "src,dst\n0,1\n1,2\n2,0\n"
    numbers = converted(tmp_path, "numbers", "id,split\n0,train\n1,train\n2,test\n", edges)
    moved = converted(tmp_path, "moved", "id,split\n2,test\n0,train\n1,train\n", edges)
    again = converted(tmp_path, "again", "id,split\n0,train\n1,train\n2,test\n", "src,dst\n0,2\n")
    for one, other in ((numbers, moved), (moved, numbers)):
        with pytest.raises(hr.InputError, match="numbered otherwise"):
            plan(one.items["train"], other.graph).loader()
        with pytest.raises(hr.PlanError, match="numbered otherwise"):
            hr.Plan.from_config(plan(3, one.graph).config(graphs=one.graph), graphs=other.graph)
    assert len(list(plan(numbers.items["train"], again.graph).loader())) == 1


@pytest.mark.slow
@pytest.mark.parametrize("made", ["undirected", "with_self_loops", "with_reverse"])
def test_graphs_that_are_made_of_that_of_a_data_set(data, made):
    old, moved, _ = data
    assert len(list(plan(old.items["train"], getattr(old.graph, made)()).loader())) == 1
    with pytest.raises(hr.InputError, match="numbered otherwise"):
        plan(old.items["train"], getattr(moved.graph, made)()).loader()
