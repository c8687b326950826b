"""strictly_before=True: a seed does not find what is of its own time, at the ends of what times can be too."""

from __future__ import annotations

import math

import pytest
import torch

import headrace as hr

FIRST, LAST = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max
TINY = 5e-324
SAMPLERS = ["sample_neighbor", "sample_layer_neighbor"]


def graph(times, **attrs):
    """Node 0 with an edge of each time, in an order that is none of times."""
    return hr.Graph.from_coo(
        range(1, len(times) + 1), [0] * len(times), num_nodes=len(times) + 1, edge_attrs={"t": times}, **attrs
    )


def found(one, time, sampler="sample_neighbor", **options):
    kind = torch.float64 if isinstance(time, float) else torch.int64
    (batch,) = getattr(hr.ItemSampler([0], time=torch.tensor([time], dtype=kind)), sampler)(
        one, [-1], time="t", strictly_before=True, **options
    ).loader()
    assert batch.seed_time.tolist() == [time]
    times = one.edge_attrs["t"][batch.blocks[0].edge_ids]
    return sorted(times.tolist())


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("window", [None, 10, LAST])
@pytest.mark.parametrize("kind", [torch.int64, torch.int8])
def test_integers(sampler, window, kind):
    times = torch.tensor([5, 3, 4, 5, 6, -5], dtype=kind)
    reach = math.inf if window is None else window
    expected = [time for time in sorted(times.tolist()) if 5 - reach <= time < 5]
    assert found(graph(times), 5, sampler, window=window) == expected


@pytest.mark.parametrize("window", [None, 1, LAST])
def test_the_smallest_and_the_largest_integer(window):
    one = graph(torch.tensor([FIRST, FIRST + 1, 0, LAST - 1, LAST]))
    assert found(one, FIRST, window=window) == []
    assert found(one, FIRST + 1, window=window) == [FIRST]
    assert found(one, LAST, window=None) == [FIRST, FIRST + 1, 0, LAST - 1]
    assert found(one, LAST, window=1) == [LAST - 1]


@pytest.mark.parametrize("window", [None, 2.0, math.inf])
@pytest.mark.parametrize("time", [0.0, -0.0])
def test_both_zeros_are_one_time(time, window):
    one = graph(torch.tensor([0.0, -0.0, TINY, -TINY, -1.0], dtype=torch.float64))
    assert found(one, time, window=window) == [-1.0, -TINY]


def test_floating_point_next_to_each_other():
    times = torch.tensor([1.0, math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0)], dtype=torch.float64)
    assert found(graph(times), 1.0) == [math.nextafter(1.0, 0.0)]
    assert found(graph(times), math.nextafter(1.0, 2.0)) == [math.nextafter(1.0, 0.0), 1.0]


def test_infinite_times():
    one = graph(torch.tensor([-math.inf, 0.0, math.inf], dtype=torch.float64))
    assert found(one, -math.inf) == []
    assert found(one, 0.0) == [-math.inf]
    assert found(one, math.inf) == [-math.inf, 0.0]


def test_a_window_reaches_back_from_the_time_itself():
    one = graph(torch.tensor([1, 2, 3, 4, 5]))
    assert found(one, 5, window=2) == [3, 4]


def test_all_hops_go_by_the_time_of_the_seed():
    """The edge 2 -> 1 is later than 1 -> 0, and earlier than the seed."""
    chain = hr.Graph.from_coo([1, 2, 3], [0, 1, 1], num_nodes=4, edge_attrs={"t": [3, 9, 10]})
    plan = hr.ItemSampler([0], time=[10]).sample_neighbor(chain, [-1, -1], time="t", strictly_before=True)
    assert sorted(next(iter(plan.loader())).n_id.tolist()) == [0, 1, 2]


def test_times_of_nodes_alone():
    one = hr.Graph.from_coo([1, 2, 0], [0, 0, 0], num_nodes=3, node_attrs={"t": [5, 5, 4]})
    plan = hr.ItemSampler([0], time="t").sample_neighbor(one, [-1], time="t", strictly_before=True)
    assert next(iter(plan.loader())).n_id.tolist() == [0, 2]


