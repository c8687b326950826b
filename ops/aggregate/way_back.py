"""The edges of backward passes, and which of them are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypedDict

import torch

from headrace.ops.aggregate.transpose import Transposed, transpose_csc

#: Returns the transposed CSC; called when a gradient needs it, so that it is made only then.
Transpose: TypeAlias = Callable[[], Transposed]


class Options(TypedDict):
    """Options of all aggregations."""

    num_threads: int | None
    trusted: bool


class WayBack(NamedTuple):
    """The edges of a backward pass, and the threads of both passes.

    Attributes
    ----------
    indptr, indices, num_src
        The edges of the forward pass, which checks them.
    transpose
        Returns the transposed edges, which are checked too. None: they are made of those of the forward pass.
    num_threads
        Of both passes.
    trusted
        Whether no edges are checked.
    """

    indptr: torch.Tensor
    indices: torch.Tensor
    num_src: int
    transpose: Transpose | None
    num_threads: int | None
    trusted: bool

    @property
    def there(self) -> Options:
        """Options of kernels in the forward pass."""
        return {"num_threads": self.num_threads, "trusted": self.trusted}

    @property
    def again(self) -> Options:
        """Options of kernels in the backward pass, over the edges of the forward pass."""
        return {"num_threads": self.num_threads, "trusted": True}

    @property
    def back(self) -> Options:
        """Options of kernels in the backward pass, over the transposed edges."""
        return {"num_threads": self.num_threads, "trusted": self.trusted or self.transpose is None}

    def transposed(self) -> Transposed:
        """Return the transposed edges."""
        if self.transpose is not None:
            return self.transpose()
        return transpose_csc(self.indptr, self.indices, self.num_src, **self.again)
