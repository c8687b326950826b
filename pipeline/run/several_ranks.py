"""The ranks of a loader, where there are several: they meet when it is made, and learn of each other's iterations."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from headrace.ops.warn_user import warn_user
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.channel_errors import failure_of
from headrace.pipeline.distributed.comm import loaders_of_job, texts_of_job, world_comm
from headrace.pipeline.distributed.job import gpu_of_nccl
from headrace.pipeline.distributed.leaving import Loop
from headrace.pipeline.distributed.same_place import Notes, SamePlace, Turn
from headrace.pipeline.plan import Plan, PlanError, source_of
from headrace.pipeline.run.ranks import Ranks
from headrace.pipeline.run.same_plan import agree


class Meeting(ABC):
    """Where the ranks of a loader meet once, before it makes a batch. All of them come, or refuse."""

    comm: Comm | None = None
    """The channel on which they make batches together, if they do."""

    @abstractmethod
    def refuse(self, reason: str) -> None:
        """Let the other ranks know why this one makes no loader; waits for none."""

    @abstractmethod
    def begin(self) -> None:
        """Wait for the other ranks, if they meet on a channel.

        Raises
        ------
        PeerError
            If a rank refuses.
        """

    @abstractmethod
    def told(self, what: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Tell the other ranks something that JSON holds; return what each rank told, in the order of the ranks.

        Raises
        ------
        PeerError
            If a rank refuses, ends or does not come.
        """

    @abstractmethod
    def noted(self) -> tuple[Notes, int] | None:
        """Return where ranks leave notes, and under which number those of this loader; None if they have no place."""


class AtStore(Meeting):
    """Ranks of torch.distributed that make batches for themselves meet at the store, which needs no process group."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def refuse(self, reason: str) -> None:
        """Leave the reason at the store."""
        texts_of_job(json.dumps({"refused": reason}), waits=False)

    def begin(self) -> None:
        """Do nothing: ranks wait where they tell each other."""

    def told(self, what: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Tell and read it at the store."""
        return told_in_job({"cooperative": False, **what}, self._rank)

    def noted(self) -> tuple[Notes, int]:
        """Return the store, and how many loaders the job has made."""
        return loaders_of_job()


