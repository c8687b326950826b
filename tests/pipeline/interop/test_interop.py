"""What users of PyG rely on: the attributes of batches, and models that give the same numbers as on the whole graph."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr

EXPAND = st.sampled_from(["all", "new"])


def first_batch(plan):
    with plan.loader() as loader:
        return next(iter(loader))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.sampled_from(["store", "items"]), EXPAND)
@settings(max_examples=60)
def test_repeated_seeds_have_one_row_each(seeds, source, expand):
    """Labels are those of the rows, in order of first occurrence, and `seed_index` leads from each seed to its row."""
    graph = hr.Graph.from_coo([0, 1, 2, 3], [1, 2, 0, 5], num_nodes=6)
    ids = torch.tensor(seeds)
    labels = torch.stack([10 * ids, -ids], 1)
    plan = hr.ItemSampler((ids, labels) if source == "items" else ids).sample_neighbor(graph, [-1, 1], expand=expand)
    if source == "store":
        everyone = torch.arange(6)
        plan = plan.fetch_feature(hr.FeatureStore(node={"y": torch.stack([10 * everyone, -everyone], 1)}), labels="y")
    data = first_batch(plan).to_pyg()
    rows = data.n_id[: data.batch_size]
    assert rows.tolist() == list(dict.fromkeys(seeds))
    assert torch.equal(data.y, torch.stack([10 * rows, -rows], 1))
    # What PyG keeps of the seeds as they came: all their items, and here the row of each.
    assert data.input_id.tolist() == list(range(len(seeds)))
    assert torch.equal(data.n_id[data.seed_index], ids)
    assert torch.equal(data.y[data.seed_index], labels)
