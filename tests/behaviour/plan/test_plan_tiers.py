"""plan_tiers: hot rows on devices, as many as fit, and a table that says how many reads to expect where."""

from __future__ import annotations

from dataclasses import astuple
from itertools import pairwise

import numpy as np
import pytest
import torch

import headrace as hr

from plans import NUM_NODES, RowsOnDisk, graph, items, store

DISK = hr.Place("disk")

SCORES = torch.arange(NUM_NODES, 0, -1, dtype=torch.float64) ** -1.0
ROW = 64  # bytes of a row of x


def one_store(place: hr.Place | None = None) -> hr.FeatureStore:
    x = torch.randn(NUM_NODES, 16)
    return hr.FeatureStore(node={"x": x if place is None else RowsOnDisk(x)})


def machine(gpus: int = 0, per_gpu: int = 0, memory: int = 1 << 30) -> hr.Machine:
    return hr.Machine(gpus=gpus, gpu_memory=(per_gpu,) * gpus, memory=memory)


def plan(**options: object):
    given = {"machine": machine(2, 40 * ROW), "scores": SCORES, **options}
    return hr.plan_tiers(given.pop("store", one_store()), graph(), given.pop("machine"), given.pop("scores"), **given)


def test_the_hottest_rows_are_on_devices():
    found = plan()
    sizes = found.sizes
    assert sizes.num_devices == 2
    assert sizes.replicated + -(-sizes.interleaved // 2) == 20  # half of what each device holds
    ranking = found.rank.argsort()
    assert SCORES[ranking].tolist() == sorted(SCORES.tolist(), reverse=True)


def test_out_degrees_are_those_of_the_ids_that_features_go_by():
    given, renumbered = graph(), hr.reorder(graph(), scores=hr.scores.out_degree(graph())).graph
    ranks = [hr.plan_tiers(one_store(), one, machine(2, 40 * ROW)).rank for one in (given, renumbered)]
    degrees = hr.scores.out_degree(given)
    for rank in ranks:
        assert degrees[rank.argsort()].tolist() == degrees.sort(descending=True).values.tolist()


def test_expected_hits_are_shares_of_the_scores():
    found = plan()
    by_rank = SCORES.sort(descending=True).values / SCORES.sum()
    ends = [0, found.sizes.replicated, found.sizes.replicated + found.sizes.interleaved, NUM_NODES]
    expected = [float(by_rank[a:b].sum()) for a, b in pairwise(ends) if b > a]
    assert [tier.hits for tier in found.tiers] == pytest.approx(expected)
    assert sum(tier.rows for tier in found.tiers) == NUM_NODES


def expected_time(replicated: int, interleaved: int) -> float:
    """Of a read, over two devices, with the speeds that are stated."""
    by_rank = SCORES / SCORES.sum()
    hot, dealt = float(by_rank[:replicated].sum()), float(by_rank[replicated : replicated + interleaved].sum())
    return (hot + dealt / 2) / 1e12 + dealt / 2 / 1e11 + (1 - hot - dealt) / 2e10


def test_rows_are_replicated_as_far_as_that_saves_time():
    sizes = plan().sizes
    best = min(expected_time(count, 2 * (20 - count)) for count in range(21))
    assert expected_time(sizes.replicated, sizes.interleaved) == pytest.approx(best, rel=1e-9)
    fast_links = plan(bandwidth={"peer": 1e12}).sizes
    assert (fast_links.replicated, fast_links.interleaved) == (0, 40)
    slow_links = plan(bandwidth={"peer": 2e10}).sizes
    assert (slow_links.replicated, slow_links.interleaved) == (20, 0)


def test_of_nodes_with_one_score_the_first_is_the_hottest():
    scores = torch.tensor([2.0, 5.0, 2.0, 1.0, 5.0]).repeat(NUM_NODES // 5)
    expected = sorted(range(NUM_NODES), key=lambda node: (-float(scores[node]), node))
    assert plan(scores=scores).rank.argsort().tolist() == expected
    assert plan(scores=torch.ones(NUM_NODES)).rank.tolist() == list(range(NUM_NODES))
    assert plan(scores=torch.zeros(NUM_NODES)).rank.tolist() == list(range(NUM_NODES))


def test_of_numbers_with_one_time_the_fewest_rows_are_replicated():
    scores = (torch.arange(NUM_NODES) < 128).double()  # shares, and times at these speeds, are exact
    speeds = {"cuda": 2.0**40, "peer": 2.0**40, "pinned": 2.0**30}
    roomy = plan(scores=scores, machine=machine(2, 2 * NUM_NODES * ROW), bandwidth=speeds).sizes
    assert (roomy.replicated, roomy.interleaved) == (0, NUM_NODES)
    # All that is read has room at each device, so that more than that at each gains nothing.
    slow_links = {**speeds, "peer": 2.0**30}
    most = plan(scores=scores, machine=machine(2, 2 * 160 * ROW), bandwidth=slow_links).sizes
    assert (most.replicated, most.interleaved) == (130, 60)  # the first of 64 steps of 160 rows that reaches 128


def test_rows_from_disk_go_to_host_memory_as_far_as_there_is_room():
    limited = machine(memory=2 * 30 * ROW)
    assert astuple(plan(store=one_store(DISK), machine=limited).sizes) == (0, 0, 30, 0)
    assert astuple(plan(store=one_store(DISK), machine=machine()).sizes) == (0, 0, NUM_NODES, 0)
    assert astuple(plan(store=one_store(DISK), machine=machine(memory=2 * ROW - 1)).sizes) == (0, 0, 0, 0)
    assert astuple(plan(machine=limited).sizes) == (0, 0, 0, 0)  # they are in memory already


def test_the_table_names_every_place():
    limited = machine(2, 40 * ROW, memory=2 * 30 * ROW)
    text = str(plan(store=one_store(DISK), machine=limited, bandwidth={"peer": 1.2e9})).splitlines()
    assert [line.split("  ")[0] for line in text] == ["place", "each of 2", "spread of 2", "pinned", "disk"]
    assert "expected hits" in text[0]
    assert all("%" in line for line in text[1:])


HOTTEST, NEXT = "the hottest: as far as there is room", "the next: as far as there is room"


@pytest.mark.parametrize(
    ("place", "given", "lines"),
    [
        (None, machine(1, 40 * ROW), {"cuda:0": HOTTEST, "cpu": "where they are"}),
        (None, machine(1, 1 << 30), {"cuda:0": "all: there is room"}),
        (None, machine(2, 1 << 30), {"each of 2": "all: no link is crossed"}),
        (None, machine(2, NUM_NODES * ROW), {"spread of 2": "all: 100 fit on each"}),
        (None, machine(), {"cpu": "where they are: no faster place has room"}),
        (None, machine(2, ROW), {"cpu": "where they are: no faster place has room"}),
        (DISK, machine(memory=80 * ROW), {"cpu": HOTTEST, "disk": "where they are"}),
        (DISK, machine(), {"cpu": "all: there is room"}),
        (
            DISK,
            machine(1, 40 * ROW),
            {"cuda:0": HOTTEST, "pinned": NEXT},
        ),
    ],
)
def test_the_table_says_why(place, given, lines):
    found = plan(store=one_store(place), machine=given, bandwidth={"peer": 0.9e12})
    assert {tier.place: tier.why for tier in found.tiers} == lines
    assert sum(tier.rows for tier in found.tiers) == NUM_NODES
    if not found.sizes.num_placed:
        whole = one_store(place)
        assert found.apply(whole) is whole


def test_a_plan_is_carried_out():
    whole = store()
    found = hr.plan_tiers(whole, graph(), machine(2, 100 * ROW), SCORES)
    assert found.names == ("x", "y")
    tiers = found.apply(whole, stand_ins=True)
    sampled = items().sample_neighbor(graph(), [4])
    options = {"node": ["x"], "labels": "y", "edge": ["e"]}
    expected = [batch.digest() for batch in sampled.fetch_feature(whole, **options).loader()]
    assert [batch.digest() for batch in sampled.fetch_feature(tiers, **options).loader()] == expected
    assert isinstance(tiers.node["x"], hr.TieredFeature)


def mixed_store() -> hr.FeatureStore:
    """The store of the examples: features on disk, labels in memory, and what is no feature of nodes."""
    x = RowsOnDisk(torch.randn(NUM_NODES, 16))
    return hr.FeatureStore(node={"y": torch.arange(NUM_NODES), "x": x, "few": RowsOnDisk(torch.zeros(3))})


def test_by_default_the_features_in_the_slowest_place_are_planned():
    whole = mixed_store()
    found = plan(store=whole)
    assert found.names == ("x",)
    assert found.sizes == plan(store=whole, node=["x"]).sizes
    tiers = found.apply(whole, stand_ins=True)
    assert isinstance(tiers.node["x"], hr.TieredFeature)
    assert tiers.node["y"] is whole.node["y"]
    assert plan(store=whole, node=["y"]).names == ("y",)


def test_defaults_are_out_degrees_and_this_machine():
    found = hr.plan_tiers(one_store(), graph())
    degrees = torch.bincount(graph().indices, minlength=NUM_NODES)
    by_rank = degrees[found.rank.long().argsort()]
    assert by_rank.tolist() == sorted(degrees.tolist(), reverse=True)


def test_scores_of_nothing_but_zeros_expect_no_preference():
    found = plan(scores=torch.zeros(NUM_NODES), machine=machine(1, 100 * ROW))
    assert found.tiers[0].hits == pytest.approx(50 / NUM_NODES)


def test_numbers_of_any_kind_are_taken():
    expected = plan(share=0.25, bandwidth={"peer": 2e10}).sizes
    assert plan(share=np.float32(0.25), bandwidth={"peer": np.int64(2e10)}).sizes == expected
    assert plan(share=1, bandwidth={"peer": 2e10}).sizes.replicated == 40  # all that a device holds


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"scores": SCORES[1:]}, "a number of at least 0"),
        ({"scores": SCORES - 1}, "a number of at least 0"),
        ({"scores": SCORES / 0}, "a number of at least 0"),
        ({"scores": torch.where(torch.arange(len(SCORES)) == 2, torch.nan, SCORES)}, "got nan of node 2; pass counts"),
        ({"scores": torch.where(torch.arange(len(SCORES)) == 1, torch.inf, SCORES)}, "got inf of node 1"),
        *(({"share": share}, "share to be a number above 0") for share in (0, -1, 1.5, float("nan"), "half", True)),
        *(
            ({"bandwidth": {"peer": speed}}, "got 'peer': ")
            for speed in (0, -1.0, float("inf"), float("nan"), "fast", True)
        ),
        ({"bandwidth": {"nvlink": 1e12}}, "one of cuda, peer, pinned, cpu, disk, got 'nvlink'"),
        ({"node": ["z"]}, "no node feature 'z'"),
        ({"store": hr.FeatureStore(node={"x": torch.zeros(3)})}, "a row for each of 200 nodes"),
        (
            {
                "store": hr.FeatureStore(node={"x": torch.zeros(NUM_NODES), "z": RowsOnDisk(torch.zeros(NUM_NODES))}),
                "node": ["x", "z"],
            },
            "lie in one place",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused(options, text):
    with pytest.raises(hr.InputError, match=text):
        plan(**options)
