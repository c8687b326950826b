"""What a rank of 4 holds in full-batch training: two shares of rows at most, and nothing of edges times heads."""

from __future__ import annotations

import copy

import pytest
import torch

import headrace as hr

pytest.importorskip("torch_geometric")
pytestmark = pytest.mark.uninstrumented

WORLD_SIZE, NUM_NODES, DEGREE, HEADS, WIDTH = 4, 512, 48, 4, 32


@pytest.fixture
def whole():
    """So dense that every rank needs the rows of all others, and has more edges than a row of all heads has values."""
    src = torch.randint(NUM_NODES, (NUM_NODES * DEGREE,), generator=torch.Generator().manual_seed(0))
    return hr.Graph.from_coo(src, torch.arange(len(src)) % NUM_NODES, num_nodes=NUM_NODES)


def test_features_of_a_sum_are_two_shares_of_those_of_one_exchange(bench, whole):
    memory = bench("sar_memory")
    table = NUM_NODES * 256 * 4
    found = {
        system: memory.measured(whole, memory.LAYER, system, WORLD_SIZE)["features"]
        for system in (memory.SAR, memory.ONE_SHOT)
    }
    assert found[memory.ONE_SHOT] >= table  # all rows are seen
    assert 2 / WORLD_SIZE * table <= found[memory.SAR] <= 1.1 * 2 / WORLD_SIZE * table


@pytest.mark.parametrize("add_self_loops", [False, True])
def test_attention_makes_nothing_of_edges_times_heads(bench, whole, add_self_loops):
    memory, live_bytes, twin = bench("sar_memory"), bench("live_bytes"), bench("twin")

    class Largest(live_bytes.LiveBytes):
        """The bytes of the largest storage that was made."""

        largest = 0

        def _see(self, tensors, *, count):
            tensors = list(tensors)
            if count:
                self.largest = max([self.largest, *(one.untyped_storage().nbytes() for one in tensors)])
            super()._see(tensors, count=count)

    torch.manual_seed(0)
    layer = memory.pyg.GATConv(WIDTH, WIDTH, heads=HEADS, add_self_loops=add_self_loops)

    def work(comm, system):
        with live_bytes.copies_of_channel_uncounted(comm):
            partition = hr.Partition.range(NUM_NODES, WORLD_SIZE)
            place = hr.sar.ShardedGraph(whole, partition, comm, **memory.OPTIONS[system])
            conv = copy.deepcopy(layer)
            over = memory.Plainly(place, system) if system == memory.PLAIN else hr.sar.wrap(conv, place)
            x = torch.randn(place.num_src, WIDTH, requires_grad=True)
            with Largest([], [*memory.known(place), x]) as live:
                out = over(conv, x) if system == memory.PLAIN else over(x, place)
                out.square().sum().backward()
            return live.largest, place.num_edges * HEADS * x.element_size()

    for largest, edges_times_heads in twin.run_twin(WORLD_SIZE, lambda comm: work(comm, memory.SAR)):
        assert NUM_NODES / WORLD_SIZE * HEADS * WIDTH * 4 <= largest < edges_times_heads
    if not add_self_loops:  # layers that do make it are found out
        for largest, edges_times_heads in twin.run_twin(WORLD_SIZE, lambda comm: work(comm, memory.PLAIN)):
            assert largest >= edges_times_heads
