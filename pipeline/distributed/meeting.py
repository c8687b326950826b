"""Ranks tell each other a text at the job's store, without a collective: where one makes something that all make."""

from __future__ import annotations

import time

from headrace.ops.errors import PeerError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.distributed.channel_errors import gave_up, late
from headrace.pipeline.distributed.generations import MET, POLL
from headrace.pipeline.distributed.job_store import JobStore
from headrace.pipeline.distributed.leaving import Loops

#: Seconds after which a rank that still waits tells its user for whom.
PATIENCE = 10.0

ALONE = "a loader for this rank alone, as for validation on rank 0, is made by .loader(rank=0, world_size=1)"


def texts_of_ranks(
    store: JobStore, loops: Loops, text: str, *, timeout: float, waits: bool = True, made: str = "loader"
) -> list[str]:
    """Return the text that each rank brings; the first calls of all ranks belong together, and so on.

    Nothing where this rank `waits` for no other. All ranks make the object that `made` names in errors.

    Warns
    -----
    UserWarning
        After `PATIENCE` seconds, with the ranks that have not come.

    Raises
    ------
    PeerError
        If a rank ends, or does not come in `timeout` seconds; it names the rank.
    """
    advice = f"; {ALONE}" if made == "loader" else ""
    key = f"loaders/{store.num_meetings}"
    store.num_meetings += 1
    store.bring(key, text)
    if not waits:
        return []
    began = looked = time.monotonic()
    warned = False
    while store.add(key, 0) < store.world_size:
        now = time.monotonic()
        if now - looked > store.look_every:
            looked = now
            if store.add(f"{key}/given up", 0):
                break
            absent = {rank for rank, came in enumerate(store.said(f"{key}/there")) if not came}
            ended = absent & loops.ended()
            if ended:
                _give_up(
                    store,
                    key,
                    f"rank {min(ended)} ended, where rank {store.rank} makes a {made}, which all ranks make{advice}",
                    made,
                )
            named = " and ".join(f"rank {rank}{loops.last_words(rank)}" for rank in sorted(absent))
            if absent and now - began > timeout:
                error = late(
                    named, f"to where all ranks make a {made}", timeout, store.rank, "init_process_group(timeout=)"
                )
                _give_up(store, key, f"{error}; all ranks make the same {made}s in the same order{advice}", made)
            if absent and not warned and now - began > PATIENCE:
                warned = True
                warn_user(
                    f"rank {store.rank} makes a {made} and has waited {PATIENCE:.0f} seconds for {named} to make it, "
                    f"too, and waits {timeout:.0f} at most: all ranks make the same {made}s{advice}",
                )
        time.sleep(POLL)
    outcome = store.first(f"{key}/outcome", MET)
    brought = store.brought(key) if outcome == MET else {}
    store.leave_meeting(key)
    if outcome != MET:
        raise PeerError(outcome)
    return [brought[rank] for rank in range(store.world_size)]


def _give_up(store: JobStore, key: str, reason: str, made: str) -> None:
    """Give up a meeting for all ranks, unless all have come by now: one that comes later would meet nobody.

    So each rank has been to the same meetings, and the next one is the same on all of them.

    Raises
    ------
    PeerError
        With the reason of the rank that gave up first.
    """
    own = f"{reason}\n{gave_up(store.rank, made)}"
    outcome = store.first(f"{key}/outcome", own)
    if outcome == MET:
        return
    store.add(f"{key}/given up", 1)
    store.leave_meeting(key)
    raise PeerError(outcome)
