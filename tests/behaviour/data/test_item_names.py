"""Several sets of items by name, and short texts of items, splits and types of links."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import headrace as hr

LIKES = ("user", "like", "item")


def split() -> object:
    ends = torch.arange(1000)
    typed = hr.Graph.from_coo({LIKES: (ends, ends)}, num_nodes={"user": 1000, "item": 1000})
    return hr.split_links(typed, val=0.25, test=0.25)


@pytest.mark.parametrize(
    ("given", "came"),
    [
        (lambda: hr.split_nodes(10), "item sets by name, train, val, test"),
        (lambda: split().items, "item sets by name, train, val, test"),
        (split, "a LinkSplit with item sets by name, train, val, test"),
    ],
)
def test_one_of_several_is_asked_for(given, came):
    with pytest.raises(hr.InputError, match=rf"^ItemSampler: .*got {came}; pass .*such as data\.items\['train'\]"):
        hr.ItemSampler(given())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("item", torch.arange(3)), r"items of a type in a dictionary, got a tuple with 'item'; write \{'item': ids\}"),
        (Data(x=torch.zeros(3, 1)), r"got a Data; pass the seeds, such as data\.train_mask"),
    ],
)
def test_seeds_as_peers_take_them(given, message):
    with pytest.raises(hr.InputError, match=message):
        hr.ItemSampler(given)


def test_so_it_is_in_configs():
    graph = hr.Graph.from_coo([0, 1], [1, 0])
    config = hr.ItemSampler(torch.tensor([1, 0])).sample_neighbor(graph, [2]).config()
    with pytest.raises(hr.InputError, match=r"item sets by name"):
        hr.Plan.from_config(config, graphs=graph, items=hr.split_nodes(10))


def test_items_are_shown_by_dtypes_and_shapes():
    assert repr(split().items["train"]) == f"Items({{{LIKES}: int64[500, 2]}})"
    assert repr(hr.Items([3, 1, 2])) == "Items(3 in a list)"
    assert repr(hr.Items(range(4))) == "Items(range(0, 4))"
    shown = repr(hr.Items({"a": np.arange(2)}, labels={"a": torch.ones(2)}, times=torch.arange(2)))
    assert shown == "Items({'a': int64[2]}, labels={'a': float32[2]}, times=int64[2])"


def test_what_has_them_is_short():
    ids = torch.arange(999)
    for one in (split(), split().items, hr.reorder(hr.Graph.from_coo(ids, ids), order=ids)):
        assert len(repr(one)) < 1000
        assert "tensor(" not in repr(one)
    plan = hr.ItemSampler(split().items["train"], batch_size=3)
    assert "tensor(" not in repr(plan.items)
    batch = next(iter(plan.sample_neighbor(split().graphs["train"], [2]).loader()))
    assert repr(batch.link_types) == f"LinkTypes([{LIKES}], int64[3])"
