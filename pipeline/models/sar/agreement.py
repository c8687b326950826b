"""What ranks agree on before they pass messages: whose rows go where, and that they speak of the same graph."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.models.sar.shard import Shard


def check_same(comm: Comm, words: str, problem: str) -> None:
    """Refuse to go on if another rank says something else; one collective.

    Raises
    ------
    InputError
        With `problem` and the rank that differs.
    """
    number = int.from_bytes(hashlib.sha256(words.encode()).digest()[:7], "little")
    with comm.doing(problem):
        others = comm.all_gather(number)
    for rank, other in enumerate(others):
        if other != number:
            raise InputError(f"{problem}: rank {comm.rank} has {words}, rank {rank} something else")


def exchange_wanted(wanted: tuple[Tensor, ...], num_rows: int, comm: Comm | None) -> tuple[Tensor | None, ...]:
    """Tell each rank which of its rows this one needs; return what each needs of this one, None for all rows."""
    if comm is None:
        return (None,)
    receive_counts = [len(rows) for rows in wanted]
    send_counts = comm.all_to_all_counts(receive_counts)
    asked = comm.all_to_all(torch.cat(wanted), receive_counts, send_counts)
    # Distinct and ascending, so as many as there are rows are all rows.
    return tuple(None if len(rows) == num_rows else rows for rows in asked.split(send_counts))  # type: ignore[no-untyped-call]


def count_out_degrees(
    shards: tuple[Shard, ...], sends: tuple[Tensor | None, ...], num_rows: int, comm: Comm | None
) -> Tensor:
    """Return the number of out-edges of each row of this rank, on all ranks: int64[num_rows]."""
    counts = [torch.bincount(shard.indices, minlength=shard.num_sources) for shard in shards]
    rank = 0 if comm is None else comm.rank
    total = counts[rank].clone()
    if comm is None:
        return total
    counts[rank] = counts[rank][:0]
    send_counts = [len(one) for one in counts]
    receive_counts = [num_rows if rows is None else len(rows) for rows in sends]
    receive_counts[rank] = 0
    came = comm.all_to_all(torch.cat(counts), send_counts, receive_counts).split(receive_counts)  # type: ignore[no-untyped-call]
    for source, (rows, piece) in enumerate(zip(sends, came, strict=True)):
        if source != rank:
            total[slice(None) if rows is None else rows] += piece
    return total
