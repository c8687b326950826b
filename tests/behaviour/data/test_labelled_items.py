"""Labels with the items of each type."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr

PAPER, AUTHOR, WRITES = "paper", "author", ("author", "writes", "paper")
TYPED = hr.Graph.from_coo([5, 6], [0, 1], node_types={PAPER: 5, AUTHOR: 3}, edge_types={WRITES: 2})


def drawn(items, **options):
    (batch,) = hr.ItemSampler(items, batch_size=20, **options).sample_neighbor(TYPED, [1]).loader()
    return batch


class Labelled(torch.utils.data.Dataset):
    """Node i with label 10 * i."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return index, 10 * index


@pytest.mark.parametrize(
    "of_authors",
    [
        ([1, 2], [10, 20]),
        (np.array([1, 2]), np.array([10, 20])),
        [torch.tensor([1, 2, 0]), torch.tensor([10, 20, 0])],
        (torch.tensor([False, True, True]), [10, 20]),
        (range(1, 3), [10, 20]),
        Labelled(),
    ],
    ids=["lists", "arrays", "list of tensors", "mask", "range", "data set"],
)
def test_labels_stand_with_the_ids_of_each_type(of_authors):
    batch = drawn({PAPER: (torch.tensor([4, 0]), torch.tensor([7, 8])), AUTHOR: of_authors})
    assert batch.seeds[:2].tolist() == [4, 0]
    assert batch.y[:2].tolist() == [7, 8]
    assert torch.equal(batch.y[2:], (batch.seeds[2:] - 5) * 10)
    assert len(batch.y) == len(batch.seeds) > 3


def test_labels_of_each_type_are_those_beside_it():
    together = {PAPER: (torch.tensor([4, 0]), torch.tensor([7, 8])), AUTHOR: (torch.tensor([1]), torch.tensor([9]))}
    apart = ({name: ids for name, (ids, _) in together.items()}, {name: y for name, (_, y) in together.items()})
    assert hr.ItemSampler(together, seed=0) == hr.ItemSampler(apart, seed=0)
    turned = (apart[0], dict(reversed(apart[1].items())))  # in another order of types than the items
    assert hr.ItemSampler(turned, seed=0).items.labels.tolist() == [7, 8, 9]


def test_labels_stand_with_the_pairs_of_each_type():
    pairs = torch.tensor([[0, 1], [2, 4]])
    batch = drawn({WRITES: (pairs, torch.tensor([0.5, 1.5]))}, time={WRITES: [3, 4]})
    assert batch.seeds.tolist() == [[5, 1], [7, 4]]
    assert batch.y.tolist() == [0.5, 1.5]
    assert batch.seed_time.tolist() == [3, 4]
