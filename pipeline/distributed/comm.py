"""Channels of torch.distributed, whose functions are in `headrace.pipeline.distributed.job`.

`headrace.pipeline.distributed.local_comm` has the in-process twin, so that many ranks can be run in one process.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError, PeerError, PlanError
from headrace.pipeline.distributed import job
from headrace.pipeline.distributed.channel import Comm, nothing
from headrace.pipeline.distributed.closing import closes_channels
from headrace.pipeline.distributed.job_store import JobStore
from headrace.pipeline.distributed.leaving import Loops, end_all
from headrace.pipeline.distributed.meeting import texts_of_ranks
from headrace.pipeline.distributed.same_place import Notes
from headrace.pipeline.distributed.store_comm import POLL, StoreComm


class DistributedComm(StoreComm):
    """A channel of torch.distributed (gloo or NCCL), with a process group of its own.

    Waiting ranks look at the job's store, where a rank that fails leaves its reason, and one that leaves its training
    loop the place. They wait as long as the process group of the job would: the ``timeout`` that the user gave to
    ``torch.distributed.init_process_group``.

    Parameters
    ----------
    agrees
        Whether ranks agree at the store on collectives that do not follow from those of the batch before: for the
        channel of models, whose exchanges are called by what the user writes.
    """

    def __init__(self, *, agrees: bool = False) -> None:
        self._device = job.device_of_job()
        super().__init__(*_store_and_loops(), timeout=job.timeout_of_job(), agrees=agrees)
        # Not kept alive: its threads would outlive ``destroy_process_group``, and one that frees a tensor while Python
        # ends brings the process down.
        self._job = weakref.ref(job.all_ranks())
        self._group: Any = None
        self.open()

    def channel(self) -> Comm:
        """Return a further channel, with a process group of its own."""
        return DistributedComm()

    def open(self) -> None:
        """Make a process group, for which all ranks meet."""
        if self._group is not None:
            return
        self._group, name = job.new_group(self._timeout)
        self._begin_with(name)
        _OPEN.add(self)
        # Ranks come back from there with connections of their own, while others still make theirs. A first exchange
        # ends when all have them, so that a rank may close its own at any time from here on.
        byte = torch.zeros(self.world_size, 1, dtype=torch.uint8, device="cpu")
        ones = [1] * self.world_size
        self._all_to_all(byte, torch.empty_like(byte), ones, ones, nothing)

    def close(self) -> None:
        """Give back the process group, with its threads and connections.

        Ranks do not meet here. That is safe without: a collective is over for this rank when it has received all that
        is for it and handed to the network all that is for others, where it arrives though the connection is closed
        behind it. A rank that is still in the collective finds what it needs.

        After a failure this rank may have left a collective in which others never came. To give back that group would
        be to wait for it, so it is never given back. A rank that had left none gives back its own; others who wait
        for it there lose the connection, and find the reason in the job's store.
        """
        group, self._group = self._group, None
        self._end_with()
        _OPEN.discard(self)
        if group is None:
            return
        if self._unfinished:
            _leave_for_good(group)
            return
        # With its last reference the group goes, and waits for its threads. torch 2.2 waits under Python's lock, which
        # a thread may need to free a tensor, but not if the part of the group that has the threads is released last.
        backend = group._get_backend(self._device)  # noqa: SLF001
        own = self._job()
        if own is not None and job.all_ranks() is own:  # else the job was ended, and its groups with it
            job.end_group(group)
        del group
        del backend

    def leave_to_the_parent(self) -> None:
        """Let go of the process group without giving it back, in a forked process."""
        group, self._group = self._group, None
        _leave_for_good(group)

    def _all_to_all(
        self,
        sent: Tensor,
        received: Tensor,
        send_counts: list[int],
        receive_counts: list[int],
        meanwhile: Callable[[], None],
    ) -> None:
        target = received.to(self._device)
        begin = partial(job.begin_all_to_all, sent.to(self._device), target, send_counts, receive_counts)
        self._run(begin, meanwhile)
        if target is not received:
            received.copy_(target)

    def _all_reduce_sum(self, values: Tensor) -> Tensor:
        summed = values.detach().to(self._device, copy=True).contiguous()
        self._run(partial(job.begin_all_reduce, summed))
        return summed.to(values.device)

    def _run(self, begin: Callable[[Any], Any], meanwhile: Callable[[], None] = nothing) -> None:
        """Begin a collective in the group and wait for it, or for what keeps another rank from it."""
        began, group = time.monotonic(), self._opened()
        self._note_collective()
        with self._connection(began):
            work = begin(group)
        del group
        meanwhile()
        with self._connection(began):
            while not self._is_done(work):
                self._look(began)
            self._unfinished = False

    def _opened(self) -> Any:
        if self._group is None:  # which torch would take for the group of all that the job does
            raise PeerError(f"rank {self.rank} has closed this channel, or ended the job that it belonged to")
        return self._group

    def _is_done(self, work: Any) -> bool:
        """Wait a moment for a collective; raise what it raised."""
        if self._device.type != "cpu":
            # There a wait that runs out of time ends the whole communicator.
            until = time.monotonic() + self._store.look_every
            while not work.is_completed():
                if time.monotonic() > until:
                    return False
                time.sleep(POLL)
            work.wait()
            return True
        try:
            work.wait(timedelta(seconds=self._store.look_every))
        except RuntimeError:
            if not work.is_completed():
                return False
            work.wait()  # either it has completed meanwhile, or this raises its error
        return True


def _leave_for_good(kept: Any) -> None:
    """Keep a group in which a collective was left until the process is gone, behind the end of Python.

    Its threads wait in the network for ranks that do not come, and the destructor of a group joins its threads. gloo
    has nothing that ends them, so the destructor must never be called. What is left goes with the process.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


