"""Splits of nodes: parts that are disjoint and together all, by draw, by class, by time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr


@given(st.integers(1, 300), st.sampled_from([0, 0.1, 0.35]), st.sampled_from([0.0, 0.25]), st.integers(0, 99))
def test_parts_are_disjoint_and_all_together(count, val, test, seed):
    ids = torch.randperm(1000, generator=torch.Generator().manual_seed(seed))[:count]
    if any(share and not round(share * count) for share in (val, test)):
        with pytest.raises(hr.InputError, match=f"of {count}, which is none; raise it"):
            hr.split_nodes(ids, val=val, test=test, seed=seed)
        return
    split = hr.split_nodes(ids, val=val, test=test, seed=seed)
    assert sorted(torch.cat([one.ids for one in split.values()]).tolist()) == sorted(ids.tolist())
    for part, share in (("val", val), ("test", test)):
        assert len(split.get(part, ())) == round(share * count)
    again = hr.split_nodes(ids, val=val, test=test, seed=seed)
    assert all(torch.equal(split[part].ids, again[part].ids) for part in split)


def test_a_draw_is_as_likely_as_another():
    counts = torch.zeros(20)
    for seed in range(400):
        counts[hr.split_nodes(20, val=0, test=0.5, seed=seed)["test"].ids] += 1
    assert ((counts - 200).abs() < 5 * 10).all()  # five standard deviations


def test_each_class_has_its_share():
    classes = torch.arange(300) % 3 * (torch.arange(300) % 2)
    split = hr.split_nodes(300, val=0.2, test=60, stratify=classes, seed=3)
    for own in range(3):
        of_class = int((classes == own).sum())
        assert int((classes[split["val"].ids] == own).sum()) == round(0.2 * of_class)
        assert int((classes[split["test"].ids] == own).sum()) == round(0.2 * of_class)


@pytest.mark.parametrize("number", [60, np.int64(60), torch.tensor(60)])
def test_numbers_of_all_kinds_are_shares_of_classes(number):
    split = hr.split_nodes(300, val=number, test=0, stratify=torch.arange(300) % 3)
    assert torch.bincount(split["val"].ids % 3).tolist() == [20, 20, 20]


@given(st.integers(0, 99))
def test_by_time_parts_follow_each_other(seed):
    times = torch.randint(0, 40, (200,), generator=torch.Generator().manual_seed(seed))
    split = hr.split_nodes(200, val=0.2, test=0.2, time=times)
    assert split["train"].times.max() < split["val"].times.min() <= split["val"].times.max() < split["test"].times.min()
    for items in split.values():
        assert torch.equal(items.times, times[items.ids])


def test_a_loader_takes_a_part_with_labels_and_times():
    labels = torch.arange(50) * 2
    split = hr.split_nodes((torch.arange(50), labels), time=torch.arange(50.0))
    graph = hr.Graph.from_coo([0], [1], num_nodes=50)
    items = hr.ItemSampler(split["val"], batch_size=5)
    (batch,) = items.sample_neighbor(graph, [1]).loader()
    assert batch.y.tolist() == [80, 82, 84, 86, 88]
    assert batch.seed_time.tolist() == [40.0, 41.0, 42.0, 43.0, 44.0]
    assert hr.ItemSampler(split["val"], time=torch.zeros(5)).time.tolist() == [0.0] * 5
