"""Ranks of torchrun that were given different things: all are told, or every item comes once and nobody waits."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pytest

from launched import run_script

pytestmark = pytest.mark.slow

DIFFERENT = {
    "items": "item_sampler: expected the same items on all ranks, got",
    "uneven": "items_per_rank=True",
    "strided": "item_sampler: expected the same items",
    "mask": "item_sampler: expected the same items",
    "labelled": "item_sampler: expected the same items",
    "pairs": "item_sampler: expected the same items",
    "time": "item_sampler: expected the same time",
    "typed": "item_sampler: expected the same items",
    "seed": "item_sampler: expected the same seed on all ranks, got 0 on rank 0, 1 on rank 1",
    "some seed": "item_sampler: expected the same seed on all ranks, got 0 on rank 0, none on rank",
    "batch_size": "item_sampler: expected the same batch_size on all ranks, got 30 on rank 0, 31 on rank 1",
    "shuffle": "item_sampler: expected the same shuffle on all ranks, got True on rank 0, False on rank",
    "fanouts": "sample_neighbor: expected the same fanouts on all ranks, got",
    "graph": "sample_neighbor: expected the same graph on all ranks, got",
    "stages": "expected the same stages on all ranks, got item_sampler, sample_layer_neighbor on rank 0",
    "clusters": "cluster_sampler: expected the same partition on all ranks, got",
    "global": "global_batch: expected the same graph on all ranks, got",
}


@pytest.fixture(scope="module", params=[2, 3])
def ranks(request, tmp_path_factory):
    """What each rank of a job was told."""
    folder = tmp_path_factory.mktemp("given")
    run_script(Path(__file__).with_name("given_rank.py"), folder, num_processes=request.param)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(request.param)]


@pytest.mark.parametrize("name", DIFFERENT)
def test_all_ranks_are_told_what_differs(name, ranks):
    for told in ranks:
        assert DIFFERENT[name] in told[name]
        assert "rank=0, world_size=1" in told[name]


def test_items_of_their_own_come_once_in_as_many_batches(ranks):
    size = len(ranks)
    total = [0, 20, 110, 180][size]
    for name in ranks[0]["own"]:
        shares = [told["own"][name] for told in ranks]
        assert len({len(share["seeds"]) for share in shares}) == 1, name
        sums = [sum(map(len, parts)) for parts in zip(*(share["seeds"] for share in shares), strict=True)]
        sizes = [sum(parts) for parts in zip(*(share["sizes"] for share in shares), strict=True)]
        assert all(share["global"] == sizes for share in shares), name
        if name != "per rank":
            assert set(sums[:-1]) == {25}, name
        else:
            assert max(len(seeds) for share in shares for seeds in share["seeds"]) == 12
        seen = sorted(chain.from_iterable(chain.from_iterable(share["seeds"] for share in shares)), key=str)
        expected = total - 20 if name == "one rank has none" else total
        assert len(seen) == expected, name
        if name != "pairs":
            assert len(set(seen)) == expected, name
        assert all(share["resumed"] for share in shares), name


def test_empty_shares_are_told_once(ranks):
    [warning] = ranks[0]["warnings"]
    assert "rank 0 gets a share without seeds of some batches, over which the mean of losses is NaN" in warning
    assert "batch.num_global_seeds" in warning


def test_a_rank_that_cooperates_alone_is_told(ranks):
    for told in ranks:
        assert "got cooperative=True or shards on ranks [1" in told["cooperative"]


def test_a_rank_that_moves_alone_is_told_to_all(ranks):
    for told in ranks:
        [error] = told["moved"]["True"]["told"]
        assert "batch 3 of epoch 0 on rank 1" in error
        assert told["moved"]["False"]["told"] == []
        assert [one["batches"] for one in told["moved"].values()] == [12, 12]


def test_a_rank_that_refuses_is_named(ranks):
    assert "cache" in ranks[0]["refused"]
    for told in ranks[1:]:
        assert told["refused"].startswith("PeerError: rank 0 failed:")


def test_a_loader_of_one_rank(ranks):
    assert ranks[0]["alone"] == 50
    assert "ended, where rank 0 makes a loader, which all ranks make" in ranks[0]["never"]
    assert ".loader(rank=0, world_size=1)" in ranks[0]["never"]
