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


def test_numbers_of_nodes_have_none(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n")
    source = write_toml(tmp_path / "d.toml", {"nodes": {"num_nodes": 3}, "edges": {"files": "e.csv"}})
    data = hr.convert(source, tmp_path / "out", progress=False)
    assert data.numbering is None
    assert "numbering" not in plan(3, data.graph).config(graphs=data.graph)
