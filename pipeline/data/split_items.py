"""Items with their labels and times, as splits and data sets have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.pipeline.data.arrays import describe


@dataclass(frozen=True, eq=False)
class Items:
    """Items with their labels and times, as splits and data sets have them: `ItemSampler` takes all of it.

    Parameters
    ----------
    ids
        Any items without labels that `ItemSampler` takes: ids, a mask, pairs, or a dictionary of these by type.
    labels
        [num_items, ...], or a dictionary with the keys of `ids`; None without labels.
    times
        [num_items], or a dictionary with the keys of `ids`: the ``time`` of the sampler, unless it is given one.
    numbering
        Of items of a data set whose nodes have ids of the users, the `Dataset.numbering` of it: the items are refused
        for a graph, and by a config, of another one.
    """

    ids: Any
    labels: Any = None
    times: Any = None
    numbering: str | None = None

    def __len__(self) -> int:
        return sum(map(len, self.ids.values())) if isinstance(self.ids, Mapping) else len(self.ids)

    def __repr__(self) -> str:
        parts = [_shape_text(self.ids)]
        parts += [
            f"{name}={_shape_text(rows)}" for name in ("labels", "times") if (rows := getattr(self, name)) is not None
        ]
        return f"Items({', '.join(parts)})"


def _shape_text(rows: Any) -> str:
    if isinstance(rows, Mapping):
        return f"{{{', '.join(f'{name!r}: {_shape_text(one)}' for name, one in rows.items())}}}"
    if isinstance(rows, str | int | range):
        return repr(rows)
    return f"{len(rows)} in a {type(rows).__name__}" if isinstance(rows, list | tuple) else describe(rows)
