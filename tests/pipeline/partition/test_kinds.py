"""What partitions keep: counts, and tables that are not copied."""

from __future__ import annotations

import torch

import headrace as hr
from headrace.ops.partition.owners import hash_owners


def test_sizes_of_equal_hashes_are_counted_once(monkeypatch):
    """A part of the nodes at a time, and not again for the next partition of these numbers."""
    seen: list[int] = []

    def counting(ids: torch.Tensor, num_parts: int) -> torch.Tensor:
        seen.append(len(ids))
        return hash_owners(ids, num_parts)

    monkeypatch.setattr("headrace.pipeline.partition.kinds.hash_owners", counting)
    monkeypatch.setattr("headrace.pipeline.partition.kinds.CHUNK", 1000)
    sizes = {hr.Partition.hash(2_345, 6).sizes for _ in range(3)}
    assert seen == [1000, 1000, 345]
    assert [sum(one) for one in sizes] == [2_345]


def test_tables_of_our_own_are_not_copied(monkeypatch):
    """4 bytes per node: with a table of 100 million nodes a copy would show."""
    graph = hr.Graph.from_coo([0], [1], num_nodes=3)
    table = torch.zeros(3, dtype=torch.int32)
    monkeypatch.setattr("headrace.pipeline.partition.partition.stream_owners", lambda *_, **__: table)
    assert hr.Partition.stream(graph, 2)._owners.data_ptr() == table.data_ptr()
    assert hr.Partition.of(table, 2)._owners.data_ptr() != table.data_ptr()


def ends_of(graph: hr.Graph) -> tuple[torch.Tensor, torch.Tensor]:
    return graph.indices.long(), torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees())


def test_edges_are_looked_up_in_chunks(monkeypatch):
    random = torch.Generator().manual_seed(0)
    graph = hr.Graph.from_coo(*torch.randint(50, (2, 400), generator=random), num_nodes=90)
    whole = hr.EdgePartition.grid(graph, 6)
    expected = whole.owner(*ends_of(graph))
    monkeypatch.setattr("headrace.ops.graphs.rows.PIECE_EDGES", 7)
    for part in range(6):
        assert torch.equal(whole.owned(part), (expected == part).nonzero().reshape(-1))
