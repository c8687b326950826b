"""How many batches a rank's training loops have asked for: who asked for more than another will not come to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from headrace.ops.errors import PeerError
from headrace.pipeline.distributed.channel_errors import Label, describe


@dataclass(frozen=True)
class Asked:
    """What a rank has asked for since all began.

    Parameters
    ----------
    generation
        How often the ranks had begun.
    number
        Batches asked for since, in all loops; equal on all ranks whenever they come to the same exchange of the model.
    word
        Where the rank was when it asked for the last one.
    """

    generation: int = 0
    number: int = 0
    word: str = ""


class Progress:
    """Counts what this rank's training loops ask for.

    A rank that leaves out what belongs to a batch may come to no exchange of a model that another one could compare:
    without prefetch it waits in the loader, for the batch that the other does not ask for. Each sees the other wait
    there, and its count says that it will not come.

    Only the thread that trains is counted. Others may ask ahead, on each rank as far as they like.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self.asked = Asked()  # replaced, never changed: other threads read it

    def begin(self, generation: int) -> None:
        """Begin anew; called by the thread that trains, as on all ranks."""
        self._thread = threading.get_ident()
        self.asked = Asked(generation)

    def ask(self, word: str) -> None:
        """Count a batch that is asked for."""
        if threading.get_ident() == self._thread:
            self.asked = Asked(self.asked.generation, self.asked.number + 1, word)

    def end(self, word: str) -> None:
        """Note that there was no further batch."""
        if threading.get_ident() == self._thread:
            self.asked = replace(self.asked, word=word)

    def look_for(self, others: Mapping[int, Asked], came: Callable[[int], bool], rank: int, label: Label) -> None:
        """See whether the model waits for a rank that went on to a further batch.

        Parameters
        ----------
        others
            What other ranks were seen to have asked for, before `came` is called.
        came
            Returns whether a rank has come to what this one waits in.
        rank, label
            This rank, and where it waits.

        Raises
        ------
        PeerError
            If so. It names the rank.
        """
        own = self.asked
        for other, asked in others.items():
            if asked.generation == own.generation and asked.number > own.number and not came(other):
                raise PeerError(
                    f"rank {other} {asked.word}, rank {rank} waits for it at {describe(label)}: all ranks call the "
                    "model and what belongs to a step for each batch (a `continue` or a condition holds on all ranks "
                    "or on none)"
                )
