"""Errors of channels: a rank failed, gave up, is late, or is somewhere else in the program."""

from __future__ import annotations

from headrace.ops.errors import PeerError

#: Epoch, batch, and how many collectives of the batch came before; -1 where there is none.
Label = tuple[int, int, int]


def failure_of(rank: int, reason: str, *, own_rank: int, blames: bool = False, last_words: str = "") -> PeerError:
    """Return the error that `own_rank` raises when a rank failed, or gave up and `blames` another, by name."""
    if blames:
        return PeerError(reason if rank == own_rank else f"{reason}\n(reported by rank {rank})")
    before = f" (it {last_words.removeprefix(', which ')})" if last_words else ""
    return PeerError(f"rank {rank} failed{before}:\n{reason}")


def describe(label: Label) -> str:
    """Say where a rank is."""
    epoch, batch, number = label
    return f"exchange {number}" + (f" of batch {batch} of epoch {epoch}" if batch >= 0 else ", outside of batches")


def parted(
    rank: int, label: Label, kind: str, own_rank: int, own: Label, own_kind: str = "", left: str = ""
) -> PeerError:
    """Return the error for ranks that come to different exchanges, or to one with different things (`kind`).

    Where they have left their loops, as `Loops.left_by` tells it, is the reason that one of them is in another epoch.
    """
    there, here = (describe(at) + (f", with {what}" if what else "") for at, what in ((label, kind), (own, own_kind)))
    remedy = (
        "all ranks take the same batches in the same order, and call the model and what belongs to a step for each of "
        "them"
    )
    if max(label[1], own[1]) < 0:
        remedy = (
            "all ranks call the same layers in the same order and mode, with gradients for the same tensors, and the "
            "same steps"
        )
    return PeerError(
        f"rank {rank} is at {there}, rank {own_rank} at {here}: {remedy} (a `continue` or a condition holds on all "
        f"ranks or on none){left}"
    )


def late(named: str, where: str, timeout: float, own_rank: int, setting: str, own_left: str = "") -> PeerError:
    """Return the error for ranks that did not come in time; `own_left` says where this one left its last loop."""
    own = f" Rank {own_rank} {own_left} before: if the others did not, they are still in that loop." if own_left else ""
    return PeerError(
        f"{named or 'another rank'} did not come {where} in the {timeout:g} seconds that rank {own_rank} waited "
        f"({setting} sets them): is it stopped, or somewhere else in the program?{own}"
    )


def gave_up(rank: int, made: str = "loader") -> str:
    """Say what follows when a rank gave up a meeting of all ranks that make an object, such as a loader."""
    return f"(rank {rank} gave up to make this {made}; to go on, all ranks make it once more)"
