"""The in-process twin of torch.distributed: ranks that are threads of one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headrace.ops.errors import InputError, PeerError
from headrace.ops.gpu import Event, device_of, record, use_here
from headrace.pipeline.data.arrays import number_above_0, whole_number
from headrace.pipeline.distributed.channel import LOOK, Comm
from headrace.pipeline.distributed.channel_errors import Label, failure_of, gave_up, late, parted
from headrace.pipeline.distributed.leaving import Loops, MessageLog
from headrace.pipeline.distributed.progress import Progress
from headrace.pipeline.distributed.same_place import Notes


class LocalGroup:
    """Several ranks in one process; run each in its own thread.

    >>> import headrace as hr
    >>> group = hr.testing.LocalGroup(4)
    >>> [comm.rank for comm in group.comms]
    [0, 1, 2, 3]

    Parameters
    ----------
    world_size
        Number of ranks.
    timeout
        Seconds to wait for a rank in a collective.

    Raises
    ------
    InputError
        If one of them is not a number above 0.
    """

    def __init__(self, world_size: int, timeout: float = 60.0) -> None:
        world_size = whole_number(world_size, "LocalGroup: world_size", 1, InputError, MOST_RANKS)
        timeout = number_above_0(timeout, "LocalGroup: timeout, in seconds,", InputError, threading.TIMEOUT_MAX)
        self._shared = _Shared(world_size, timeout)
        self.comms = tuple(
            LocalComm(rank, world_size, self._shared, (), Loops(rank, _LocalLog(rank, self._shared.posts)))
            for rank in range(world_size)
        )


@dataclass
class _Meeting:
    """One collective: what the ranks that came have brought, and how many have not left."""

    brought: dict[int, tuple[Tensor, ...]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)  # behind which what lies on GPUs is there
    doing: dict[int, tuple[Label, str]] = field(default_factory=dict)
    left: int = 0


class _LocalNotes(Notes):
    """Notes in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def first(self, key: str, text: str) -> str:
        return self._texts.setdefault(key, text)

    def get(self, key: str) -> str:
        return self._texts[key]

    def add(self, key: str, value: int) -> int:
        with self._lock:
            count = self._counts[key] = self._counts.get(key, 0) + value
        return count

    def delete(self, *keys: str) -> None:
        for key in keys:
            self._texts.pop(key, None)
            self._counts.pop(key, None)


#: More threads no machine runs.
MOST_RANKS = 1 << 16


class _Shared:
    """What all channels of a group share."""

    def __init__(self, world_size: int, timeout: float) -> None:
        self.timeout = timeout
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.meetings: dict[tuple[int, ...], _Meeting] = {}
        self.failures: dict[int, tuple[int, str, bool]] = {}  # the first of each generation
        self.refusals: dict[int, tuple[int, str, bool]] = {}  # likewise
        self.generations = [0] * world_size
        self.beginning: set[int] = set()  # ranks on their way to their next generation
        self.posts: list[tuple[int, str]] = []
        self.progress: dict[int, Progress] = {}  # of each rank
        self.notes = _LocalNotes()


class _LocalLog(MessageLog):
    """Messages in memory."""

    def __init__(self, rank: int, posts: list[tuple[int, str]]) -> None:
        self._rank = rank
        self._posts = posts
        self._num_read = 0

    def post(self, text: str) -> None:
        self._posts.append((self._rank, text))

    def read(self) -> list[tuple[int, str]]:
        posted = self._posts[self._num_read :]
        self._num_read += len(posted)
        return posted


