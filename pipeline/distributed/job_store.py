"""The store by which the ranks of a job met: where they leave messages while a collective waits.

Whoever waits in a collective that another rank does not come to can be reached here and nowhere else.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple
from typing import Any

from headrace.ops.errors import PeerError
from headrace.pipeline.distributed.channel import LOOK
from headrace.pipeline.distributed.channel_errors import failure_of
from headrace.pipeline.distributed.leaving import MessageLog
from headrace.pipeline.distributed.progress import Asked, Progress
from headrace.pipeline.distributed.same_place import Notes

#: Ranks that may look at the store as often as they like.
RANKS_AT_ONCE = 8

#: Seconds between two looks of a rank at most, however many there are: it is to name soon who keeps it waiting.
LONGEST_LOOK = 5.0


class JobStore(MessageLog, Notes):
    """What ranks say through a store of torch.distributed, which has keys, values and counters.

    A value is always set before it is counted, and read behind its count: nothing here waits for another rank. Whatever
    needs the store raises `PeerError` where it cannot be reached.

    Parameters
    ----------
    store
        The store.
    rank, world_size
        This rank, and how many there are.
    """

    def __init__(self, store: Any, rank: int, world_size: int) -> None:
        self._store = store
        self._is_cut_off = False
        self.rank = rank
        self.world_size = world_size
        # One process answers all ranks: many of them look less often, so that it has no more to answer.
        self.look_every = min(LOOK * max(1.0, world_size / RANKS_AT_ONCE), LONGEST_LOOK)
        with self._reached():
            # A store may outlive a job, with its counters, while those here begin anew.
            self._prefix = f"headrace/{store.add(f'headrace/job/{rank}', 1)}"
        self._posted = itertools.count()
        self._num_read = 0
        self._read_of = [0] * world_size
        self._saying = threading.RLock()  # threads of loaders say what the model has reached; so does a destructor
        self._said: dict[str, int] = {}
        self._asked = Asked()  # as said last
        self._others_asked: tuple[str, int, dict[int, Asked]] = "", 0, {}  # as read last, behind so many changes
        self.num_meetings = 0  # of texts_of_ranks, the same on every rank
        self.reached: dict[str, int] = {}  # collectives called on each channel, which `post` publishes

    def cut_off(self) -> None:
        """Reach nothing any more: in a forked process, which has the connection of its parent, but is no rank."""
        self._is_cut_off = True
        self._saying = threading.RLock()  # perhaps held by a thread that was not taken along

    def add(self, key: str, value: int) -> int:
        """Add to a counter, which begins at 0, and return it."""
        with self._reached():
            sum_: int = self._store.add(f"{self._prefix}/{key}", value)
        return sum_

    def get(self, key: str) -> str:
        """Return the text under a key; waits until it is there."""
        with self._reached():
            value: bytes = self._store.get(f"{self._prefix}/{key}")
        return value.decode()

    def first(self, key: str, text: str) -> str:
        """Leave a text under a key where there is none; return the one that is there then."""
        with self._reached():
            value: bytes = self._store.compare_set(f"{self._prefix}/{key}", "", text)
        return value.decode()

    def report(self, key: str, reason: str, *, blames: bool = False) -> None:
        """Leave a reason under a key, and count under it."""
        report = {"rank": self.rank, "reason": reason, "blames": blames}
        self._put(f"{key}/reason", json.dumps(report))
        self.add(key, 1)

    def is_reported(self, key: str) -> bool:
        """Return whether any rank has counted under a key; torch 2.2 has no `Store.check`."""
        return self.add(key, 0) > 0

    def reported_error(self, key: str, last_words: Callable[[int], str] | None = None) -> PeerError:
        """Return the error of which a rank has left the reason under a key, with what was its last word before."""
        report = json.loads(self.get(f"{key}/reason"))
        words = "" if last_words is None else last_words(report["rank"])
        return failure_of(**report, own_rank=self.rank, last_words=words)

    def post(self, text: str) -> None:
        """Leave a message, behind how far this rank has come on its channels; safe in a destructor."""
        self._say_what_was_reached()
        number = next(self._posted)
        self._put(f"post/{self.rank}/{number}", text)
        self.add(f"posts/{self.rank}", 1)
        self.add("posts", 1)

    def read(self) -> list[tuple[int, str]]:
        """Return what was posted since the last call."""
        num_posted = self.add("posts", 0)
        if num_posted == self._num_read:
            return []
        posted, until = self._read_of, self.said("posts")
        self._num_read, self._read_of = num_posted, until
        return [
            (rank, self.get(f"post/{rank}/{number}"))
            for rank in range(self.world_size)
            for number in range(posted[rank], until[rank])
        ]

    def delete(self, *keys: str) -> None:
        """Delete keys that no rank reads any more: a job may make loaders for as long as it lives."""
        delete_keys(self._store, *(f"{self._prefix}/{key}" for key in keys))

    def say(self, key: str, number: int) -> None:
        """Let others see a number of this rank, which only grows."""
        with self._saying:
            grown = number - self._said.get(key, 0)
            if grown > 0:
                self._said[key] = number
                self.add(f"{key}/{self.rank}", grown)

    def said(self, key: str) -> list[int]:
        """Return the number of every rank, 0 where it said none."""
        return [self.said_by(rank, key) for rank in range(self.world_size)]

    def said_by(self, rank: int, key: str) -> int:
        """Return the number of a rank, 0 if it said none."""
        return self.add(f"{key}/{rank}", 0)

    def say_what_was_asked(self, progress: Progress) -> None:
        """Let others see how far this rank's loops have come, behind how far its models had come by then."""
        asked = progress.asked
        if asked == self._asked or not asked.number:
            return
        self._say_what_was_reached()
        key = f"asked/{asked.generation}"
        self._put(f"{key}/what/{self.rank}", json.dumps(astuple(asked)))
        self.add(f"{key}/there/{self.rank}", 1)
        self.add(key, 1)
        self._asked = asked

    def asked(self, generation: int) -> dict[int, Asked]:
        """Return what the ranks have said that they asked for; while none says more, by one request."""
        key = f"asked/{generation}"
        num_changes = self.add(key, 0)
        known, known_changes, others = self._others_asked
        if (key, num_changes) != (known, known_changes):
            others = {rank: Asked(*json.loads(text)) for rank, text in self.brought(key).items()} if num_changes else {}
            self._others_asked = key, num_changes, others
        return others

    def arrive(self, key: str, what: str) -> None:
        """Come to a meeting, with what is to be compared."""
        self.add(f"{key}/of/{what}", 1)
        self.bring(key, what)

    def forget_meeting(self, key: str, what: str) -> None:
        """Delete a meeting to which all ranks came with the same, and which all have left."""
        self.delete(f"{key}/what/{self.rank}", f"{key}/there/{self.rank}")
        if self.rank == 0:
            self.delete(key, f"{key}/of/{what}")

    def bring(self, key: str, text: str) -> None:
        """Come to a meeting with a text for all, which compares by itself."""
        self._put(f"{key}/what/{self.rank}", text)
        self.add(f"{key}/there/{self.rank}", 1)
        self.add(key, 1)

    def leave_meeting(self, key: str) -> None:
        """Delete a meeting of which all ranks have read what was brought, when the last of them leaves."""
        if self.add(f"{key}/left", 1) == self.world_size:
            ranks = range(self.world_size)
            self.delete(*(f"{key}/what/{rank}" for rank in ranks), *(f"{key}/there/{rank}" for rank in ranks))
            self.delete(key, f"{key}/left", f"{key}/outcome", f"{key}/given up")

    def has_arrived(self, key: str, rank: int) -> bool:
        """Return whether a rank has come to a meeting."""
        return self.said_by(rank, f"{key}/there") > 0

    def all_agree(self, key: str, what: str) -> bool:
        """Return whether all ranks who will come to the meeting brought the same; when all have come."""
        return self.add(f"{key}/of/{what}", 0) == self.world_size

    def brought(self, key: str) -> dict[int, str]:
        """Return what each rank that has come to a meeting brought."""
        there = [rank for rank, came in enumerate(self.said(f"{key}/there")) if came]
        return {rank: self.get(f"{key}/what/{rank}") for rank in there}

    def _put(self, key: str, text: str) -> None:
        with self._reached():
            self._store.set(f"{self._prefix}/{key}", text)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Say what it means if the store cannot be reached: torch raises errors of the network, of its own kinds."""
        if self._is_cut_off:
            raise PeerError(f"rank {self.rank} is the process from which this one was forked: no other is a rank")
        try:
            yield
        except RuntimeError as error:
            raise PeerError(
                f"rank {self.rank} cannot reach the job's store any more: rank 0, or the program that started the "
                "ranks, is gone"
            ) from error

    def _say_what_was_reached(self) -> None:
        for key, reached in list(self.reached.items()):
            self.say(key, reached)


def delete_keys(store: Any, *keys: str) -> None:
    """Delete keys of a store of torch.distributed; one that cannot delete keeps them, as does one that is gone."""
    with suppress(RuntimeError):
        for key in keys:
            store.delete_key(key)
