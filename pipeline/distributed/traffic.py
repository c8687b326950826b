"""What communication costs a rank, for stages that learn it only while they run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Traffic:
    """What a rank did together with the others.

    Parameters
    ----------
    rounds
        Times that it waited for all others, one after the other.
    collectives
        Collectives that it took part in. A round whose sizes the others do not know has two.
    sent_bytes
        Bytes that it sent to other ranks, without the sizes that precede them; what a sum over all ranks takes is
        counted as if each rank sent its terms to every other.
    """

    rounds: int = 0
    collectives: int = 0
    sent_bytes: int = 0
