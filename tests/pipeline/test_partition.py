"""Partitions: every vertex has one owner, and owners agree with the lists of what they own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr


def partitions(num_nodes: int, num_parts: int) -> list[hr.Partition]:
    owners = torch.randint(num_parts, (num_nodes,), generator=torch.Generator().manual_seed(num_nodes))
    return [
        hr.Partition.range(num_nodes, num_parts),
        hr.Partition.hash(num_nodes, num_parts),
        hr.Partition.of(owners, num_parts),
    ]


@given(st.integers(0, 200), st.integers(1, 9))
def test_owners_agree_with_what_is_owned(num_nodes: int, num_parts: int) -> None:
    ids = torch.arange(num_nodes)
    for partition in partitions(num_nodes, num_parts):
        owner = partition.owner(ids)
        assert owner.dtype == torch.int32
        assert sum(partition.sizes) == num_nodes
        for part in range(num_parts):
            owned = partition.owned(part)
            assert torch.equal(owned, ids[owner == part])
            assert len(owned) == partition.sizes[part]
            assert torch.equal(owned[partition.position(owned)], owned)


def test_ranges_differ_by_one_at_most() -> None:
    assert hr.Partition.range(10, 4).sizes == (2, 3, 2, 3)


def test_hash_is_that_of_splitmix64() -> None:
    # The first outputs of SplitMix64 from state 0 are the finalizer at multiples of its increment.
    increment, known = 0x9E3779B97F4A7C15, (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F)
    states = [(i + 1) * increment % 2**64 for i in range(3)]
    signed = torch.tensor([state - 2**64 if state >= 2**63 else state for state in states])
    parts = 1 << 16
    assert hr.Partition.hash(1, parts).owner(signed).tolist() == [output >> 48 for output in known]


def test_hash_spreads_evenly() -> None:
    # 2**20 ids over 7 parts: each load is binomial with standard deviation 358.
    sizes = np.array(hr.Partition.hash(1 << 20, 7).sizes)
    assert np.abs(sizes - (1 << 20) / 7).max() < 5 * 358


@pytest.mark.parametrize("owners", [[0, 3], [-1, 0], [0.5], [[0]]])
def test_owners_out_of_range_are_refused(owners: list[object]) -> None:
    with pytest.raises(hr.InputError, match="owners must be"):
        hr.Partition.of(owners, 3)


def test_partitions_compare_by_their_owners() -> None:
    by_range = hr.Partition.range(6, 3)
    assert by_range == hr.Partition.of([0, 0, 1, 1, 2, 2])
    assert by_range != hr.Partition.of([0, 0, 1, 1, 2, 1])
    assert by_range.content_digest() == hr.Partition.of([0, 0, 1, 1, 2, 2]).content_digest()
