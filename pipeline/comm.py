"""Channels of torch.distributed; the one module that imports it.

`headrace.pipeline.local_comm` has the in-process twin, so that many ranks can be run in one process.
"""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from headrace.ops.errors import PeerError, PlanError
from headrace.pipeline.arrays import whole_number
from headrace.pipeline.channel import LOOK, Comm, failure_of, nothing
from headrace.pipeline.shutdown import closes_channels

#: Seconds after which a rank that does not come to a collective is given up. A step of training lies in between.
TIMEOUT = 600.0

#: Seconds between two looks at a collective on a GPU, or at the job's store.
POLL = 1e-3

#: Seconds in which the reason for a lost connection may still arrive.
GRACE = 2.0


class DistributedComm(Comm):
    """A channel of torch.distributed (gloo or NCCL), with a process group of its own.

    Waiting ranks look at the job's store, where a rank that fails leaves its reason.
    """

    _generation = 0  # of failures, the same on every rank; see begin
    _beginning = False  # whether this process has said, in begin, all that it has to say of its generation
    _telling = threading.Lock()  # held while one of the two is read and acted upon

    def __init__(self) -> None:
        super().__init__(torch.distributed.get_rank(), torch.distributed.get_world_size())
        # Not kept alive: its threads would outlive ``destroy_process_group``, and one that frees a tensor while Python
        # ends brings the process down.
        self._job = weakref.ref(torch.distributed.group.WORLD)
        self._group: Any = None
        self._unfinished = False  # whether this rank has left a collective of the group before its end
        self._needs_new_group = False  # what begin found, until there is one
        # The store by which the ranks met; no public function returns it.
        self._store = torch.distributed.distributed_c10d._get_default_store()  # noqa: SLF001
        on_gpu = torch.distributed.get_backend() == "nccl"
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        self.open()

    def channel(self) -> Comm:
        """Return a further channel, with a process group of its own."""
        return DistributedComm()

    def open(self) -> None:
        """Make a process group, for which all ranks meet."""
        if self._group is not None:
            return
        self._group, self._unfinished, self._needs_new_group = torch.distributed.new_group(), False, False
        _OPEN.add(self)
        # Ranks come back from there with connections of their own, while others still make theirs. A first exchange
        # ends when all have them, so that a rank may close its own at any time from here on.
        byte = torch.zeros(self.world_size, 1, dtype=torch.uint8)
        ones = [1] * self.world_size
        self._all_to_all(byte, torch.empty_like(byte), ones, ones, nothing)

    def close(self) -> None:
        """Give back the process group, with its threads and connections.

        Ranks do not meet here. That is safe without: a collective is over for this rank when it has received all that
        is for it and handed to the network all that is for others, where it arrives though the connection is closed
        behind it. A rank that is still in the collective finds what it needs.

        After a failure this rank may have left a collective in which others never came. To give back that group would
        be to wait for it, so it stays until Python ends. A rank that had left none gives back its own; others who wait
        for it there lose the connection, and find the reason in the job's store.
        """
        group, self._group = self._group, None
        _OPEN.discard(self)
        if group is None:
            return
        if self._unfinished:
            _LEFT.append(group)
            return
        # With its last reference the group goes, and waits for its threads. torch 2.2 waits under Python's lock, which
        # a thread may need to free a tensor, but not if the part of the group that has the threads is released last.
        backend = group._get_backend(self._device)  # noqa: SLF001
        job = self._job()
        if job is not None and torch.distributed.group.WORLD is job:  # else the job was ended, and its groups with it
            torch.distributed.destroy_process_group(group)
        del group
        del backend

    def fail(self, reason: str) -> None:
        """Leave the reason in the job's store."""
        try:
            with self._telling:
                # On the way to the next generation, those who are there already must hear of it as well.
                for generation in range(self._generation, self._generation + (2 if self._beginning else 1)):
                    if not self._is_told(_failed(generation)):
                        self._tell(_failed(generation), reason)
        except RuntimeError:
            pass  # the rank that keeps the store is gone: the others find out the same way

    def begin(self) -> None:
        """Meet at the store; go on with a new group where the last one may hold half a collective.

        All ranks must take a new group, or none. So each says before it arrives whether it needs one, and when all have
        arrived they all read the same. Only the thread that trains uses this channel, and that thread is here: what it
        left unfinished, and what made others leave, was said before. A thread of a loader that fails from now on needs
        no new group here, but its failure must not be forgotten with the others: `fail` carries it on.
        """
        began, generation = time.monotonic(), self._generation
        arrived, renew = _arrived(generation), _renew(generation)
        with self._telling:
            self._ask_for_a_new_group(renew)
            DistributedComm._beginning = True
        met = False
        try:
            self._store.add(arrived, 1)
            while self._store.add(arrived, 0) < self.world_size:
                self._give_up_after(began)
                time.sleep(POLL)
            met = True
        finally:
            with self._telling:
                DistributedComm._beginning = False
                DistributedComm._generation += met
        self._needs_new_group = self._is_told(renew)
        if self._is_told(_refused(generation)):
            raise self._error_told(_refused(generation))
        if self._needs_new_group:
            self.close()
            self.open()

    def refuse(self, reason: str) -> None:
        """Arrive at the store with a refusal."""
        generation = self._generation
        try:
            with self._telling:
                self._needs_new_group = self._ask_for_a_new_group(_renew(generation))
                self._tell(_refused(generation), reason)
                self._store.add(_arrived(generation), 1)
                DistributedComm._generation += 1
        except RuntimeError:
            pass  # the rank that keeps the store is gone: the others find out the same way

    def _ask_for_a_new_group(self, renew: str) -> bool:
        """Say so if this rank needs one, also from the last time, when a rank refused. Returns whether it does."""
        needs = self._unfinished or self._needs_new_group or self._is_told(_failed(self._generation))
        if needs:
            self._store.add(renew, 1)
        return needs

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
        """Call a collective and wait for it, or for the failure of another rank."""
        began, group = time.monotonic(), self._group
        if group is None:  # which torch would take for the group of all that the job does
            raise PeerError(f"rank {self.rank} has closed this channel, or ended the job that it belonged to")
        self._unfinished = True
        with self._connection():
            work = collective(*tensors, group=group, async_op=True, **options)
        del group
        meanwhile()
        with self._connection():
            while not self._is_done(work):
                self._look_for_failure()
                self._give_up_after(began)
            self._unfinished = False

    @contextmanager
    def _connection(self) -> Iterator[None]:
        """Say why the connection broke, if it does."""
        try:
            yield
        except PeerError:
            raise
        except RuntimeError as error:
            # The rank that broke it may have left word, or is about to.
            broke = time.monotonic()
            while time.monotonic() - broke < GRACE:
                self._look_for_failure()
                time.sleep(LOOK)
            raise PeerError(f"rank {self.rank} lost the connection to another rank: {error}") from error

    def _is_done(self, work: Any) -> bool:
        """Wait a moment for a collective; raise what it raised."""
        if self._device.type != "cpu":
            # There a wait that runs out of time ends the whole communicator.
            until = time.monotonic() + LOOK
            while not work.is_completed():
                if time.monotonic() > until:
                    return False
                time.sleep(POLL)
            work.wait()
            return True
        try:
            work.wait(timedelta(seconds=LOOK))
        except RuntimeError:
            if not work.is_completed():
                return False
            work.wait()  # either it has completed meanwhile, or this raises its error
        return True

    def _give_up_after(self, began: float) -> None:
        if time.monotonic() - began > TIMEOUT:
            raise PeerError(
                f"rank {self.rank} waited {TIMEOUT:.0f} seconds in a collective to which not all other ranks came: do "
                "all ranks run the same plan, and leave their loops at the same batch?"
            )

    def _look_for_failure(self) -> None:
        key = _failed(self._generation)
        try:
            failed = self._is_told(key)
        except RuntimeError as error:
            raise PeerError("the rank that keeps the job's store is gone") from error
        if failed:
            raise self._error_told(key)

    def _tell(self, key: str, reason: str) -> None:
        """Leave a reason under a key, and count under it."""
        self._store.set(f"{key}/reason", json.dumps({"rank": self.rank, "reason": reason}))
        self._store.add(key, 1)

    def _is_told(self, key: str) -> bool:
        """Return whether any rank has counted under a key; torch 2.2 has no `Store.check`."""
        told: int = self._store.add(key, 0)
        return told > 0

    def _error_told(self, key: str) -> PeerError:
        """Return the error of which a rank has left the reason under a key."""
        return failure_of(**json.loads(self._store.get(f"{key}/reason")))