class LocalComm(Comm):
    """One rank's end of a channel within a process."""

    def __init__(self, rank: int, world_size: int, shared: _Shared, name: tuple[int, ...], loops: Loops) -> None:
        super().__init__(rank, world_size)
        self._shared = shared
        self._name = name
        self._loops = loops
        self._num_channels = 0
        self._last = (0, 0)
        loops.failure = self._failure
        shared.progress[rank] = loops.progress

    @property
    def loops(self) -> Loops:
        """The training loops of this rank."""
        return self._loops

    @property
    def notes(self) -> Notes:
        """Those of the group."""
        return self._shared.notes

    @property
    def reaches_gpus(self) -> bool:
        """True: threads of one process see each other's memory."""
        return True

    @property
    def generation(self) -> int:
        """How often the ranks have met in `begin`."""
        return self._shared.generations[self.rank]

    def channel(self) -> Comm:
        """Return a further channel between the same ranks."""
        self._num_channels += 1
        return LocalComm(self.rank, self.world_size, self._shared, (*self._name, self._num_channels), self._loops)

    def fail(self, reason: str, *, blames: bool = False) -> None:
        """Let the other ranks know why this one cannot go on."""
        failure = (self.rank, reason, blames)
        with self._shared.lock:
            self._shared.failures.setdefault(self.generation, failure)
            if self.rank in self._shared.beginning:  # those who are there already must hear of it as well
                self._shared.failures.setdefault(self.generation + 1, failure)
            self._shared.changed.notify_all()

    def begin(self) -> None:
        """Go on to the next generation of failures."""
        self._label = (-1, -1, -1)
        self._loops.go_on()
        with self._shared.lock:
            self._shared.beginning.add(self.rank)
        met = False
        try:
            self._meet((), (-1, self.generation), look=False)
            met = True
        finally:
            with self._shared.lock:
                self._shared.beginning.discard(self.rank)
                self._shared.generations[self.rank] += met
        self._loops.forget(self.generation)
        refusal = self._shared.refusals.get(self.generation - 1)
        if refusal is not None:
            rank, reason, blames = refusal
            raise failure_of(rank, reason, own_rank=self.rank, blames=blames)

    def refuse(self, reason: str) -> None:
        """Arrive where the others meet, with a refusal."""
        self._arrive_with(reason, blames=False)

    def _arrive_with(self, reason: str, *, blames: bool) -> None:
        shared = self._shared
        with shared.lock:
            shared.refusals.setdefault(self.generation, (self.rank, reason, blames))
            place = (-1, self.generation)
            meeting = shared.meetings.setdefault(place, _Meeting())
            meeting.brought[self.rank] = ()
            meeting.left += 1
            if meeting.left == self.world_size:
                del shared.meetings[place]
            shared.generations[self.rank] += 1
            shared.changed.notify_all()

    def _all_to_all(
        self,
        sent: Tensor,
        received: Tensor,
        send_counts: list[int],
        receive_counts: list[int],
        meanwhile: Callable[[], None],
    ) -> None:
        meanwhile()
        brought = self._meet(sent.clone().split_with_sizes(send_counts))
        came, filled = list[int](), list[Tensor]()
        for rank in range(self.world_size):
            part = brought[rank][self.rank]
            came.append(part.shape[0])
            if part.shape[0]:
                filled.append(part.to(received.device))
        if came != receive_counts:
            raise PeerError(f"rank {self.rank} expected {receive_counts} rows from the ranks, got {came}")
        if filled:
            torch.cat(filled, out=received)

    def _all_reduce_sum(self, values: Tensor) -> Tensor:
        total = torch.zeros_like(values)
        brought = self._meet((values.detach().clone(),))
        for rank in range(self.world_size):
            total += brought[rank][0].to(total.device)
        return total

    def _meet(
        self, brought: tuple[Tensor, ...], place: tuple[int, ...] | None = None, *, look: bool = True
    ) -> dict[int, tuple[Tensor, ...]]:
        """Bring something to a collective; return what all ranks brought.

        Parameters
        ----------
        brought
            What this rank brings.
        place
            Where the ranks meet; None for the next collective of this channel.
        look
            Whether to look for failures.
        """
        shared = self._shared
        if place is None:
            generation, number = self._last
            now = shared.generations[self.rank]  # in a new generation they begin to count anew
            self._last = (generation, number + 1) if generation == now else (now, 0)
            place = (*self._name, -1, *self._last)
        deadline = time.monotonic() + shared.timeout
        device = device_of(brought[0]) if brought else None
        events = () if device is None else (record(device),)
        with shared.lock:
            meeting = shared.meetings.get(place)
            if meeting is None:
                meeting = shared.meetings[place] = _Meeting()
            meeting.brought[self.rank] = brought
            meeting.events += events
            meeting.doing[self.rank] = self._label, self._kind
            if len(meeting.brought) == self.world_size:  # a rank that comes with something else reports it below
                shared.changed.notify_all()
            while True:
                if look:
                    self._look(meeting)
                if len(meeting.brought) == self.world_size:
                    break
                if time.monotonic() > deadline:
                    absent = sorted(set(range(self.world_size)) - set(meeting.brought))
                    named = " and ".join(f"rank {rank}{self._loops.last_words(rank)}" for rank in absent)
                    rank, left = self.rank, self._loops.own_left
                    error = late(named, "to an exchange", shared.timeout, rank, "LocalGroup(timeout=)", left)
                    raise self._blame(error) if look else self._given_up(error)
                shared.changed.wait(LOOK)
            meeting.left += 1
            if meeting.left == self.world_size:
                del shared.meetings[place]
        for event in meeting.events:
            event.wait()
        if events:
            use_here(tensor for tensors in meeting.brought.values() for tensor in tensors)
        return meeting.brought

    def _given_up(self, error: PeerError) -> PeerError:
        """Give up to begin, for all ranks: those that come later learn it, and have been to the same meeting."""
        error = PeerError(f"{error}\n{gave_up(self.rank)}")
        self._shared.beginning.discard(self.rank)  # a failure of this generation alone
        self._blame(error)
        self._arrive_with(str(error), blames=True)
        return error

    def _look(self, meeting: _Meeting) -> None:
        """Raise what keeps another rank from a collective."""
        for rank, (label, kind) in meeting.doing.items():
            if (label, kind) != (self._label, self._kind):
                raise self._blame(
                    parted(rank, label, kind, self.rank, self._label, self._kind, self._loops.left_by(rank))
                )
        if len(meeting.brought) == self.world_size:
            return
        failure = self._failure()
        if failure is not None:
            self._loops.break_off()
            raise failure
        try:
            self._loops.look()
            if not self._name:  # the channel of the model
                came = meeting.brought.__contains__
                self._loops.look_for(came)
                asked = {rank: progress.asked for rank, progress in self._shared.progress.items()}
                self._loops.progress.look_for(asked, came, self.rank, self._label)
        except PeerError as error:
            raise self._blame(error) from None

    def _failure(self) -> PeerError | None:
        """Return the error of a rank that failed since all began, if one did."""
        failure = self._shared.failures.get(self._shared.generations[self.rank])
        if failure is None:
            return None
        rank, reason, blames = failure
        words = self._loops.last_words(rank)
        return failure_of(rank, reason, own_rank=self.rank, blames=blames, last_words=words)
