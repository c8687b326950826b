"""Places: where rows, fields of a batch and arrays of a graph lie."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headrace.ops.errors import InputError

#: Those that are no devices of torch, and whether they have numbers.
_NUMBERED = {"pinned": False, "peer": False, "disk": False, "rank": True}

#: Torch numbers the devices of a kind in 7 bits, and takes a larger number for another device.
MOST_DEVICES = 1 << 7

#: All that have a name here; any other device of torch is a place as well.
_NAMES = ("cpu", "pinned", "cuda:i", "peer", "disk", "rank:r")


@dataclass(frozen=True, repr=False)
class Place:
    """A place of data: a device or a medium. Places compare, and print as they are written.

    ==============  ==================================================================
    ``cpu``         memory of the processor
    ``pinned``      memory of the processor that a GPU reads directly
    ``cuda:i``      memory of GPU i; ``cuda`` is that of the current one, as in torch
    ``peer``        memory of another GPU of this machine, read over their link
    ``disk``        a file, whose rows are read on request
    ``rank:r``      another process, which sends rows
    ==============  ==================================================================

    Other devices of torch (``mps``, ``meta``) are places under their own names.

    >>> import headrace as hr
    >>> place = hr.Place.parse("cuda:1")
    >>> place == hr.Place("cuda", 1), place.kind, place.index, str(place)
    (True, 'cuda', 1, 'cuda:1')
    >>> hr.Place.parse("pinned").on_host
    True

    Parameters
    ----------
    kind
        The part before the colon.
    index
        The part after it: the number of a device or rank.

    Raises
    ------
    InputError
        For an unknown kind, for a number with a kind that takes none, and for a missing number.
    """

    kind: str
    index: int | None = None

    def __post_init__(self) -> None:
        if not self._exists():
            raise InputError(
                f"expected a place, one of {', '.join(_NAMES)}, got kind {self.kind!r} with index {self.index!r}; "
                'write hr.Place("cuda", 0) or hr.Place.parse("cuda:0")'
            )

    def _exists(self) -> bool:
        number = self.index is None or (type(self.index) is int and self.index >= 0)
        if not isinstance(self.kind, str) or not number:
            return False
        if self.kind in _NUMBERED:
            return _NUMBERED[self.kind] == (self.index is not None)
        if self.kind == "cpu":
            return self.index is None
        if self.index is not None and self.index >= MOST_DEVICES:
            return False
        try:
            return torch.device(self.kind).type == self.kind
        except RuntimeError:
            return False

    @staticmethod
    def parse(text: str | torch.device) -> Place:
        """Return the place of a text, or of a device of torch.

        Raises
        ------
        InputError
            If the text is not the name of a place.
        """
        if isinstance(text, torch.device):
            return Place(text.type, None if text.type == "cpu" else text.index)
        if not isinstance(text, str):
            raise InputError(f"expected the text of a place, such as 'cpu' or 'cuda:0', got {type(text).__name__}")
        kind, colon, number = text.partition(":")
        if colon and not (number.isascii() and number.isdecimal() and len(number) < 10):
            raise InputError(f"expected a place, one of {', '.join(_NAMES)}, got {text!r}; number what has numbers")
        return Place(kind, int(number) if colon else None)

    @property
    def on_host(self) -> bool:
        """Whether code on the CPU can read there."""
        return self.kind in ("cpu", "pinned")

    def serves(self, wanted: Place) -> bool:
        """Whether data at this place can serve a reader that expects `wanted`: pinned memory is CPU memory as well."""
        if not isinstance(wanted, Place):
            raise InputError(
                f"Place.serves: expected an hr.Place, got {type(wanted).__name__}; write hr.Place.parse(text)"
            )
        return self == wanted or (wanted == CPU and self.on_host)

    def __str__(self) -> str:
        return self.kind if self.index is None else f"{self.kind}:{self.index}"

    def __repr__(self) -> str:
        return f"Place({self.kind!r})" if self.index is None else f"Place({self.kind!r}, {self.index})"


CPU = Place("cpu")
DISK = Place("disk")
PINNED = Place("pinned")
