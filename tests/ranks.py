"""Several ranks in one process: what each of them does runs in a thread of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

import torch

import headrace as hr
from headrace.testing import LocalGroup

from copies import HEADRACE, Process
from plans import NUM_NODES, graph

T = TypeVar("T")


def run_ranks(world_size: int, work: Callable[[hr.Comm], T], *, timeout: float = 60.0) -> list[T]:
    """Run `work` on every rank; return the results in the order of the ranks, or raise the first rank's own error."""
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}

    def run(comm: hr.Comm) -> None:
        try:
            results[comm.rank] = work(comm)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors[comm.rank] = error
            comm.fail(repr(error))

    threads = [threading.Thread(target=run, args=(comm,)) for comm in LocalGroup(world_size, timeout).comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in sorted(errors.values(), key=lambda one: isinstance(one, hr.PeerError)):
        raise error
    return [results[rank] for rank in range(world_size)]


def run_processes(
    script: str,
    world_size: int,
    meeting: Path,
    *arguments: str,
    failing: bool = False,
    imports: tuple[str, ...] = HEADRACE,
) -> list[str]:
    """Run a script in a process per rank, with rank, world size, meeting point and more; return what each printed.

    All must end well, unless a rank is `failing`: others leave a collective then, of which torch may free a tensor when
    Python has ended.
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    processes = [
        Process(script, rank, world_size, meeting, *arguments, environment=environment, imports=imports)
        for rank in range(world_size)
    ]
    printed, errors = zip(*(process.communicate(timeout=120) for process in processes), strict=True)
    assert failing or [process.returncode for process in processes] == [0] * world_size, "\n".join(errors)
    return list(printed)


def comm_of_job() -> hr.Comm:
    """The channel on which models exchange rows, in a process of torch.distributed."""
    world_size = torch.distributed.get_world_size()
    nodes = hr.Graph.from_coo([], [], num_nodes=world_size)
    return hr.sar.ShardedGraph(nodes, hr.Partition.range(world_size, world_size)).comm


def cooperative_batches(plan: hr.Plan, world_size: int, **options: object) -> list[list[hr.MiniBatch]]:
    """All batches of an epoch on every rank."""

    def work(comm: hr.Comm) -> list[hr.MiniBatch]:
        with plan.loader(cooperative=True, comm=comm, **options) as loader:
            return list(loader)

    return run_ranks(world_size, work)


@cache
def partition(kind: str, num_parts: int) -> hr.Partition:
    if kind == "table":  # uneven, and one part owns nothing
        owners = torch.randint(num_parts, (NUM_NODES,), generator=torch.Generator().manual_seed(1))
        owners[owners == num_parts - 1] = 0
        return hr.Partition.of(owners, num_parts)
    if kind == "metis":
        return hr.Partition.metis(graph(), num_parts)
    return getattr(hr.Partition, kind)(NUM_NODES, num_parts)


def edges(batch: hr.MiniBatch, layer: int) -> list[tuple[int, ...]]:
    """The edges of a block in global ids, with their ids and weights, sorted."""
    block = batch.blocks[layer]
    sources = batch.exchanges[layer].wanted if batch.exchanges else batch.n_id
    src, dst = sources[block.edge_index[0]], sources[block.edge_index[1]]
    ids = block.edge_ids if block.edge_ids is not None else torch.zeros_like(src)
    weight = torch.ones(block.num_edges) if block.weight is None else block.weight
    return sorted(zip(src.tolist(), dst.tolist(), ids.tolist(), weight.tolist(), strict=True))


def positives_first(rows: list[torch.Tensor], shares: list[hr.MiniBatch]) -> torch.Tensor:
    """The rows of all ranks' seeds, those of negative pairs behind those of all positive ones."""
    positive = [part[: share.num_positives] for part, share in zip(rows, shares, strict=True)]
    negative = [part[len(first) :] for part, first in zip(rows, positive, strict=True)]
    return torch.cat([*positive, *negative])


def assert_same_union(whole: hr.MiniBatch, shares: list[hr.MiniBatch], owners: hr.Partition) -> None:
    """The ranks' shares hold each node and edge of the whole batch once, at every layer."""
    by_item = positives_first([share.item_index for share in shares], shares).argsort(stable=True)
    expected_by_item = whole.item_index.argsort(stable=True)  # ranks have contiguous shares, or the seeds that they own
    for name in ("seeds", "item_index"):
        found = positives_first([getattr(share, name) for share in shares], shares)
        assert torch.equal(found[by_item], getattr(whole, name)[expected_by_item])
    num_layers = len(whole.blocks)
    assert all(len(share.exchanges) == num_layers + 1 for share in shares)
    for layer in range(num_layers + 1):
        num_nodes = whole.blocks[layer].num_src if layer < num_layers else whole.num_sampled_nodes[0]
        if layer == num_layers and layer and whole.blocks[-1].num_src == whole.blocks[-1].num_dst == len(whole.n_id):
            num_nodes = len(whole.n_id)  # a square block has rows of all nodes
        expected = whole.n_id[:num_nodes].sort().values
        owned = [share.exchanges[layer].owned for share in shares]
        assert torch.equal(torch.cat(owned).sort().values, expected)
        for rank, ids in enumerate(owned):
            assert (owners.owner(ids) == rank).all()
    for layer in range(num_layers):
        together = sorted(edge for share in shares for edge in edges(share, layer))
        assert together == edges(whole, layer)
        for share in shares:
            # A block leads from what the rank wants of this layer to what it owns of the next.
            block, source, target = share.blocks[layer], share.exchanges[layer], share.exchanges[layer + 1]
            assert (block.num_src, block.num_dst) == (len(source.wanted), len(target.owned))
            assert torch.equal(source.wanted[: block.num_dst], target.owned)
            assert torch.equal(source.owned[: block.num_dst], target.owned)
    for counts in ("num_sampled_nodes", "num_sampled_edges"):
        assert tuple(map(sum, zip(*(getattr(share, counts) for share in shares), strict=True))) == getattr(
            whole, counts
        )
