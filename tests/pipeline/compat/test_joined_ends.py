"""Ends of edges of several types in one list."""

from __future__ import annotations

import torch

from headrace.pipeline.data.build_graph import joined_ends


def test_ids_are_as_narrow_as_they_fit():
    largest = torch.iinfo(torch.int32).max
    ids, other = torch.tensor([3, 1]), torch.tensor([0, 5], dtype=torch.int32)
    source, destination = joined_ends([(ids, other, 0, 10), (other, ids, 3, 0)])
    assert source.dtype == destination.dtype == torch.int32
    assert source.tolist() == [3, 1, 3, 8]
    assert destination.tolist() == [10, 15, 3, 1]
    for wide, offset in ((torch.tensor([largest]), 1), (torch.tensor([2**40]), 0), (torch.tensor([-1 - 2**31]), 0)):
        source, _ = joined_ends([(wide, wide, offset, offset)])
        assert source.tolist() == [int(wide) + offset]
    assert [len(one) for one in joined_ends([])] == [0, 0]
