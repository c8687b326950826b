"""What the model of a rank exchanges in a step of training, as the steps before let expect."""

from __future__ import annotations

BatchKey = tuple[int, int]  # epoch and batch

#: So many of the last collectives outside of batches are remembered.
REMEMBERED = 4096


class CollectiveOrder:
    """Whether a collective follows from what all ranks have agreed upon, or must be agreed upon first.

    Rows of a model come without a word on what they are: to ask first would be one more round in each layer. It needs
    none where ranks do in each batch what they did in the one before, as all ranks know that of each other. So the
    collectives of the first batch are agreed upon, and later those alone that differ: a batch left out, a step that
    ends earlier or later, another epoch. A rank that differs from the others meets none of them, and they find it out.

    Where there are no batches, as in training on the whole graph, that is expected which came the last time when all
    was as it is now, see `Repetition`.
    """

    def __init__(self) -> None:
        self._batch: BatchKey | None = None
        self._known: list[str] = []
        self._now: list[str] = []
        self._outside = Repetition()
        self._was_outside = False

    def follows(self, batch: BatchKey | None, kind: str) -> bool:
        """Go on to the next collective; return whether it was to be expected.

        Parameters
        ----------
        batch
            The batch that it belongs to, if it belongs to one.
        kind
            What it does, the same on all ranks.
        """
        was_outside, self._was_outside = self._was_outside, batch is None
        if batch is None:
            # Between the two kinds of order nothing is expected: at most one collective may be at any time.
            return self._outside.follows(kind) and was_outside
        return self._follows_in_batch(batch, kind) and not was_outside

    def _follows_in_batch(self, batch: BatchKey, kind: str) -> bool:
        if batch == self._batch:
            number = len(self._now)
            self._now.append(kind)
            return self._known[number : number + 1] == [kind] and self._known[:number] == self._now[:number]
        before, as_known = self._batch, self._now == self._known
        self._known, self._now, self._batch = self._now, [kind], batch
        return before is not None and batch == (before[0], before[1] + 1) and as_known and self._known[:1] == [kind]


class Repetition:
    """Expects what came the last time behind the longest run of collectives that is as the last ones were.

    So whatever repeats itself, in steps of any length, is expected from its second or third time on. The answer depends
    on the sequence alone, which all ranks have in common.
    """

    def __init__(self) -> None:
        self._past: list[str] = []
        self._next: int | None = None  # the place of the one that is expected

    def follows(self, kind: str) -> bool:
        """Go on to the next one; return whether it was expected."""
        expected = self._next is not None and self._past[self._next] == kind
        self._past.append(kind)
        if expected and self._next is not None:
            self._next += 1
        else:
            self._next = self._behind_longest_run()
        if len(self._past) > 2 * REMEMBERED:
            del self._past[:REMEMBERED]
            if self._next is not None:
                self._next = self._next - REMEMBERED if self._next >= REMEMBERED else None
        return expected

    def _behind_longest_run(self) -> int | None:
        """Return the place behind the latest of the longest runs that end as all that came does."""
        past, longest, found = self._past, 0, None
        for end in range(len(past) - 1, 0, -1):
            length = 0
            while length < end and past[end - 1 - length] == past[-1 - length]:
                length += 1
            if length > longest:
                longest, found = length, end
        return found
