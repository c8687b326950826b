"""A cache in front of a feature source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from typing_extensions import Self

from headrace.ops import CacheIndex, InputError, _native, gather_rows
from headrace.ops.cache.index import POLICIES, SLOT_BYTES
from headrace.ops.forks import ProcessLock
from headrace.ops.memory_limit import check_fits_memory
from headrace.ops.memory_promises import Promise
from headrace.pipeline.data import CPU, Place, as_ids, is_one_of, shown, whole_number
from headrace.pipeline.data.checks import check_tensor
from headrace.pipeline.data.ranking import as_scores, hot_rows, in_float64
from headrace.pipeline.storage.feature_source import FeatureSource, SourceLike
from headrace.pipeline.storage.features import as_source
from headrace.pipeline.storage.over_source import CopiedRows, OverSource
from headrace.pipeline.storage.rows import Rows, add_counts, num_ids, read_by_writing
from headrace.pipeline.storage.users_policy import CachePolicy, UsersIndex, UsersLookup

#: The default policy in CPU memory.
POLICY = "sieve"

#: A look-ahead cache that knows so many times as many rows to come as it holds misses as rarely as one that knows all
#: (within 3 %, `bench/tiering_policies.py`).
FORESIGHT = 5


class CachedFeature(OverSource):
    """A feature source that keeps copies of some rows of a slower one. It never changes the answer.

    With ``place="cuda"`` copies are in GPU memory, and the policy is fixed: Belady's rule within the reads announced by
    `expect`, and then the most recently used rows. The GPU finds rows without a wait of the host. It reads missing rows
    over the bus if the source is in host memory; the host reads those of other sources. If all rows fit, the first read
    copies all of them. Hits are known only after the GPU has finished a read: the counts of a read may include those of
    earlier reads, and `stats` waits and has all. The rest of this text is about caches in CPU memory.

    One `read` is one use of each of its rows. It first finds all cached rows. Then each missing row, in order, takes a
    free slot, or the slot of a row that the policy evicts. Slots in use by this read or a read in another thread are
    held: their rows are not evicted, and if all slots are held, the missing row bypasses the cache. A row that another
    thread is reading at the same time bypasses it, too. A read requests all missing rows from the source in one call,
    each once: a repeated row counts as one miss, then as hits. No read waits for another one. In a forked process the
    cache is empty at first.

    ==============  =================================================================================================
    ``static``      only the rows of `ids`, or those of the highest `scores`; each is copied at its first read
    ``lru``         evicts the least recently used row
    ``clock``       a hand goes round; rows that were used since its last pass get another round (FIFO with reinsertion)
    ``s3-fifo``     new rows wait in a small queue; rows used there twice move to the main one (SOSP 2023)
    ``sieve``       as ``clock``, but new rows are inserted at the end, not at the hand (NSDI 2024)
    ``look-ahead``  evicts the row whose next announced use is farthest (Belady's rule); rows without a known
                    use are first, of these the least used one, or the one with the lowest of `scores`. A missing row
                    that would be evicted first is not kept. As it chooses for a read as a whole, it also evicts rows
                    that the read itself has found.
    ==============  =================================================================================================

    `loader.stats()` has hits, misses and ``bytes_from_cache`` besides the counts of the source.

    >>> import torch
    >>> import headrace as hr
    >>> cached = hr.CachedFeature(torch.eye(4), policy="lru", rows=2)
    >>> cached.read(torch.tensor([3, 1])).counts
    {'bytes_from_cpu': 32, 'hits': 0, 'misses': 2, 'bytes_from_cache': 0}
    >>> cached.read(torch.tensor([1, 2])).counts
    {'bytes_from_cpu': 16, 'hits': 1, 'misses': 1, 'bytes_from_cache': 16}
    >>> store = hr.FeatureStore(node={"x": cached})

    Parameters
    ----------
    source
        The source of all rows: a `FeatureSource`, or an array.
    policy
        The policy of evictions; by default ``sieve``. Caches on a GPU have a fixed policy of their own. Or a policy of
        your own, an `hr.ext.CachePolicy`; its index takes 8 bytes for each row of the source besides.
    rows, bytes
        The largest number of rows in the cache, or its size in bytes: the rows, and an index of some 64 to 128 bytes
        per row, depending on the policy (``SLOT_BYTES`` of ``ops.cache.index``), 24 on a GPU. Give one of the two. A
        static cache of `ids` needs neither.
    place
        Where the copies are: ``"cpu"``, or a GPU, ``"cuda"`` or ``"cuda:0"``.
    ids: int64[n], optional
        For ``static``: the distinct rows to hold; if not all fit, the first ones.
    scores: float64[num_rows], optional
        For ``static`` and ``look-ahead``: rows with higher scores are kept first, of equal ones those of smaller ids.

    Raises
    ------
    InputError
        For an unknown policy, arguments that do not fit it or the source, scores that are no numbers, and no rows.
    """

    def __new__(cls, *_: Any, place: Place | str = CPU, **__: Any) -> Self:
        """Return a cache at a place: one on a GPU is of a subclass."""
        made: type[CachedFeature] = cls
        if cls is CachedFeature and (place if isinstance(place, Place) else Place.parse(place)) != CPU:
            from headrace.pipeline.storage.gpu_cached_feature import GpuCachedFeature

            made = GpuCachedFeature
        return super().__new__(made)  # type: ignore[return-value] # of a subclass

    def __init__(
        self,
        source: SourceLike | ArrayLike | Tensor,
        policy: str | CachePolicy | None = None,
        *,
        rows: int | None = None,
        bytes: int | None = None,  # noqa: A002 - the name of a budget everywhere
        ids: ArrayLike | Tensor | None = None,
        scores: ArrayLike | Tensor | None = None,
        place: Place | str = CPU,
    ) -> None:
        del place  # this class has the caches in CPU memory
        source = as_source(source)
        policy = POLICY if policy is None else policy
        if not isinstance(policy, CachePolicy) and not is_one_of(policy, POLICIES):
            raise InputError(
                f"CachedFeature: expected a policy, one of {', '.join(POLICIES)}, or an hr.ext.CachePolicy, got "
                f"{policy!r}"
            )
        self._arguments: dict[str, Any] = {"rows": rows, "bytes": bytes, "ids": ids, "scores": scores}
        self._source = source
        self._policy = policy
        if scores is not None and policy not in ("static", "look-ahead"):
            raise InputError(
                f"CachedFeature: expected no scores for {policy!r}, which keeps what was used; leave them out, or pass "
                "policy='static' or 'look-ahead'"
            )
        if rows is None and bytes is None and ids is not None:
            rows = source.num_rows
        capacity = capacity_of(source, rows, bytes, bytes_per_row(source, policy))
        hot, ranked = None, None
        if scores is not None:
            ranked = in_float64(as_scores(scores, source.num_rows, stage="CachedFeature", each="row"))
        if policy == "static":
            hot = hot_rows(ids, ranked, capacity)
            capacity, ranked = len(hot), None
        elif ids is not None:
            raise InputError(f"CachedFeature: ids are those of a static cache, got them for {policy!r}")
        self._updating = ProcessLock()
        self._seen = self.version  # of the rows of which copies are kept
        self._copied = CopiedRows(source)
        self._index: CacheIndex | UsersIndex
        if isinstance(policy, CachePolicy):
            self._index = UsersIndex(policy, capacity, source.num_rows)
        else:
            self._index = CacheIndex(policy, capacity, source.num_rows, ids=hot, scores=ranked)
        num_bytes = capacity * bytes_per_row(source, policy)
        check_fits_memory(num_bytes, f"CachedFeature: {capacity} rows", "give fewer rows= or bytes=")
        self._rows = torch.empty((capacity, *source.shape[1:]), dtype=source.dtype, device="cpu")
        self._promised = partial(
            Promise, num_bytes, partial(_filled_bytes, self._index, num_bytes, capacity), allocated=True
        )
        self._promise: Promise | None = self._promised()

    @property
    def policy(self) -> str | CachePolicy:
        """The policy of evictions."""
        return self._policy

    @property
    def cache_place(self) -> Place:
        """Where copies are kept."""
        return CPU

    @property
    def foresight(self) -> int:
        """The number of rows of coming reads to announce by `expect`; 0 except for ``look-ahead``."""
        keeps_all = self.capacity in (0, self.num_rows)
        return 0 if self.policy != "look-ahead" or keeps_all else FORESIGHT * self.capacity

    @property
    def capacity(self) -> int:
        """The largest number of rows in the cache."""
        return self._rows.shape[0]

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return the rows of `ids`, [num_ids, ...], and the counts of the cache and of the source.

        Raises
        ------
        InputError
            If an id is negative or not below num_rows, for a place other than CPU memory, and as for the source. The
            cache is then unchanged, except for evicted rows.
        """
        return read_by_writing(self, ids, num_threads=num_threads, to=to)

    def read_into(
        self, ids: Tensor, out: Tensor, *, places: Tensor | None = None, num_threads: int = 1
    ) -> Mapping[str, int]:
        """Write the rows of `ids` to the rows `places` of `out`; see `FeatureSource`.

        Raises
        ------
        InputError
            As for `read`, for an `out` of a wrong shape or dtype, and for places that it does not have.
        """
        # Refuses what is no place for these rows before anything changes.
        num_ids(ids, self)
        check_tensor(out, "CachedFeature.read_into: out", InputError)
        gather_rows(self._rows, ids[:0], out=out[:0] if out.ndim else out, num_threads=1)
        if self.version != self._seen:
            self._forget()
        if not self._copied.is_marked:
            self._copied.mark()
        seen = self._seen
        lookup = self._index.look_up(ids)
        filled = False
        try:
            counts = self._copy(lookup, len(ids), out, places, num_threads)
            filled = self.version == seen
        finally:
            lookup.finish(filled)
        return counts

    def _copy(
        self,
        lookup: _native.CacheLookup | UsersLookup,
        num_ids: int,
        out: Tensor,
        places: Tensor | None,
        num_threads: int,
    ) -> dict[str, int]:
        def at(positions: Any) -> Tensor:
            where = torch.from_numpy(positions)
            return where if places is None else gather_rows(places, where)

        # Hits first: look-ahead may fill in a slot that is read here.
        if len(lookup.hit_slots) == num_ids:
            gather_rows(self._rows, lookup.hit_slots, out=out, places=places, num_threads=num_threads)
        elif len(lookup.hit_slots):
            gather_rows(self._rows, lookup.hit_slots, out=out, places=at(lookup.hit_positions), num_threads=num_threads)
        counts: dict[str, int] = {}
        if len(lookup.miss_ids):
            ids, where = torch.from_numpy(lookup.miss_ids), at(lookup.miss_positions)
            add_counts(counts, self._source.read_into(ids, out, places=where, num_threads=num_threads))
        if len(lookup.fill_slots) and lookup.holds_slots:  # in a process that the source forked, others may have them
            gather_rows(
                out, at(lookup.fill_positions), out=self._rows, places=lookup.fill_slots, num_threads=num_threads
            )
        if len(lookup.repeat_positions):
            gather_rows(out, at(lookup.repeated_positions), out=out, places=at(lookup.repeat_positions))
        hits = num_ids - len(lookup.miss_ids)
        add_counts(
            counts,
            {"hits": hits, "misses": len(lookup.miss_ids), "bytes_from_cache": hits * self.row_bytes},
        )
        return counts

    def update(self, ids: Tensor, rows: Tensor) -> None:
        """Change rows, in the source and the cache. Reads that begin after it has returned get the new rows.

        A read that runs at the same time in another thread may get either.

        Parameters
        ----------
        ids: int32[n] or int64[n]
            The rows to change, each once.
        rows: [n, ...]
            The new values.

        Raises
        ------
        InputError
            If the source has no `update`, and as for the `update` of the source.
        """
        places = as_ids(ids, "ids")
        with self._updating.held():
            self._index.invalidate(places)  # refuses ids that have no row, before any row changes
            known = self.version == self._seen
            try:
                self._source.update(places, rows)
            finally:  # what was read meanwhile, also where it failed midway
                self._index.invalidate(places)
                if known:
                    self._seen = self.version

    def _forget(self) -> None:
        """Keep none of the rows that were read so far: somebody has written to the source past `update`."""
        with self._updating.held():
            version = self.version
            if version != self._seen:
                self._index.invalidate_all()
                self._seen = version

    def check_copies(self) -> None:
        """Keep none of the rows if others than these are in the source, as an iteration begins."""
        super().check_copies()
        if self._promise is None:
            self._promise = self._promised()
        if self._copied.were_written():
            self._drop_all()

    def give_back(self) -> None:
        """Keep none of the rows, whose memory others may have until an iteration begins; nobody reads meanwhile."""
        self._drop_all()
        self._rows, self._promise = torch.empty_like(self._rows), None

    def _drop_all(self) -> None:
        """Keep none of the rows."""
        with self._updating.held():
            self._index.invalidate_all()

    def expect(self, ids: Tensor) -> None:
        """Announce the ids of a coming `read`, after the reads announced before.

        A read of exactly these ids, in this order, removes the oldest such announcement, also before the reads
        announced earlier; an announcement is dropped after 64 later reads. A read that was not announced is answered,
        too, and removes none.

        Announce reads with, in total, at least five times the rows of the cache: the misses were then the fewest
        possible on all traces measured (bench/tiering_policies.py). Each announced row takes some 30 bytes.

        Raises
        ------
        InputError
            If the policy is another one than ``look-ahead``.
        """
        self._index.expect(ids)

    def expect_nothing(self) -> None:
        """Forget the announced reads, because an iteration has ended.

        Raises
        ------
        InputError
            If the policy is another one than ``look-ahead``.
        """
        self._index.expect_nothing()

    def stats(self) -> dict[str, int]:
        """Return the counts of all reads, without those of the source; failed reads count only evictions.

        ``evictions`` counts evicted rows, ``bypasses`` rows that bypassed the cache, ``invalidations`` copies that
        `update` invalidated; ``expected`` is the number of announced reads.
        """
        counts = self._index.counts()
        return {
            **counts,
            "bytes_from_cache": counts["hits"] * self.row_bytes,
            "expected": self._index.num_expected,
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CachedFeature) or self.cache_place.kind != other.cache_place.kind:
            return NotImplemented
        return self._source == other._source

    def __hash__(self) -> int:
        return hash((self.cache_place.kind, self._source))

    def __reduce__(self) -> tuple[Any, ...]:
        # What is kept stays behind: a copy begins empty.
        return partial(CachedFeature, **self._arguments), (self.source, self._policy)

    def __repr__(self) -> str:
        return f"CachedFeature({shown(self.source)}, policy={self._policy!r}, rows={self.capacity})"


def bytes_per_row(source: FeatureSource, policy: str | CachePolicy) -> int:
    """Return the bytes of a row in a cache, with its part of the index."""
    return source.row_bytes + (8 if isinstance(policy, CachePolicy) else SLOT_BYTES[policy])


def capacity_of(source: FeatureSource, rows: int | None, bytes: int | None, row_bytes: int) -> int:  # noqa: A002
    """Return how many rows of a source a cache of one of two sizes holds.

    Raises
    ------
    InputError
        If not one size is given, or it holds no row.
    """
    if (rows is None) == (bytes is None):
        raise InputError(
            f"CachedFeature: expected either rows= or bytes=, the size of the cache, got rows={rows} and bytes={bytes}"
        )
    if bytes is None:
        return min(whole_number(rows, "CachedFeature: rows", min(1, source.num_rows), InputError), source.num_rows)
    capacity = whole_number(bytes, "CachedFeature: bytes", 0, InputError) // row_bytes
    if capacity == 0 and source.num_rows:
        raise InputError(
            f"CachedFeature: expected room for at least one row, got bytes={bytes}; a row takes {row_bytes} bytes with "
            f"what finds it: give bytes={row_bytes} or more, or leave the cache out"
        )
    return min(capacity, source.num_rows)


def _filled_bytes(index: CacheIndex | UsersIndex, num_bytes: int, capacity: int) -> int:
    """Return about how much of a cache's memory has been written to: slots once filled stay with their rows."""
    counts = index.counts()
    rows = counts["misses"] - counts["bypasses"] - counts["evictions"] - counts["invalidations"]
    return num_bytes * min(max(rows, 0), capacity) // max(capacity, 1)