_of_job: tuple[weakref.ref[Any], JobStore, Loops] | None = None


def _store_and_loops() -> tuple[JobStore, Loops]:
    """Return what all channels of this process have in common, in each job."""
    global _of_job  # noqa: PLW0603 - one per job
    group = job.all_ranks()
    if _of_job is None or _of_job[0]() is not group:
        if _of_job is None:
            atexit.register(_say_that_this_rank_ends)  # so late that it comes before what was registered at import
        rank, world_size = job.rank_of_process(None, None)
        log = JobStore(job.store_of_job(), rank, world_size)
        _of_job = (weakref.ref(group), log, Loops(rank, log))
    return _of_job[1:]


def _say_that_this_rank_ends() -> None:
    """Let the other ranks know before anybody waits for threads, which wait for the other ranks."""
    if _of_job is not None:
        end_all(_of_job[2])


#: Channels that hold a process group.
_OPEN: weakref.WeakSet[DistributedComm] = weakref.WeakSet()


@closes_channels
def _close_all() -> None:
    """Give back process groups, whose threads may have tensors to free; but wait for no collective."""
    with ExitStack() as all_channels:  # also where one cannot be closed
        for channel in list(_OPEN):
            all_channels.callback(channel.close)


_models: tuple[weakref.ref[Any], DistributedComm] | None = None


def _leave_to_the_parent() -> None:
    """Be no rank in a forked process, which must neither speak for its parent nor join threads that it has not.

    No destructor may run of what the parent uses, also not of the job's own group, for which torch would wait there
    in vain when the process ends.
    """
    global _of_job, _models  # noqa: PLW0603
    StoreComm._reporting = threading.Lock()  # noqa: SLF001 - perhaps held by a thread that was not taken along
    if _of_job is not None:
        group, store, _ = _of_job
        store.cut_off()
        _leave_for_good(group())
    for channel in list(_OPEN):
        channel.leave_to_the_parent()
    for kept in (_of_job, _models):
        _leave_for_good(kept)
    _of_job = _models = None
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)


def world_comm() -> Comm:
    """Return the channel on which models exchange rows, made at the first call in each process group.

    Raises
    ------
    PlanError
        If torch.distributed is not initialised.
    """
    global _models  # noqa: PLW0603 - one per process group, however many loaders there are
    if not job.is_distributed():
        raise PlanError(
            "cooperative loading needs torch.distributed: call torch.distributed.init_process_group (torchrun sets "
            "what it needs) before .loader(cooperative=True)"
        )
    group = job.all_ranks()
    if _models is None or _models[0]() is not group:
        if _models is not None:
            _models[1].close()
        _models = (weakref.ref(group), DistributedComm(agrees=True))
    return _models[1]


def sum_hook(state: Any, bucket: Any) -> Any:
    """Sum gradients in `torch.nn.parallel.DistributedDataParallel`, which averages them by default.

    Register it by ``ddp.register_comm_hook(None, hr.sum_hook)``. If every rank divides its loss by
    ``batch.num_global_seeds``, the gradient is that of one process, as with `sum_gradients`, and sums overlap with the
    backward pass.

    Parameters
    ----------
    state
        A process group, or None for all ranks.
    bucket
        ``torch.distributed.GradBucket``: gradients, flat.

    Raises
    ------
    InputError
        In ``backward()``, where the hook is called, if `state` is anything else, or a group without this rank.
    """
    if state is not None and not job.is_group(state):
        raise InputError(
            "sum_hook: expected a process group of this rank, or None for all ranks, as the state, got "
            f"{type(state).__name__}; write ddp.register_comm_hook(None, hr.sum_hook)"
        )
    work = job.begin_all_reduce(bucket.buffer(), state)
    return work.get_future().then(lambda summed: summed.value()[0])


# DistributedDataParallel compares annotations with its classes, and takes their names for something else.
sum_hook.__annotations__ = {}


def texts_of_job(text: str, *, waits: bool = True) -> list[str]:
    """Return the text that each rank of torch.distributed brings; see `texts_of_ranks`.

    Raises
    ------
    PeerError
        If a rank does not come.
    """
    return texts_of_ranks(*_store_and_loops(), text, timeout=job.timeout_of_job(), waits=waits)


def loaders_of_job() -> tuple[Notes, int]:
    """Return where ranks of torch.distributed leave notes, and how many loaders they have made, the same on all."""
    store, _ = _store_and_loops()
    return store, store.num_meetings
