"""What the model of a rank exchanges in a step of training, as the step before lets expect."""

from __future__ import annotations

BatchKey = tuple[int, int]  # epoch and batch


class CollectiveOrder:
    """Whether a collective follows from what all ranks have agreed upon, or must be agreed upon first.

    Rows of a model come without a word on what they are: to ask first would be one more round in each layer. It needs
    none where ranks do in each batch what they did in the one before, as all ranks know that of each other. So the
    collectives of the first batch are agreed upon, and later those alone that differ: a batch left out, a step that
    ends earlier or later, another epoch. A rank that differs from the others meets none of them, and they find it out.
    """

    def __init__(self) -> None:
        self._batch: BatchKey | None = None
        self._known: list[str] = []
        self._now: list[str] = []

    def follows(self, batch: BatchKey, kind: str) -> bool:
        """Go on to the next collective; return whether it was to be expected.

        Parameters
        ----------
        batch
            The batch that it belongs to.
        kind
            What it does, the same on all ranks.
        """
        if batch == self._batch:
            number = len(self._now)
            self._now.append(kind)
            return self._known[number : number + 1] == [kind] and self._known[:number] == self._now[:number]
        before, as_known = self._batch, self._now == self._known
        self._known, self._now, self._batch = self._now, [kind], batch
        return before is not None and batch == (before[0], before[1] + 1) and as_known and self._known[:1] == [kind]
