"""The channels of a job of torch.distributed: the one of models, and what all of a process have in common."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any

from headrace.ops.errors import InputError, PlanError
from headrace.pipeline.distributed import job
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.generations import Generations
from headrace.pipeline.distributed.job_comm import OPEN, DistributedComm, leave_for_good
from headrace.pipeline.distributed.job_store import JobStore
from headrace.pipeline.distributed.leaving import Loops, end_all
from headrace.pipeline.distributed.meeting import texts_of_ranks
from headrace.pipeline.distributed.same_place import Notes

_of_job: tuple[weakref.ref[Any], Generations] | None = None


def _generations() -> Generations:
    """Return what all channels of this process have in common, in each job."""
    global _of_job  # noqa: PLW0603 - one per job
    group = job.all_ranks()
    if _of_job is None or _of_job[0]() is not group:
        if _of_job is None:
            atexit.register(_say_that_this_rank_ends)  # so late that it comes before what was registered at import
        rank, world_size = job.rank_of_process(None, None)
        store = JobStore(job.store_of_job(), rank, world_size)
        _of_job = (weakref.ref(group), Generations(store, Loops(rank, store), timeout=job.timeout_of_job()))
    return _of_job[1]


def _say_that_this_rank_ends() -> None:
    """Let the other ranks know before anybody waits for threads, which wait for the other ranks."""
    if _of_job is not None:
        end_all(_of_job[1].loops)


_models: tuple[weakref.ref[Any], DistributedComm] | None = None


def _leave_to_the_parent() -> None:
    """Be no rank in a forked process, which must neither speak for its parent nor join threads that it has not.

    No destructor may run of what the parent uses, also not of the job's own group, for which torch would wait there
    in vain when the process ends.
    """
    global _of_job, _models  # noqa: PLW0603
    Generations.leave_to_the_parent()
    if _of_job is not None:
        group, generations = _of_job
        generations.store.cut_off()
        leave_for_good(group())
    for channel in list(OPEN):
        channel.leave_to_the_parent()
    for kept in (_of_job, _models):
        leave_for_good(kept)
    _of_job = _models = None
    OPEN.clear()


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
        _models = (weakref.ref(group), DistributedComm(_generations(), agrees=True))
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


def texts_of_job(text: str, *, waits: bool = True, made: str = "loader") -> list[str]:
    """Return the text that each rank of torch.distributed brings; see `texts_of_ranks`.

    Raises
    ------
    PeerError
        If a rank does not come.
    """
    generations = _generations()
    store, loops = generations.store, generations.loops
    return texts_of_ranks(store, loops, text, timeout=job.timeout_of_job(), waits=waits, made=made)


def loaders_of_job() -> tuple[Notes, int]:
    """Return where ranks of torch.distributed leave notes, and how many loaders they have made, the same on all."""
    store = _generations().store
    return store, store.num_meetings
