"""What is taken for an array, and what an error says of the rest."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tier_sizes import tier_sizes

import headrace as hr

pytestmark = pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype stage")


class Matrix:
    """As much of a sparse matrix of SciPy as is looked at."""

    shape = (5, 3)

    def tocoo(self):
        raise AssertionError


REFUSED = {
    "sparse": (Matrix, r"a Matrix of SciPy, \[5, 3\]; pass its .toarray\(\)"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2)] * 5), "a nested tensor; pad its rows"),
    "masked": (lambda: np.ma.masked_equal(np.arange(5), 2), r"one that masks 1 values; pass its .filled\(value\)"),
    "object": (object, "got a object; pass a tensor"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_dense_array_is_named(kind):
    make, text = REFUSED[kind]
    ids = torch.arange(5)
    for take, error in (
        (lambda given: hr.FeatureStore(node={"x": given}), hr.InputError),
        (lambda given: hr.FeatureStore(edge={("a", "to", "b"): {"x": given}}), hr.InputError),
        (lambda given: hr.ItemSampler((ids, given)), hr.InputError),
        (lambda given: hr.ItemSampler(ids, time=given), hr.InputError),
        (lambda given: hr.Graph.from_coo(ids, ids, num_nodes=5, edge_attrs={"w": given}), hr.InputError),
        (lambda given: hr.Graph.from_coo(ids, given, num_nodes=5), hr.InputError),
    ):
        with pytest.raises(error, match=text):
            take(make())


def test_a_masked_array_that_masks_nothing():
    assert hr.FeatureStore(node={"x": np.ma.array([1, 2])}).node["x"].read(torch.tensor([1])).rows.tolist() == [2]


@pytest.mark.parametrize("ids", [[0, 1, 1], [0, 1, 3], [-1, 0, 1]])
@pytest.mark.parametrize(
    "door",
    [
        lambda ids: hr.Graph.from_csc([0, 3, 3, 3], [0, 1, 2], edge_ids=ids),
        lambda ids: dataclasses.replace(hr.Graph.from_coo([0, 1], [1, 2]), node_ids=ids),
        lambda ids: hr.TieredFeature(torch.zeros(3, 1), ids, tier_sizes()),
    ],
    ids=["edge ids", "node ids", "ranks"],
)
def test_ids_that_are_not_each_once_are_refused(door, ids):
    door(torch.tensor([2, 0, 1]))
    with pytest.raises(hr.InputError, match=r"expected (edge_ids|node_ids) to be|expected a rank"):
        door(torch.tensor(ids))
