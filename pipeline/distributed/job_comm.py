"""Channels of torch.distributed, whose functions are in `headrace.pipeline.distributed.job`.

`headrace.pipeline.distributed.local_comm` has the in-process twin, so that many ranks can be run in one process.
"""

from __future__ import annotations

import ctypes
import json
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import PeerError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.distributed import job
from headrace.pipeline.distributed.channel import LOOK, Comm, nothing
from headrace.pipeline.distributed.channel_errors import parted
from headrace.pipeline.distributed.closing import closes_channels
from headrace.pipeline.distributed.collective_order import CollectiveOrder
from headrace.pipeline.distributed.generations import POLL, Generations
from headrace.pipeline.distributed.leaving import Loops
from headrace.pipeline.distributed.meeting import PATIENCE
from headrace.pipeline.distributed.same_place import Notes

#: Seconds that a collective of GPUs is looked at without a sleep.
MOST_SPINNING = 0.005

#: Seconds that a collective of a thread goes on when Python ends, for what all ranks have begun.
FINISH = 5.0


class DistributedComm(Comm):
    """A channel of torch.distributed (gloo or NCCL), with a process group of its own.

    Waiting ranks look at the job's store, where a rank that fails leaves its reason, and one that leaves its training
    loop the place. They wait as long as the process group of the job would: the ``timeout`` that the user gave to
    ``torch.distributed.init_process_group``.

    Parameters
    ----------
    generations
        What all channels of this rank share.
    agrees
        Whether ranks agree at the store on collectives that do not follow from those of the batch before: for the
        channel of models, whose exchanges are called by what the user writes.
    """

    _ends_since: float | None = None  # when a thread first found that Python ends

    def __init__(self, generations: Generations, *, agrees: bool = False) -> None:
        super().__init__(generations.store.rank, generations.store.world_size)
        self._device = job.device_of_job()  # of what lies in CPU memory
        self._reaches_gpus = job.reaches_gpus(job.all_ranks())
        self._generations = generations
        self._store, self._loops = generations.store, generations.loops
        self._agrees = agrees
        self._unfinished = False  # whether this rank has left a collective of the group before its end
        self._needs_new_group = False  # what begin found, until there is one
        self._told = 0.0  # when the wait began of which the user was told
        self._key = ""
        self._number = 0  # of the last collective of the group
        self._num_meetings = 0
        self._met: tuple[str, str] | None = None  # the last of them, and what all brought to it
        self._order = CollectiveOrder()
        # Not kept alive: its threads would outlive ``destroy_process_group``, and one that frees a tensor while Python
        # ends brings the process down.
        self._job = weakref.ref(job.all_ranks())
        self._group: Any = None
        self.open()

    @property
    def loops(self) -> Loops:
        """The training loops of this rank."""
        return self._loops

    @property
    def notes(self) -> Notes:
        """The job's store."""
        return self._store

    @property
    def reaches_gpus(self) -> bool:
        """Whether NCCL carries what lies on GPUs, alone or beside gloo (``"cpu:gloo,cuda:nccl"``)."""
        return self._reaches_gpus

    @property
    def generation(self) -> int:
        """How often the ranks have met in `begin`."""
        return self._generations.number

    def channel(self) -> Comm:
        """Return a further channel, with a process group of its own."""
        return DistributedComm(self._generations)

    def fail(self, reason: str, *, blames: bool = False) -> None:
        """Leave the reason in the job's store."""
        self._generations.fail(reason, blames=blames)

    def begin(self) -> None:
        """Meet at the store; go on with a new group where the last one may hold half a collective."""
        needs_new_group = self._unfinished or self._needs_new_group
        self._needs_new_group, error = self._generations.meet(needs_new_group=needs_new_group)
        self._label, self._order = (-1, -1, -1), CollectiveOrder()
        if error is not None:
            raise error
        if self._needs_new_group:
            self.close()
            self.open()

    def refuse(self, reason: str) -> None:
        """Arrive at the store with a refusal."""
        needs_new_group = self._unfinished or self._needs_new_group
        self._needs_new_group = self._generations.refuse(reason, needs_new_group=needs_new_group)

    def open(self) -> None:
        """Make a process group, for which all ranks meet."""
        if self._group is not None:
            return
        self._group, name = job.new_group(self._generations.timeout)
        # All ranks know the name; a later job may use it again, with the same store.
        self._unfinished = self._needs_new_group = False
        self._key = f"channel/{self.generation}/{name}"
        self._number = self._num_meetings = 0
        self._met = None
        self._label, self._order = (-1, -1, -1), CollectiveOrder()
        OPEN.add(self)
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
        self._store.reached.pop(self._key, None)
        OPEN.discard(self)
        if group is None:
            return
        if self._unfinished:
            leave_for_good(group)
            return
        # With its last reference the group goes, and waits for its threads. torch 2.2 waits under Python's lock, which
        # a thread may need to free a tensor, but not if the part of the group that has the threads is released last.
        kinds = ("cpu", "cuda") if self._reaches_gpus and self._device.type == "cpu" else (self._device.type,)
        backends = [group._get_backend(torch.device(kind)) for kind in kinds]  # noqa: SLF001
        own = self._job()
        if own is not None and job.all_ranks() is own:  # else the job was ended, and its groups with it
            job.end_group(group)
        del group
        del backends

    def leave_to_the_parent(self) -> None:
        """Let go of the process group without giving it back, in a forked process."""
        group, self._group = self._group, None
        leave_for_good(group)

    def _all_to_all(
        self,
        sent: Tensor,
        received: Tensor,
        send_counts: list[int],
        receive_counts: list[int],
        meanwhile: Callable[[], None],
    ) -> None:
        device = self._where(received)
        target = received.to(device)
        begin = partial(job.begin_all_to_all, sent.to(device), target, send_counts, receive_counts)
        self._run(begin, meanwhile, on_gpu=device.type != "cpu")
        if target is not received:
            received.copy_(target)

    def _all_reduce_sum(self, values: Tensor) -> Tensor:
        device = self._where(values)
        summed = values.detach().to(device, copy=True).contiguous()
        self._run(partial(job.begin_all_reduce, summed), on_gpu=device.type != "cpu")
        return summed.to(values.device)

    def _where(self, tensor: Tensor) -> torch.device:
        """Return where a collective takes a tensor: as it is on a GPU, by NCCL, else where the job's take others."""
        return tensor.device if tensor.is_cuda and self._reaches_gpus else self._device

    def _run(
        self, begin: Callable[[Any], Any], meanwhile: Callable[[], None] = nothing, *, on_gpu: bool = False
    ) -> None:
        """Begin a collective in the group and wait for it, or for what keeps another rank from it."""
        began, group = time.monotonic(), self._opened()
        self._unfinished = True
        self._number += 1
        if self._agrees:
            self._store.reached[self._key] = self._number
        with self._connection(began):
            work = begin(group)
        del group
        meanwhile()
        with self._connection(began):
            while not self._is_done(work, on_gpu=on_gpu):
                self._look(began)
            self._unfinished = False

    def _opened(self) -> Any:
        if self._group is None:  # which torch would take for the group of all that the job does
            raise PeerError(f"rank {self.rank} has closed this channel, or ended the job that it belonged to")
        return self._group

    def _is_done(self, work: Any, *, on_gpu: bool) -> bool:
        """Wait a moment for a collective; raise what it raised."""
        if on_gpu:
            # There a wait that runs out of time ends the whole communicator.
            began = time.monotonic()
            while not work.is_completed():
                waited = time.monotonic() - began
                if waited > self._store.look_every:
                    return False
                # Most collectives of a batch take less than one sleep.
                time.sleep(POLL if waited > MOST_SPINNING else 0)
            work.wait()
            return True
        try:
            work.wait(timedelta(seconds=self._store.look_every))
        except RuntimeError:
            if not work.is_completed():
                return False
            work.wait()  # either it has completed meanwhile, or this raises its error
        return True

    @contextmanager
    def _connection(self, began: float) -> Iterator[None]:
        """Say why the connection broke, if it does, and who broke it."""
        try:
            yield
        except PeerError:
            raise
        except RuntimeError as error:
            # The rank that broke it may have left a message, or is about to. Those that did not are in here as well.
            broke, before = time.monotonic(), self._generations.beats()
            while time.monotonic() - broke < self._generations.grace:
                self._look(began, in_time=False)
                time.sleep(self._store.look_every)
            if broke - began > self._generations.timeout - LOOK:  # it was torch that gave up first
                raise self._too_late(self._came) from error
            named = " or ".join(
                f"rank {rank}{self._loops.last_words(rank)}" for rank in self._generations.silent(before)
            )
            raise self._blame(PeerError(f"rank {self.rank} lost the connection to {named}: {error}")) from error

    def _look(self, began: float, came: Callable[[int], bool] | None = None, *, in_time: bool = True) -> None:
        """Raise what keeps another rank from where this one waits; show that this one waits.

        `came` returns whether a rank has come there, by default to the collective that was begun last.
        """
        came = self._came if came is None else came
        self._store.add(f"beat/{self.rank}", 1)
        self._store.say(self._key, self._number)
        self._store.say_what_was_asked(self._loops.progress)
        failure = self._generations.failure()
        if failure is not None:
            self._loops.break_off()
            raise failure
        self._look_at_loops(came)
        self._look_for_a_meeting()
        self._look_for_those_ahead(came)
        waited = time.monotonic() - began
        if in_time and waited > self._generations.timeout:
            raise self._too_late(came)
        if self._agrees and waited > PATIENCE and began != self._told:
            self._told = began
            self._tell_for_whom(came)
        self._look_for_the_end()

    def _look_at_loops(self, came: Callable[[int], bool]) -> None:
        try:
            self._loops.look()
            if self._agrees:
                self._loops.look_for(came)
        except PeerError as error:
            raise self._blame(error) from None

    def _look_for_those_ahead(self, came: Callable[[int], bool]) -> None:
        """Find out ranks that went on to a further batch, and wait in a loader for this one to ask for it as well."""
        if not self._agrees:
            return
        try:
            progress = self._loops.progress
            progress.look_for(self._store.asked(self.generation), came, self.rank, self._label)
        except PeerError as error:
            raise self._blame(error) from None

    def _came(self, rank: int) -> bool:
        """Return whether a rank was seen to come to what this one waits in: if it waits there, it is."""
        return self._store.said_by(rank, self._key) >= self._number

    def _look_for_the_end(self) -> None:
        """Leave a collective of a thread when Python has ended for some seconds: it would keep the process."""
        if threading.main_thread().is_alive():
            return
        if DistributedComm._ends_since is None:
            DistributedComm._ends_since = time.monotonic()
        if time.monotonic() - DistributedComm._ends_since > FINISH:
            raise PeerError(f"rank {self.rank} ends, though not all other ranks reached its last exchange")

    def _agree(self, kind: str) -> None:
        """Meet at the store before a collective that does not follow from those before; counts say where they are."""
        if self._order.follows(self.place, kind):
            return
        self._opened()
        began = looked = time.monotonic()
        key = f"{self._key}/meeting/{self._num_meetings}"
        what = json.dumps([self._number, self._label, kind])
        self._unfinished = True  # a rank that gives up here comes to no collective behind it
        self._store.arrive(key, what)
        self._num_meetings += 1
        while self._store.add(key, 0) < self.world_size:
            if time.monotonic() - looked > self._store.look_every:
                looked = time.monotonic()
                self._look(began, partial(self._store.has_arrived, key))
            time.sleep(POLL)
        if not self._store.all_agree(key, what):
            self._look_for_others(key, what)
        if self._met is not None:  # who came to this meeting has left the one before
            self._store.forget_meeting(*self._met)
        self._met = key, what
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
            raise self._blame(
                parted(rank, tuple(label), kind, self.rank, self._label, self._kind, self._loops.left_by(rank))
            )

    def _too_late(self, came: Callable[[int], bool]) -> PeerError:
        """Return the error for a collective to which other ranks did not come in time."""
        return self._blame(self._generations.late(self._absent(came), "to an exchange"))

    def _tell_for_whom(self, came: Callable[[int], bool]) -> None:
        """Warn of a long wait: a rank may be in a collective of its own, for which this one never comes."""
        named = " and ".join(f"rank {rank}{self._loops.last_words(rank)}" for rank in self._absent(came))
        what = f" ({self._kind})" if self._kind else ""
        warn_user(
            f"rank {self.rank} has waited {PATIENCE:.0f} seconds in an exchange{what} for {named or 'others'}, and "
            f"gives up after {self._generations.timeout:.0f} seconds; each rank has to call the model for each batch",
        )

    def _absent(self, came: Callable[[int], bool]) -> list[int]:
        return [rank for rank in range(self.world_size) if rank != self.rank and not came(rank)]


def leave_for_good(kept: Any) -> None:
    """Keep a group in which a collective was left until the process is gone, behind the end of Python.

    Its threads wait in the network for ranks that do not come, and the destructor of a group joins its threads. gloo
    has nothing that ends them, so the destructor must never be called. What is left goes with the process.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


#: Channels that hold a process group.
OPEN: weakref.WeakSet[DistributedComm] = weakref.WeakSet()


@closes_channels
def _close_all() -> None:
    """Give back process groups, whose threads may have tensors to free; but wait for no collective."""
    with ExitStack() as all_channels:  # also where one cannot be closed
        for channel in list(OPEN):
            all_channels.callback(channel.close)