# Keys of the job's store, under which ranks count in each generation.
def _arrived(generation: int) -> str:
    return f"headrace/begin/{generation}"


def _renew(generation: int) -> str:
    return f"headrace/renew/{generation}"


def _refused(generation: int) -> str:
    return f"headrace/refused/{generation}"


def _failed(generation: int) -> str:
    return f"headrace/failed/{generation}"


#: Channels that hold a process group.
_OPEN: weakref.WeakSet[DistributedComm] = weakref.WeakSet()

#: Groups that were left in the midst of a collective.
_LEFT: list[Any] = []


@closes_channels
def _close_all() -> None:
    """Give back process groups, whose threads may have tensors to free; but wait for no collective."""
    with ExitStack() as all_channels:  # also where one cannot be closed
        for channel in list(_OPEN):
            all_channels.callback(channel.close)


_models: tuple[weakref.ref[Any], DistributedComm] | None = None


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
        _models = (weakref.ref(job), DistributedComm())
    return _models[1]


def sum_hook(state: Any, bucket: Any) -> Any:
    """Let `torch.nn.parallel.DistributedDataParallel` add up gradients, where it would average them.

    ``ddp.register_comm_hook(None, hr.sum_hook)``: a loss that every rank divides by ``batch.num_global_seeds`` then has
    the gradient of one process, as with `sum_gradients`, and sums overlap with the backward pass.

    Parameters
    ----------
    state
        A process group, or None for all ranks.
    bucket
        ``torch.distributed.GradBucket``: gradients, flat.
    """
    work = torch.distributed.all_reduce(bucket.buffer(), group=state, async_op=True)
    return work.get_future().then(lambda summed: summed.value()[0])


