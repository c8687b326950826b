"""The ids that nodes have outside a data set, and back.

Integers are one array. Texts are the bytes of all of them in UTF-8, one behind the other, with the start of each.
``order`` sorts the ids, texts by their bytes; null where they are sorted already.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.text import utf8
from headrace.pipeline.data import as_cpu_tensor, as_list, describe
from headrace.pipeline.data.integers import as_int64, is_whole
from headrace.pipeline.storage.json_fields import as_utf8

#: The description of ids that are integers, and the remedy for others.
_INTEGERS = ("integers, as the ids of this type are", "pass integers: int(id) of each")

_OF_ANOTHER = "are they ids of another type?"


class IdMap:
    """Translate between the users' own ids of nodes and those of a data set, which count from 0.

    Parameters
    ----------
    values
        The users' ids, int64[num_nodes]; or bytes of texts, uint8.
    starts: int64[num_nodes + 1], optional
        The start of each text.
    order: int64[num_nodes], optional
        The nodes in the order of the users' ids; None where they have that order.
    """

    def __init__(self, values: NDArray[Any], starts: NDArray[Any] | None, order: NDArray[Any] | None) -> None:
        self.values = values
        self.starts = starts
        self.order = order

    @staticmethod
    def of(ids: ArrayLike | Tensor | Sequence[str], name: str) -> IdMap:
        """Return the map of ids as users have them: integers, or texts in a list or an array.

        Raises
        ------
        InputError
            If they are neither, or one is there twice.
        """
        if isinstance(ids, np.ndarray) and ids.dtype.kind in "UO":
            ids = ids.tolist()
        if isinstance(ids, list | tuple) and ids and all(isinstance(one, str) for one in ids):
            encoded = [as_utf8(one, f"ids of {name}") for one in ids]
            _refuse_repeats([one.decode() for one in encoded], name)
            starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
            order = sorted(range(len(encoded)), key=encoded.__getitem__)
            found = IdMap(np.frombuffer(b"".join(encoded), np.uint8), starts, np.array(order, np.int64))
        else:
            values = as_cpu_tensor(ids, f"ids of {name}")
            if values.ndim != 1 or not is_whole(values.dtype):
                raise InputError(f"expected ids of {name} to be integers or texts, got {describe(values)}")
            array = as_int64(values, f"ids of {name}").numpy()
            _refuse_repeats(array, name)
            found = IdMap(array, None, np.argsort(array, kind="stable"))
        assert found.order is not None
        if bool((found.order[1:] > found.order[:-1]).all()):
            found.order = None
        return found

    def __len__(self) -> int:
        return len(self.values) if self.starts is None else len(self.starts) - 1

    def external(self, ids: ArrayLike | Tensor) -> Tensor | list[str]:
        """Return the users' ids of nodes: int64[n], or a list of texts.

        Raises
        ------
        InputError
            If there are no such nodes.
        """
        ours = _as_int64(ids, "numbers of nodes", "your own ids are for ours(ids)")
        if ours.size and not 0 <= int(ours.min()) <= int(ours.max()) < len(self):
            raise InputError(f"ids: expected nodes in [0, {len(self)}), got {_span(ours)}; {_OF_ANOTHER}")
        if self.starts is None:
            return torch.from_numpy(np.asarray(self.values[ours]))
        return [self._text(int(one)).decode(errors="replace") for one in ours]

    def ours(self, ids: ArrayLike | Tensor | Sequence[str]) -> Tensor:
        """Return the nodes that have the users' ids, int64[n].

        Raises
        ------
        InputError
            If an id is unknown, or of another kind.
        """
        if self.starts is None:
            wanted = _as_int64(ids, *_INTEGERS)
            at = np.searchsorted(self.values, wanted, sorter=self.order)
            at = np.minimum(at, max(0, len(self) - 1))
            found = at if self.order is None else np.asarray(self.order[at])
            unknown = wanted[self.values[found] != wanted] if len(self) else wanted
            if len(unknown):
                others = f" and {len(unknown) - 1} more that none has" if len(unknown) > 1 else ", which none has"
                raise InputError(f"ids: expected ids of nodes, got {int(unknown[0])}{others}; {_OF_ANOTHER}")
            return torch.from_numpy(np.asarray(found, np.int64))
        given = ids.tolist() if isinstance(ids, Tensor | np.ndarray) else ids
        texts: list[Any] = [given] if isinstance(given, str) else as_list(given, "ids", "texts")
        odd = [one for one in texts if not isinstance(one, str)]
        if odd:
            raise InputError(
                f"ids: expected texts, as the ids of this type are, got {odd[0]!r}; pass texts: {str(odd[0])!r}, or as "
                "the table has it"
            )
        return torch.tensor([self._find(one) for one in texts], dtype=torch.int64, device="cpu")

    def _text(self, node: int) -> bytes:
        assert self.starts is not None
        return bytes(self.values[int(self.starts[node]) : int(self.starts[node + 1])].tobytes())

    def _find(self, text: str) -> int:
        def of_place(place: int) -> bytes:
            return self._text(place if self.order is None else int(self.order[place]))

        key = utf8(text)
        place = bisect_left(range(len(self)), key, key=of_place)
        if place == len(self) or of_place(place) != key:
            raise InputError(f"ids: expected ids of nodes, got {text!r}, which none has; {_OF_ANOTHER}")
        return place if self.order is None else int(self.order[place])

    def __repr__(self) -> str:
        return f"IdMap({len(self)} {'integers' if self.starts is None else 'texts'})"


class RowNumbers(IdMap):
    """The map of nodes whose ids are their numbers, from 0: each is its own id, in both directions.

    Parameters
    ----------
    num_nodes
        How many nodes there are.
    """

    def __init__(self, num_nodes: int) -> None:
        super().__init__(np.empty(0, np.int64), None, None)
        self._num_nodes = num_nodes

    def __len__(self) -> int:
        return self._num_nodes

    def external(self, ids: ArrayLike | Tensor) -> Tensor:
        """Return the ids themselves; `IdMap.external` documents it."""
        return torch.from_numpy(self._checked(ids))

    def ours(self, ids: ArrayLike | Tensor | Sequence[str]) -> Tensor:
        """Return the ids themselves; `IdMap.ours` documents it."""
        return torch.from_numpy(self._checked(ids))

    def _checked(self, ids: Any) -> NDArray[np.int64]:
        found = _as_int64(ids, *_INTEGERS)
        odd = found[(found < 0) | (found >= self._num_nodes)]
        if len(odd):
            raise InputError(
                f"ids: there is no node with the id {int(odd[0])}, as ids are numbers in [0, {self._num_nodes}); "
                f"{_OF_ANOTHER}"
            )
        return found.copy()

    def __repr__(self) -> str:
        return f"RowNumbers({self._num_nodes})"


def _as_int64(ids: Any, wanted: str, remedy: str) -> NDArray[np.int64]:
    text = _first_text(ids)
    if text is not None:
        raise InputError(f"ids: expected {wanted}, got the text {text!r}; {remedy}")
    values = as_cpu_tensor(ids, "ids")
    if not is_whole(values.dtype):
        raise InputError(f"ids: expected {wanted}, got {describe(values)}; {remedy}")
    if values.ndim > 1:
        raise InputError(f"ids: expected {wanted} in one dimension, got {describe(values)}; pass its .flatten()")
    return np.atleast_1d(as_int64(values, "ids").numpy())


def _first_text(ids: Any) -> str | None:
    """Return the first text among ids, or the text that they are; None where there is none."""
    if isinstance(ids, str):
        return ids
    listed: Sequence[Any] = ids if isinstance(ids, list | tuple) else ()
    if hasattr(ids, "__array__") and not isinstance(ids, Tensor):
        array = np.asarray(ids)
        listed = array.ravel().tolist() if array.dtype.kind in "UO" else ()
    return next((one for one in listed if isinstance(one, str)), None)


def _span(ids: NDArray[np.int64]) -> str:
    """Return the least and the largest of ids, which may be one."""
    low, high = int(ids.min()), int(ids.max())
    return str(low) if low == high else f"{low} to {high}"


def _refuse_repeats(ids: Any, name: str) -> None:
    repeated = len(ids) - len(set(ids)) if isinstance(ids, list) else len(ids) - len(np.unique(ids))
    if repeated:
        raise InputError(f"expected each id of {name} once, got {repeated} repeats; remove them")
