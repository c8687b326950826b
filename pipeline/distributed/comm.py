"""Channels of torch.distributed; the one module that imports it.

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
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from headrace.ops.errors import InputError, PeerError, PlanError
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.distributed.channel import Comm, nothing
from headrace.pipeline.distributed.closing import closes_channels
from headrace.pipeline.distributed.job_store import JobStore
from headrace.pipeline.distributed.leaving import Loops, end_all
from headrace.pipeline.distributed.meeting import texts_of_ranks
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
        job = torch.distributed.group.WORLD
        self._device = _device_of_job()
        super().__init__(*_store_and_loops(), timeout=_timeout_of(job, self._device), agrees=agrees)
        # Not kept alive: its threads would outlive ``destroy_process_group``, and one that frees a tensor while Python
        # ends brings the process down.
        self._job = weakref.ref(job)
        self._group: Any = None
        self.open()

    def channel(self) -> Comm:
        """Return a further channel, with a process group of its own."""
        return DistributedComm()

    def open(self) -> None:
        """Make a process group, for which all ranks meet."""
        if self._group is not None:
            return
        self._group = torch.distributed.new_group(timeout=timedelta(seconds=self._timeout))
        # The name of a group is the same on all ranks.
        self._begin_with(torch.distributed.distributed_c10d._world.pg_names[self._group])  # noqa: SLF001
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
        job = self._job()
        if job is not None and torch.distributed.group.WORLD is job:  # else the job was ended, and its groups with it
            torch.distributed.destroy_process_group(group)
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
        self._run(
            torch.distributed.all_to_all_single,
            target,
            sent.to(self._device),
            meanwhile=meanwhile,
            output_split_sizes=receive_counts,
            input_split_sizes=send_counts,
        )
        if target is not received:
            received.copy_(target)

    def _all_reduce_sum(self, values: Tensor) -> Tensor:
        summed = values.detach().to(self._device, copy=True).contiguous()
        self._run(torch.distributed.all_reduce, summed)
        return summed.to(values.device)

    def _run(self, collective: Any, *tensors: Tensor, meanwhile: Callable[[], None] = nothing, **options: Any) -> None:
        """Call a collective and wait for it, or for what keeps another rank from it."""
        began, group = time.monotonic(), self._opened()
        self._note_collective()
        with self._connection(began):
            work = collective(*tensors, group=group, async_op=True, **options)
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


def _device_of_job() -> torch.device:
    """Return the device whose tensors the job's collectives take."""
    on_gpu = torch.distributed.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")


def _timeout_of(group: Any, device: torch.device) -> float:
    """Return the seconds that collectives of a process group may take; no public function returns it."""
    options = getattr(group._get_backend(device), "options", None)  # noqa: SLF001
    timeout: timedelta = getattr(options, "_timeout", torch.distributed.distributed_c10d.default_pg_timeout)
    return timeout.total_seconds()


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
    job = torch.distributed.group.WORLD
    if _of_job is None or _of_job[0]() is not job:
        if _of_job is None:
            atexit.register(_say_that_this_rank_ends)  # so late that it comes before what was registered at import
        rank = torch.distributed.get_rank()
        # The store by which the ranks met; no public function returns it.
        store = torch.distributed.distributed_c10d._get_default_store()  # noqa: SLF001
        log = JobStore(store, rank, torch.distributed.get_world_size())
        _of_job = (weakref.ref(job), log, Loops(rank, log))
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
        job, store, _ = _of_job
        store.cut_off()
        _leave_for_good(job())
    for channel in list(_OPEN):
        channel.leave_to_the_parent()
    for kept in (_of_job, _models):
        _leave_for_good(kept)
    _of_job = _models = None
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)


def is_distributed() -> bool:
    """Return whether torch.distributed is initialised."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def world_comm() -> Comm:
    """Return the channel on which models exchange rows, made at the first call in each process group.

    Raises
    ------
    PlanError
        If torch.distributed is not initialised.
    """
    global _models  # noqa: PLW0603 - one per process group, however many loaders there are
    if not is_distributed():
        raise PlanError(
            "cooperative loading needs torch.distributed: call torch.distributed.init_process_group (torchrun sets "
            "what it needs) before .loader(cooperative=True)"
        )
    job = torch.distributed.group.WORLD
    if _models is None or _models[0]() is not job:
        if _models is not None:
            _models[1].close()
        _models = (weakref.ref(job), DistributedComm(agrees=True))
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
    if state is not None and not isinstance(state, torch.distributed.ProcessGroup):
        raise InputError(
            "sum_hook: expected a process group of this rank, or None for all ranks, as the state, got "
            f"{type(state).__name__}; write ddp.register_comm_hook(None, hr.sum_hook)"
        )
    work = torch.distributed.all_reduce(bucket.buffer(), group=state, async_op=True)
    return work.get_future().then(lambda summed: summed.value()[0])


# DistributedDataParallel compares annotations with its classes, and takes their names for something else.
sum_hook.__annotations__ = {}


def rank_of_process(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return (rank, world size): those given, else torch.distributed's when it is initialised, else (0, 1).

    Raises
    ------
    PlanError
        If only one of the two is given, or the rank is not below the world size.
    """
    if (rank is None) != (world_size is None):
        raise PlanError(
            f"expected rank and world_size together, got rank={rank}, world_size={world_size}; pass both or neither"
        )
    if rank is None or world_size is None:
        if is_distributed():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return 0, 1
    world_size = whole_number(world_size, "world_size", 1, PlanError)
    return whole_number(rank, "rank", 0, PlanError, world_size - 1), world_size


def texts_of_job(text: str, *, waits: bool = True) -> list[str]:
    """Return the text that each rank of torch.distributed brings; see `texts_of_ranks`.

    Raises
    ------
    PeerError
        If a rank does not come.
    """
    timeout = _timeout_of(torch.distributed.group.WORLD, _device_of_job())
    return texts_of_ranks(*_store_and_loops(), text, timeout=timeout, waits=waits)
