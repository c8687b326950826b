"""Parts of two graphs whose arrays have one shape."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from part_files import write

import headrace as hr

from plans import NUM_NODES

OWNERS = {"range": hr.Partition.range(NUM_NODES, 2), "table": hr.Partition.of(np.arange(NUM_NODES) % 2, 2)}


def regular(seed: int) -> tuple[hr.Graph, hr.FeatureStore]:
    """A graph in which every node has three in-edges, with features: all arrays of all parts have one shape."""
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(0, NUM_NODES, (3 * NUM_NODES,), generator=generator)
    dst = torch.arange(NUM_NODES).repeat(3)[torch.randperm(3 * NUM_NODES, generator=generator)]
    one = hr.Graph.from_coo(src, dst, num_nodes=NUM_NODES, edge_attrs={"w": torch.rand(len(src), generator=generator)})
    node = {"x": torch.rand(NUM_NODES, 3, generator=generator), "y": torch.randperm(NUM_NODES, generator=generator)}
    return one, hr.FeatureStore(node=node)


@pytest.fixture(scope="module")
def two_writes(tmp_path_factory):
    """Parts of two graphs, cut alike, by kind of partition."""
    folder = tmp_path_factory.mktemp("two")
    for kind, seed in itertools.product(OWNERS, (0, 1)):
        one, features = regular(seed)
        owners = OWNERS[kind]
        if kind == "table" and seed:
            owners = hr.Partition.of(1 - np.arange(NUM_NODES) % 2, 2)
        write(folder / kind / str(seed), one, owners, features)
    return folder
