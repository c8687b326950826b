"""Channels of torch.distributed; the one module that imports it.

`headrace.pipeline.local_comm` has the in-process twin, so that many ranks can be run in one process.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from headrace.ops.errors import PeerError, PlanError
from headrace.pipeline.arrays import whole_number
from headrace.pipeline.channel import LOOK, Comm, late, nothing, parted
from headrace.pipeline.course import Course
from headrace.pipeline.ending import ends_channels
from headrace.pipeline.job_store import JobStore
from headrace.pipeline.leaving import Loops, end_all

#: Seconds between two looks at a collective on a GPU, or at the job's store.
POLL = 1e-3

#: Seconds in which the reason for a lost connection may still arrive, and ranks that are there are heard of.
GRACE = 2.0

#: Seconds that a collective of a thread goes on when Python ends, for what all ranks have begun.
FINISH = 5.0


class DistributedComm(Comm):
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

    _generation = 0  # of failures, the same on every rank; see begin
    _beginning = False  # whether this process has said, in begin, all that it has to say of its generation
    _telling = threading.Lock()  # held while one of the two is read and acted upon
    _ends_since: float | None = None  # when a thread first found that Python ends

    def __init__(self, *, agrees: bool = False) -> None:
        super().__init__(torch.distributed.get_rank(), torch.distributed.get_world_size())
        # Not kept alive: its threads would outlive ``destroy_process_group``, and one that frees a tensor while Python
        # ends brings the process down.
        self._job = weakref.ref(torch.distributed.group.WORLD)
        self._group: Any = None
        self._unfinished = False  # whether this rank has left a collective of the group before its end
        self._needs_new_group = False  # what begin found, until there is one
        self._store, self._loops = _store_and_loops()
        on_gpu = torch.distributed.get_backend() == "nccl"
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        self._timeout = _timeout_of(torch.distributed.group.WORLD, self._device)
        self._agrees = agrees
        self.open()

    @property
    def loops(self) -> Loops:
        """The training loops of this rank."""
        return self._loops

    @property
    def generation(self) -> int:
        """How often the ranks have met in `begin`."""
        return self._generation

    def channel(self) -> Comm:
        """Return a further channel, with a process group of its own."""
        return DistributedComm()

    def open(self) -> None:
        """Make a process group, for which all ranks meet."""
        if self._group is not None:
            return
        self._group = torch.distributed.new_group(timeout=timedelta(seconds=self._timeout))
        self._unfinished = self._needs_new_group = False
        # The name of a group is the same on all ranks; a later job may use it again, with the same store.
        names = torch.distributed.distributed_c10d._world.pg_names  # noqa: SLF001
        self._key = f"channel/{self._generation}/{names[self._group]}"
        self._number = 0  # of the last collective of the group
        self._label, self._course = (-1, -1, -1), Course()
        self._num_meetings = 0
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
        be to wait for it, so it is never given back. A rank that had left none gives back its own; others who wait
        for it there lose the connection, and find the reason in the job's store.
        """
        group, self._group = self._group, None
        self._store.reached.pop(self._key, None)
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

    def fail(self, reason: str, *, blames: bool = False) -> None:
        """Leave the reason in the job's store."""
        try:
            with self._telling:
                # On the way to the next generation, those who are there already must hear of it as well.
                for generation in range(self._generation, self._generation + (2 if self._beginning else 1)):
                    if not self._store.is_told(_failed(generation)):
                        self._store.tell(_failed(generation), reason, blames=blames)
        except RuntimeError:
            pass  # the rank that keeps the store is gone: the others find out the same way

    def begin(self) -> None:
        """Meet at the store; go on with a new group where the last one may hold half a collective.

        All ranks must take a new group, or none. So each says before it arrives whether it needs one, and when all have
        arrived they all read the same. Only the thread that trains uses this channel, and that thread is here: what it
        left unfinished, and what made others leave, was said before. A thread of a loader that fails from now on needs
        no new group here, but its failure must not be forgotten with the others: `fail` carries it on.
        """
        self._loops.go_on()
        began, generation = time.monotonic(), self._generation
        arrived, renew = _arrived(generation), _renew(generation)
        with self._telling:
            self._ask_for_a_new_group(renew)
            DistributedComm._beginning = True
        met = False
        try:
            self._store.add(f"{arrived}/{self.rank}", 1)
            self._store.add(arrived, 1)
            looked = began
            while self._store.add(arrived, 0) < self.world_size:
                if time.monotonic() - looked > LOOK:
                    looked = time.monotonic()
                    self._look_for_the_absent(arrived, looked - began)
                time.sleep(POLL)
            met = True
        finally:
            with self._telling:
                DistributedComm._beginning = False
                DistributedComm._generation += met
        self._label, self._course = (-1, -1, -1), Course()
        self._needs_new_group = self._store.is_told(renew)
        if self._store.is_told(_refused(generation)):
            raise self._store.error_told(_refused(generation))
        if self._needs_new_group:
            self.close()
            self.open()

    def refuse(self, reason: str) -> None:
        """Arrive at the store with a refusal."""
        generation = self._generation
        try:
            with self._telling:
                self._needs_new_group = self._ask_for_a_new_group(_renew(generation))
                self._store.tell(_refused(generation), reason)
                self._store.add(f"{_arrived(generation)}/{self.rank}", 1)
                self._store.add(_arrived(generation), 1)
                DistributedComm._generation += 1
        except RuntimeError:
            pass  # the rank that keeps the store is gone: the others find out the same way

    def _ask_for_a_new_group(self, renew: str) -> bool:
        """Say so if this rank needs one, also from the last time, when a rank refused. Returns whether it does."""
        needs = self._unfinished or self._needs_new_group or self._store.is_told(_failed(self._generation))
        if needs:
            self._store.add(renew, 1)
        return needs

    def _look_for_the_absent(self, arrived: str, waited: float) -> None:
        """Give up a meeting to which a rank cannot come any more, or has not come in time."""
        absent = {rank for rank, came in enumerate(self._store.said(arrived)) if not came}
        ended = sorted(absent & self._loops.ended())
        if ended:
            raise PeerError(f"rank {ended[0]} ended, where the others begin with a loader")
        if absent and waited > self._timeout:
            raise self._late(sorted(absent), "to where all ranks begin with a loader")

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
        began, group = time.monotonic(), self._open_group()
        self._unfinished = True
        self._number += 1
        if self._agrees:
            self._store.reached[self._key] = self._number
        with self._connection(began):
            work = collective(*tensors, group=group, async_op=True, **options)
        del group
        meanwhile()
        with self._connection(began):
            while not self._is_done(work):
                self._look(began)
            self._unfinished = False

    def _open_group(self) -> Any:
        if self._group is None:  # which torch would take for the group of all that the job does
            raise PeerError(f"rank {self.rank} has closed this channel, or ended the job that it belonged to")
        return self._group

    @contextmanager
    def _connection(self, began: float) -> Iterator[None]:
        """Say why the connection broke, if it does, and who broke it."""
        try:
            yield
        except PeerError:
            raise
        except RuntimeError as error:
            # The rank that broke it may have left word, or is about to. Those that did not are in here as well.
            broke, before = time.monotonic(), self._beats()
            while time.monotonic() - broke < GRACE:
                self._look(began, in_time=False)
                time.sleep(LOOK)
            if broke - began > self._timeout - LOOK:  # it was torch that gave up first
                raise self._too_late() from error
            named = " or ".join(f"rank {rank}{self._loops.last_words(rank)}" for rank in self._silent(before))
            raise self._blame(PeerError(f"rank {self.rank} lost the connection to {named}: {error}")) from error

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

    def _look(self, began: float, *, in_time: bool = True) -> None:
        """Raise what keeps another rank from the collective that this one waits in; show that this one waits."""
        try:
            self._store.add(f"beat/{self.rank}", 1)
            self._store.say(self._key, self._number)
            key = _failed(self._generation)
            if self._store.is_told(key):
                self._loops.break_off()
                raise self._store.error_told(key)
            self._look_at_loops(began)
            self._look_for_a_meeting()
        except PeerError:
            raise
        except RuntimeError as error:
            raise PeerError(
                f"rank {self.rank} cannot reach the job's store any more: rank 0, or the program that started the "
                "ranks, is gone"
            ) from error
        if in_time and time.monotonic() - began > self._timeout:
            raise self._too_late()
        self._look_for_the_end()

    def _look_at_loops(self, began: float) -> None:
        try:
            self._loops.look()
            if self._agrees:
                self._loops.look_for(self._came, time.monotonic() - began)
        except PeerError as error:
            raise self._blame(error) from None

    def _came(self, rank: int) -> bool:
        """Return whether a rank was seen to come to what this one waits in: if it waits there, it is."""
        return self._store.said(self._key)[rank] >= self._number

    def _look_for_the_end(self) -> None:
        """Leave a collective of a thread when Python has ended for some seconds: it would keep the process."""
        if threading.main_thread().is_alive():
            return
        if DistributedComm._ends_since is None:
            DistributedComm._ends_since = time.monotonic()
        if time.monotonic() - DistributedComm._ends_since > FINISH:
            raise PeerError(f"rank {self.rank} ends, though not all other ranks came to its last exchange")

    def _agree(self, kind: str) -> None:
        """Meet at the store before a collective that does not follow from those of the batch before."""
        place = self.place
        if not self._agrees or place is None or self._course.follows(place, kind):
            return
        self._open_group()
        began = looked = time.monotonic()
        key = f"{self._key}/meeting/{self._num_meetings}"
        what = json.dumps([self._number, self._label, kind])
        self._unfinished = True  # a rank that gives up here comes to no collective behind it
        self._store.arrive(key, what)
        self._num_meetings += 1
        while self._store.add(key, 0) < self.world_size:
            if time.monotonic() - looked > LOOK:
                looked = time.monotonic()
                self._look(began)
            time.sleep(POLL)
        if not self._store.all_agree(key, what):
            self._look_for_others(key, what)
        self._unfinished = False

    def _look_for_a_meeting(self) -> None:
        """Find out ranks that meet before a collective that this rank went on to, or behind."""
        key = f"{self._key}/meeting/{self._num_meetings}"
        if self._agrees and self._store.add(key, 0):
            self._look_for_others(key, None)

    def _look_for_others(self, key: str, what: str | None) -> None:
        """Raise where a rank has come to a meeting with something else than this one, which may have passed it."""
        for rank, text in self._store.brought(key).items():
            number, label, kind = json.loads(text)
            if text == what or (what is None and number >= self._number):
                continue
            where = parted(rank, tuple(label), self.rank, self._label)
            own = f"{where} (rank {rank} sends {kind})"
            raise self._blame(PeerError(own))

    def _beats(self) -> list[int]:
        with suppress(RuntimeError):
            return self._store.said("beat")
        return [0] * self.world_size

    def _silent(self, before: list[int]) -> list[int]:
        """Return the other ranks that were not seen to wait for anything since `before`, or all if all were."""
        others = [rank for rank in range(self.world_size) if rank != self.rank]
        beats = self._beats()
        return [rank for rank in others if beats[rank] == before[rank]] or others

    def _too_late(self) -> PeerError:
        """Return the error for a collective to which other ranks did not come in time."""
        came = self._store.said(self._key)
        absent = [rank for rank in range(self.world_size) if rank != self.rank and came[rank] < self._number]
        return self._late(absent, "to an exchange")

    def _late(self, absent: list[int], where: str) -> PeerError:
        """Return the error for ranks that did not come in time; who waits elsewhere meanwhile is not at fault."""
        before = self._beats()
        time.sleep(GRACE)
        silent = [rank for rank in absent if rank in self._silent(before)] or absent
        return self._blame(late(silent, where, self._timeout, self.rank, "init_process_group(timeout=)"))