def test_earlier_repeats_of_a_link_stay():
    one = hr.Graph.from_coo([1, 1, 1, 2], [0, 0, 0, 0], num_nodes=3, edge_attrs={"t": [10, 20, 30, 5]})
    plan = hr.ItemSampler(torch.tensor([[1, 0]]), time=[30]).sample_neighbor(one, [-1], time="t", strictly_before=True)
    assert sorted(next(iter(plan.loader())).e_id.tolist()) == [0, 1, 3]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strictly_before": True}, "expected time= beside strictly_before=True, got none"),
        ({"strictly_before": True, "disjoint": True}, "expected time= beside strictly_before=True, got none"),
        ({"strictly_before": 1, "time": "t"}, "expected strictly_before to be True or False, got 1"),
        ({"strictly_before": True, "time": "t", "window": 0}, "expected a window above 0 beside strictly_before=True"),
    ],
)
def test_what_is_refused(sampler, options, message):
    with pytest.raises(hr.InputError, match=f"{sampler}: {message}"):
        getattr(hr.ItemSampler([0], time=[1]), sampler)(graph([1, 2]), [1], **options)


def test_a_checkpoint_of_the_other_kind_is_refused():
    one = graph([1, 2, 3])

    def loader(*, strictly):
        plan = hr.ItemSampler([0, 0], time=[3, 3], batch_size=1, seed=0)
        return plan.sample_neighbor(one, [2], time="t", strictly_before=strictly).loader()

    with pytest.raises(hr.HeadraceError):
        loader(strictly=True).load_state_dict(loader(strictly=False).state_dict())


JOINED = hr.Graph.from_coo(
    [0, 0, 0], [1, 2, 3], num_nodes=4, edge_attrs={"e": [1, 5, 9]}, node_attrs={"n": [1, 5, 9, 10]}
)


def drawn(moment, **options):
    """Negative destinations of the pair 0 -> 3 at a time."""
    pairs = hr.ItemSampler(torch.tensor([[0, 3]]), time=[moment], seed=1)
    (batch,) = pairs.sample_uniform_negative(JOINED, 200, strictly_before=True, **options).loader()
    return set(batch.seeds[1:, 1].tolist())


def test_negatives_are_nodes_of_before():
    assert drawn(9, time="n") == {0, 1}
    assert drawn(10, time="n") == {0, 1, 2}


def test_by_degree_the_edge_of_the_pair_does_not_count():
    assert drawn(9, time="e", node_weight="degree") == {1, 2}


def test_pairs_for_which_nothing_is_there_have_no_negative():
    with pytest.raises(hr.InputError, match="pair 0 of the items has no negative: it is no later than any of the"):
        drawn(1, time="n")


def test_negatives_without_times():
    with pytest.raises(hr.InputError, match="expected time= beside strictly_before=True, got none"):
        drawn(1)


def test_float32_and_float64_of_one_time_are_equal():
    """Times such as 1/7, that float32 rounds: a link asked for at its own time does not find itself."""
    pairs = torch.stack([torch.arange(1, 41), torch.zeros(40, dtype=torch.int64)], 1)
    exact = torch.arange(40).double() / 7
    narrow = graph(exact.float())
    plan = hr.ItemSampler(pairs, time=exact, batch_size=1).sample_neighbor(narrow, [-1], time="t", strictly_before=True)
    for index, batch in enumerate(plan.loader()):
        assert sorted(batch.blocks[0].edge_ids.tolist()) == list(range(index))
        assert batch.seed_time.tolist() == exact[index : index + 1].float().tolist()
    mixed = graph(exact, node_attrs={"t": torch.zeros(41)})  # edges are rounded as nodes are
    (batch,) = hr.ItemSampler([0], time=exact[1:2].float()).sample_neighbor(mixed, [-1], time="t").loader()
    assert sorted(batch.blocks[0].edge_ids.tolist()) == [0, 1]
    wanted = "expected times of seeds as precise as those of the graph, got float32 seeds and float64 times 't'"
    with pytest.raises(hr.InputError, match=wanted):
        hr.ItemSampler(pairs, time=exact.float()).sample_neighbor(graph(exact), [-1], time="t").loader()
    whole = graph(torch.arange(40).double())
    plan = hr.ItemSampler(pairs, time=torch.arange(40.0)).sample_neighbor(whole, [-1], time="t")
    assert len(plan.loader()) == 1, "float32 holds whole numbers exactly"


def test_negatives_go_by_times_as_precise_as_the_nodes():
    times = torch.tensor([0.1, 0.1, 0.3])
    one = hr.Graph.from_coo([0], [1], num_nodes=3, node_attrs={"t": times})
    exact = torch.tensor([0.3], dtype=torch.float64)
    assert times[2].double() > exact, "rounded up, as 0.3 is"
    plan = hr.ItemSampler(torch.tensor([[0, 1]]), time=exact, seed=0).sample_uniform_negative(one, 50, time="t")
    (batch,) = plan.loader()
    assert 2 in batch.seeds[1:, 1], "node 2 is there at its own time"
