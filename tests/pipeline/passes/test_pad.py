"""The plan by which sizes are found, and the numbers of shapes."""

from __future__ import annotations

import pytest
import torch

from headrace.pipeline.lowered.pad_batch import PadBatch, pad_batch
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.machine import Machine

from plans import graph, items, store, unchanged


def padding(plan, **machine):
    """The stage that pads."""
    (stage,) = (one for one in rewrite(plan, Machine(**machine)).final.stages if isinstance(one, PadBatch))
    return stage


def plan(fanouts=(4, 3)):
    return items().sample_neighbor(graph(), list(fanouts)).fetch_feature(store(), node=["x"], labels="y")


def test_fires_with_the_plan_of_the_sizes_alone():
    assert padding(plan().prefetch().pad()).plan == items().sample_neighbor(graph(), [4, 3])
    assert padding(plan().copy_to("cpu").pad()).plan == items().sample_neighbor(graph(), [4, 3])
    first = items().copy_to("cpu").sample_neighbor(graph(), [4, 3])
    assert padding(first.fetch_feature(store(), node=["x"]).pad()).plan == first


def test_fires_with_all_that_a_function_of_the_user_may_read():
    changed = plan().transform(unchanged)
    assert padding(changed.fetch_feature(store(), edge=["e"]).pad()).plan == changed


@pytest.mark.parametrize(
    ("sampled", "shapes"),
    [
        (lambda: items().sample_neighbor(graph(), [4, 3]), 1),
        (lambda: items().sample_neighbor(graph(), [4, -1]), 4),
        (lambda: items().sample_neighbor(graph(), [4, 3], disjoint=True), 4),
        (lambda: items().sample_in_subgraph(graph()), 4),
        (lambda: items().sample_shadow(graph(), 2, 3), 4),
        (lambda: items().sample_saint_node(graph(), 40), 1),
    ],
)
def test_fires_with_more_shapes_where_batches_differ_much(sampled, shapes):
    assert padding(sampled().pad()).num_shapes == shapes
    assert padding(sampled().pad(shapes=7)).num_shapes == 7


def test_same_result_as_padding_by_hand():
    batches = list(plan().loader())
    full = padding(plan().pad([18, 70, 120], [70, 240])).given
    found = [batch.digest() for batch in plan().pad(full.num_nodes, full.num_edges).loader()]
    assert found == [pad_batch(batch, full, square=False).digest() for batch in batches]
    assert torch.equal(batches[0].x, next(iter(plan().pad().loader())).x[next(iter(plan().pad().loader())).node_mask])