def _timeout_of(group: Any, device: torch.device) -> float:
    """Return the seconds that collectives of a process group may take; no public function tells."""
    options = getattr(group._get_backend(device), "options", None)  # noqa: SLF001
    timeout: timedelta = getattr(options, "_timeout", torch.distributed.distributed_c10d.default_pg_timeout)
    return timeout.total_seconds()


def _leave_for_good(group: Any) -> None:
    """Keep a group in which a collective was left until the process is gone, behind the end of Python.

    Its threads wait in the network for ranks that do not come, and the destructor of a group joins its threads. gloo
    has nothing that ends them, so the destructor must never be called. What is left goes with the process.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


# Keys of the job's store, under which ranks count in each generation.
def _arrived(generation: int) -> str:
    return f"begin/{generation}"


def _renew(generation: int) -> str:
    return f"renew/{generation}"


def _refused(generation: int) -> str:
    return f"refused/{generation}"


def _failed(generation: int) -> str:
    return f"failed/{generation}"


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
        board = JobStore(store, rank, torch.distributed.get_world_size())
        _of_job = (weakref.ref(job), board, Loops(rank, board))
    return _of_job[1:]


def _say_that_this_rank_ends() -> None:
    """Tell the other ranks before anybody waits for threads, which wait for the other ranks."""
    if _of_job is not None:
        end_all(_of_job[2])


#: Channels that hold a process group.
_OPEN: weakref.WeakSet[DistributedComm] = weakref.WeakSet()


@ends_channels
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
        _models = (weakref.ref(job), DistributedComm(agrees=True))
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