# DistributedDataParallel compares annotations with its classes, and takes their names for something else.
sum_hook.__annotations__ = {}


def place_of_process(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return (rank, world size): those given, else torch.distributed's when it is initialised, else (0, 1).

    Raises
    ------
    PlanError
        If only one of the two is given, or the rank is not below the world size.
    """
    if (rank is None) != (world_size is None):
        raise PlanError(f"give rank and world_size together; rank={rank}, world_size={world_size} came")
    if rank is None or world_size is None:
        if is_distributed():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return 0, 1
    world_size = whole_number(world_size, "world_size", 1, PlanError)
    return whole_number(rank, "rank", 0, PlanError, world_size - 1), world_size


_num_seeds = 0  # asked for in this process


def seed_of_first_rank(seed: int) -> int:
    """Return what rank 0 of torch.distributed passes; the first calls of all ranks belong together, and so on.

    Rank 0 leaves it in the job's store and waits for nobody, so that it may make a loader alone.

    Raises
    ------
    PeerError
        If rank 0 does not come to this call.
    """
    global _num_seeds  # noqa: PLW0603 - the same on every rank, also over several jobs of a process
    key = f"headrace/seed/{_num_seeds}"
    _num_seeds += 1
    store = torch.distributed.distributed_c10d._get_default_store()  # noqa: SLF001 - no public function returns it
    until = time.monotonic() + TIMEOUT
    try:
        if torch.distributed.get_rank() == 0:
            store.set(f"{key}/value", str(seed))
            store.add(key, 1)
        while store.add(key, 0) == 0 and time.monotonic() < until:
            time.sleep(POLL)
        told = json.loads(store.get(f"{key}/value")) if store.add(key, 0) else None
    except RuntimeError as error:
        raise PeerError("the rank that keeps the job's store is gone") from error
    if told is None:
        raise PeerError(
            f"waited {TIMEOUT:.0f} seconds for the seed of rank 0, which has made fewer loaders without one; make the "
            "same loaders on all ranks, or name the seed: hr.ItemSampler(..., seed=0)"
        )
    return int(told)
