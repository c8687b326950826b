"""Batches that one thread made on a GPU, and another one uses: streams are of threads."""

from __future__ import annotations

from dataclasses import replace

import torch

from headrace.ops.gpu import record, resolved
from headrace.pipeline.data.place import Place
from headrace.pipeline.run.nodes import Step, Work


def hand_over(place: Place | None) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Return what a thread does last with batches that lie at a place, and the one that takes them first.

    Of batches on a GPU the thread records an event, since what it gave to its current stream may not be done; the other
    thread, which may have another current stream, lets that one wait. In memory of the host there is nothing to do.
    """
    if place is None or place.kind != "cuda":
        return (), ()
    from headrace.pipeline.lowered.on_stream import OnItsWay

    # With its index: a worker thread may have another current device.
    device = torch.empty(0, device=resolved(str(place))).device

    def leave(work: Work) -> Work:
        return replace(work, batch=OnItsWay(work.batch, record(device)))

    def take(work: Work) -> Work:
        return replace(work, batch=work.batch.arrived())

    return (leave,), (take,)
