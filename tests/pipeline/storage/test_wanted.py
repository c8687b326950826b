"""What is wanted of a store, as stages and passes ask it."""

from __future__ import annotations

import pytest
import torch

import headrace as hr
from headrace.pipeline.storage.wanted import Wanted

from plans import RowsOnDisk

DISK = hr.Place("disk")

STORE = hr.FeatureStore(
    node={"x": torch.arange(6.0), "y": RowsOnDisk(10 + torch.arange(6))},
    edge={"e": 20 + torch.arange(4), "f": RowsOnDisk(30 + torch.arange(4))},
)
WANTED = Wanted(STORE, node=("y", "x"), edge=("e", "f"), labels="y")


def batch() -> hr.MiniBatch:
    graph = hr.Graph.from_coo([1, 2, 3, 4], [0, 0, 1, 2], num_nodes=6)
    return next(iter(hr.ItemSampler([2, 0]).sample_neighbor(graph, [-1, -1]).loader()))


def test_rows_come_to_the_fields_of_their_ids():
    filled = WANTED.filled(batch(), ([10 * one for one in ids] for ids in WANTED.ids(batch())))
    assert filled.node["y"].tolist() == filled.node["x"].tolist() == (10 * filled.n_id).tolist()
    assert [rows.tolist() for rows in filled.edge["f"]] == [(10 * block.edge_ids).tolist() for block in filled.blocks]
    assert filled.y.tolist() == [20, 0]
    named = [(source is STORE.node["y"]) for source in WANTED.sources()]
    assert named == [True, False, False, False, True]
    last = Wanted(STORE, edge=("e", "f"))
    rows = [[torch.full((len(one),), number) for one in ids] for number, ids in enumerate(last.ids(batch()))]
    assert [int(last.filled(batch(), rows).edge[name][0][0]) for name in ("e", "f")] == [0, 1]


def test_labels_are_not_taken_for_others():
    labelled = batch().replace(y=torch.zeros(2))
    with pytest.raises(hr.PlanError, match="would replace labels"):
        WANTED.filled(labelled, [[torch.zeros(0)] * 2] * 5)
    assert Wanted(STORE, node=("x",)).filled(labelled, [[torch.zeros(0)]]).y is labelled.y


def test_what_some_have_and_the_rest_are_the_whole():
    on_disk = WANTED.only(lambda source: source.place == DISK)
    assert on_disk == Wanted(STORE, node=("y",), edge=("f",), labels="y")
    assert WANTED.without(on_disk) == Wanted(STORE, node=("x",), edge=("e",))
    of_nodes = WANTED.of_nodes(["x"])
    assert of_nodes == Wanted(STORE, node=("x",))
    assert WANTED.without(of_nodes) == Wanted(STORE, node=("y",), edge=("e", "f"), labels="y")
    assert not WANTED.without(WANTED)
    assert of_nodes
    assert WANTED.fetches == {("node", "x"), ("node", "y"), ("edge", "e"), ("edge", "f")}


def test_labels_of_several_types_are_wanted_together():
    x = {"paper": {"y": torch.zeros(2)}, "author": {"y": RowsOnDisk(torch.zeros(2))}}
    wanted = Wanted(hr.FeatureStore(node=x), labels={"paper": "y", "author": "y"})
    assert wanted.only(lambda source: source.place == DISK).labels is None
    assert wanted.only(lambda source: source.place == DISK, labels=any) == wanted
