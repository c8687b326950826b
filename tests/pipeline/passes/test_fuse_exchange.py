"""A stage that fetches and exchanges refuses sources that cannot place rows."""

from __future__ import annotations

import pytest
import torch
from hand_made import hand_made

import headrace as hr

from plans import NUM_NODES, graph, items


class Slow:
    """A source that returns rows and cannot place them."""

    num_rows, row_bytes, dtype, shape = NUM_NODES, 8, torch.float32, (NUM_NODES, 2)

    def read(self, ids, *, num_threads=1, to=None):
        return hr.Rows(torch.zeros(len(ids), 2))

    def content_digest(self):
        return "slow"


def test_refuses_what_cannot_place_rows():
    sampled = items(batch_size=40).sample_neighbor(graph(), [4, 3])
    with pytest.raises(hr.InputError, match="source of 'slow' has no read_into"):
        hand_made(sampled).fetch_and_exchange(hr.FeatureStore(node={"slow": Slow()}), node=("slow",))
