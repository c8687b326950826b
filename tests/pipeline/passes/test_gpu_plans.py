"""Plans of ranks with GPUs that no channel reaches."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.pipeline.passes import rewrite

from plans import graph, items, store

TOGETHER_BY_CPUS = """\
  item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  exchange_ids(HashPartition(200 nodes, {world_size} parts))
  sample_fused(graph#1, [NeighborRule(4)], key_layers=[0])
  exchange_ids(HashPartition(200 nodes, {world_size} parts))
  sample_fused(graph#1, [NeighborRule(3)], key_layers=[1], first_layer=1)
  exchange_ids(HashPartition(200 nodes, {world_size} parts))
  prefetch(1)
  fetch_feature(store#1, labels='y')
  fetch_and_exchange(store#1, node=['x'])
  return_ids
  prefetch
  on_stream(cuda:{last})
  copy_to('cuda:{last}')
  prefetch(1)
  wait_stream
ranks exchange ids and rows of batches and rows of the model through CPU memory, as their channel reaches no GPU \
kernels for GPUs have been tested on CPUs only; no GPU has run them yet"""


@pytest.mark.parametrize("world_size", [2, 4, 8])
def test_golden_plans_of_ranks_that_make_batches_together(world_size):
    plan = items().copy_to("cuda").sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"], labels="y")
    last = world_size - 1
    machine = hr.Machine(cores=4, gpus=world_size, world_size=world_size, rank=last, current_gpu=last)
    text = rewrite(plan, machine, {"cooperative": True}).explain()
    runs = text.split("plan as written")[0].split("\n", 1)[1]
    assert runs + " ".join(text[text.index("ranks exchange") :].split()) == TOGETHER_BY_CPUS.format(
        world_size=world_size, last=last
    )