class OnChannel(Meeting):
    """Ranks with a channel meet on it.

    Parameters
    ----------
    comm
        The channel.
    is_kept
        Whether they make batches together on it.
    """

    def __init__(self, comm: Comm, *, is_kept: bool) -> None:
        self._channel = comm
        self.comm = comm if is_kept else None

    def refuse(self, reason: str) -> None:
        """Take the place of `begin`."""
        self._channel.refuse(reason)

    def begin(self) -> None:
        """Meet on the channel."""
        self._channel.begin()

    def told(self, what: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Exchange it, in two collectives."""
        text = torch.frombuffer(bytearray(json.dumps(what), "utf-8"), dtype=torch.uint8)
        comm = self._channel
        counts = comm.all_gather(len(text))
        came = comm.all_to_all(text.repeat(comm.world_size), [len(text)] * comm.world_size, counts)
        parts: tuple[torch.Tensor, ...] = came.split(counts)  # type: ignore[no-untyped-call]
        return [json.loads(bytes(part.tolist())) for part in parts]

    def noted(self) -> tuple[Notes, int] | None:
        """Return where the channel keeps notes, if it does, and how often ranks have met on it."""
        notes = self._channel.notes
        return None if notes is None else (notes, self._channel.generation)


def meeting_of_ranks(comm: Comm | None, rank: int, world_size: int, *, communicates: bool, in_job: bool) -> Meeting:
    """Return where the ranks of a loader meet.

    Parameters
    ----------
    comm
        The channel that the user gave.
    rank, world_size
        This rank.
    communicates
        Whether ranks make batches together.
    in_job
        Whether the place is that of torch.distributed.

    Raises
    ------
    PlanError
        If ranks make batches together and others do not, or there is neither a channel nor torch.distributed.
    """
    if communicates:
        if comm is None and in_job and world_size > 1:
            # Before ranks wait for each other in new process groups.
            check_gpus_of_ranks(told_in_job({"cooperative": True, "nccl_gpu": gpu_of_nccl()}, rank))
        return OnChannel(world_comm() if comm is None else comm, is_kept=True)
    return AtStore(rank) if comm is None else OnChannel(comm, is_kept=False)


def check_gpus_of_ranks(told: Sequence[Mapping[str, Any]]) -> None:
    """Refuse ranks of NCCL that share a GPU.

    Parameters
    ----------
    told
        What each rank told: ``"nccl_gpu"`` is the GPU by which NCCL knows it, "" for another backend.

    Raises
    ------
    PlanError
        With the ranks and their GPU.
    """
    for gpu, ranks in _ranks_by_gpu([one["nccl_gpu"] for one in told]):
        raise PlanError(
            f"loader: expected a GPU for each rank of NCCL, got {gpu} for ranks {ranks}; start a process for each GPU "
            "by torchrun, which sets LOCAL_RANK, or call torch.cuda.set_device(...) before init_process_group"
        )


def warn_of_shared_gpus(gpus: Sequence[str]) -> None:
    """Name ranks whose batches are on one GPU, "" for none, where others may idle."""
    for gpu, ranks in _ranks_by_gpu(gpus):
        warn_user(
            f"loader: batches of ranks {ranks} are all on {gpu}; start them by torchrun, which sets LOCAL_RANK, call "
            "torch.cuda.set_device(...), or name a GPU for each, copy_to(f'cuda:{number}')",
        )


def _ranks_by_gpu(gpus: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Return each GPU of several ranks, with these."""
    ranks: dict[str, list[int]] = {}
    for rank, gpu in enumerate(gpus):
        ranks.setdefault(gpu, []).append(rank)
    return [(gpu, those) for gpu, those in ranks.items() if gpu and len(those) > 1]


def told_in_job(what: Mapping[str, Any], rank: int) -> list[dict[str, Any]]:
    """Return what each rank of torch.distributed tells at the store.

    Raises
    ------
    PeerError
        If a rank refuses, ends or does not come.
    PlanError
        If ranks that make batches together meet others.
    """
    told: list[dict[str, Any]] = [json.loads(text) for text in texts_of_job(json.dumps(what))]
    for other, one in enumerate(told):
        if "refused" in one:
            raise failure_of(other, one["refused"], own_rank=rank)
    together = [other for other, one in enumerate(told) if one["cooperative"]]
    if 0 < len(together) < len(told):
        alone = sorted(set(range(len(told))) - set(together))
        raise PlanError(
            f"loader: expected all ranks to make batches together, or none, got cooperative=True or shards on ranks "
            f"{together}, neither on ranks {alone}; give all ranks the same switches, graph and features"
        )
    return told


class SeveralRanks(Ranks):
    """Ranks that make the same loaders in the same order, and compare them.

    Parameters
    ----------
    comm
        The channel that the user gave.
    rank, world_size
        This rank.
    together
        Whether ranks make batches together.
    in_job
        Whether the place is that of torch.distributed.
    """

    def __init__(self, comm: Comm | None, rank: int, world_size: int, *, together: bool, in_job: bool) -> None:
        self._rank = rank
        self._world_size = world_size
        self._together = together
        self._in_job = in_job
        self._meeting = meeting_of_ranks(comm, rank, world_size, communicates=together, in_job=in_job)
        self.comm = self._meeting.comm
        self._number = 0  # among the loaders that communicate, the same on all ranks
        self._places: SamePlace | None = None

    def refuse(self, reason: str) -> None:
        """Let the other ranks know why this one makes no loader; waits for none."""
        self._meeting.refuse(reason)

    def agree(self, plan: Plan, final: Plan) -> int:
        """Compare the plan with those of the other ranks; return the seed of all."""
        self._meeting.begin()
        self._number = 0 if self.comm is None else self.comm.generation
        agreed = agree(plan, final, self._rank, self._meeting.told, together=self._together)
        if self._in_job:  # threads of one process are given GPUs, or none, by hand
            warn_of_shared_gpus(agreed.gpus)
        self.own, self.num_items, self.labels = agreed.own, agreed.rank_items, agreed.rank_labels
        noted = None if self._together else self._meeting.noted()
        if noted is not None:
            notes, number = noted
            at_every_batch = not source_of(plan).counts_alike
            self._places = SamePlace(notes, self._rank, self._world_size, number, at_every_batch=at_every_batch)
        return agreed.seed

    def loop(self, epoch: int, batch: int) -> Loop | Turn | None:
        """Return what other ranks learn of an iteration that begins there."""
        if self._places is not None:
            return self._places.turn(epoch, batch)
        loops = None if self.comm is None else self.comm.loops
        return None if loops is None else loops.begin(self._number)

    def fail(self, reason: str) -> None:
        """Report an error to the other ranks, if they make batches with this one."""
        if self.comm is not None:
            self.comm.fail(reason)
