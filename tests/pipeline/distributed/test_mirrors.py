"""Rows between masters and mirrors, by hand: what goes where, in which order, and in how many messages."""

from __future__ import annotations

import torch
from ranks import run_ranks

from headrace.pipeline.distributed.mirrors import Mirrors, to_masters, to_mirrors

# Three ranks; rank r is master of nodes 10 r and 10 r + 1. Rank 0 mirrors 0 and 11, rank 1 mirrors 1, 11 and 10, rank 2
# nothing; the nodes of rank 2 are mirrored nowhere.
MIRRORS = [
    Mirrors(torch.tensor([0, 1]), 1, (0, 1, 0), (0, 1, 0)),
    Mirrors(torch.tensor([1, 0, 1]), 2, (1, 0, 0), (1, 0, 0)),
    Mirrors(torch.tensor([], dtype=torch.int64), 0, (0, 0, 0), (0, 0, 0)),
]


def test_rows_reach_mirrors_and_come_back():
    def work(comm):
        mirrors = MIRRORS[comm.rank]
        table = torch.tensor([[10.0], [11.0]]) + 10 * (comm.rank - 1)
        (mirrored,) = to_mirrors(comm, (mirrors, mirrors.pick(table)))
        (back,) = to_masters(comm, (mirrors, mirrored))
        return mirrored.flatten().tolist(), back.flatten().tolist(), comm.num_collectives

    assert run_ranks(3, work) == [
        ([0.0, 11.0], [0.0, 1.0], 2),
        ([11.0, 10.0, 1.0], [11.0, 10.0, 11.0], 2),
        ([], [], 2),
    ]


def test_rows_of_several_kinds_are_one_message():
    """Of different dtypes, widths and mirrors, some of them empty on some ranks."""

    def work(comm):
        mirrors = MIRRORS[comm.rank]
        backwards = Mirrors(
            torch.arange(mirrors.num_mirrored), mirrors.num_own, mirrors.receive_counts, mirrors.send_counts
        )
        names = 10 * comm.rank + torch.arange(2)
        wide = torch.stack([names.double(), -names.double()], 1)[:, None].expand(-1, 3, -1)
        mine, wider = to_mirrors(comm, (mirrors, mirrors.pick(names)), (mirrors, mirrors.pick(wide)))
        flags, again = to_mirrors(comm, (backwards, mine % 2 == 1), (mirrors, mirrors.pick(names.to(torch.int32))))
        assert comm.num_collectives == 2
        assert torch.equal(wider, torch.stack([mine.double(), -mine.double()], 1)[:, None].expand(-1, 3, -1))
        assert torch.equal(again, mine.to(torch.int32))
        assert torch.equal(flags, mirrors.pick(names) % 2 == 1)
        return mine.tolist()

    assert run_ranks(3, work) == [[0, 11], [11, 10, 1], []]


def test_what_is_kept_is_kept_on_both_sides():
    """Node 11 is dropped, by its master and by the other rank that mirrors it."""
    at_masters = [torch.tensor([True, True]), torch.tensor([False, True, False]), torch.tensor([], dtype=torch.bool)]
    at_mirrors = [torch.tensor([True, False]), torch.tensor([False, True, True]), torch.tensor([], dtype=torch.bool)]
    kept = [one.kept(*flags) for one, *flags in zip(MIRRORS, at_masters, at_mirrors, strict=True)]
    assert [one.rows.tolist() for one in kept] == [[0, 1], [0], []]
    assert [(one.num_own, one.send_counts, one.receive_counts) for one in kept] == [
        (1, (0, 1, 0), (0, 0, 0)),
        (1, (0, 0, 0), (1, 0, 0)),
        (0, (0, 0, 0), (0, 0, 0)),
    ]
    assert kept[0].ends == [(0, 1), (1, 1), (1, 2), (2, 2)]
    assert (kept[0].num_mirrored, kept[0].num_sent, kept[1].num_received) == (1, 1, 1)
