"""Exchanges between ranks whose tensors are on what stands in for a GPU: the same as on the CPU, by CUDA's kernels."""

from __future__ import annotations

import pytest
import torch
from ranks import run_ranks

from headrace.cuda.backend import stand_in
from headrace.pipeline.distributed.edge_exchange import SampledEdges, return_edges
from headrace.pipeline.distributed.exchange import Exchange, exchange_ids
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.partition.router import RankRouter

from cuda_host.stand_in import StandIn

NUM_NODES = 60
PARTITIONS = {
    "range": Partition.range(NUM_NODES, 3),
    "hash": Partition.hash(NUM_NODES, 3),
    "table": Partition.of(torch.arange(NUM_NODES) * 7 % 3),
}


def exchanged(partition: Partition) -> list[tuple[object, ...]]:
    """What each of three ranks has of an exchange of ids, rows, gradients and edges."""

    def work(comm):
        nodes = torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(comm.rank))[: 25 - 12 * comm.rank]
        router = RankRouter(partition, comm.rank, torch.arange(5))
        exchange: Exchange = exchange_ids(nodes, router, comm)
        rows = (exchange.owned[:, None] * torch.tensor([1.0, 0.5])).requires_grad_()
        came = exchange.deliver(rows, comm)
        (came * torch.arange(len(came))[:, None]).sum().backward()
        degrees = exchange.owned % 3
        picked = SampledEdges(degrees, (torch.repeat_interleave(exchange.owned, degrees),))
        edges, sent = return_edges(picked, exchange, comm)
        assert torch.equal(came, nodes[exchange.places.argsort()][:, None] * torch.tensor([1.0, 0.5]))
        assert torch.equal(edges.columns[0], torch.repeat_interleave(nodes, nodes % 3))
        tensors = [tensor.tolist() for _, tensor in exchange.named_tensors()]
        return (*tensors, exchange.send_counts, exchange.receive_counts, rows.grad.tolist(), sent)

    return run_ranks(3, work)


@pytest.mark.parametrize("name", PARTITIONS)
def test_ids_rows_gradients_and_edges_are_those_of_the_cpu(name):
    partition, backend = PARTITIONS[name], StandIn()
    expected = exchanged(partition)
    with stand_in(backend):
        assert exchanged(partition) == expected
    launched = {kernel.split("::")[1].partition("<")[0] for kernel in backend.launches}
    assert {"check_rows", "find_slots", "gather_short_rows", "scatter_add_rows"} <= launched
    assert ("hash_owners" in launched) == (name == "hash")
