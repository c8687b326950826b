"""The edges that gradients go back over, and who still has to look at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypedDict

import torch

from headrace.ops.aggregate.transpose import Transposed, transpose_csc

#: What is asked for the transposed CSC when a gradient needs it: so it is made once, and only then.
Transpose: TypeAlias = Callable[[], Transposed]


class Options(TypedDict):
    """What all aggregations take."""

    num_threads: int | None
    trusted: bool


class WayBack(NamedTuple):
    """How gradients go back, and on how many threads all runs.

    Attributes
    ----------
    indptr, indices, num_src
        The edges of the way there, which are looked at there.
    transpose
        What somebody has given for the edges of the way back, which are looked at too.
    num_threads
        Of both.
    trusted
        Whether nobody needs to look at all.
    """

    indptr: torch.Tensor
    indices: torch.Tensor
    num_src: int
    transpose: Transpose | None
    num_threads: int | None
    trusted: bool

    @property
    def there(self) -> Options:
        """What kernels take on the way there."""
        return {"num_threads": self.num_threads, "trusted": self.trusted}

    @property
    def again(self) -> Options:
        """What they take behind it, for the same edges."""
        return {"num_threads": self.num_threads, "trusted": True}

    @property
    def back(self) -> Options:
        """What they take for the transposed ones."""
        return {"num_threads": self.num_threads, "trusted": self.trusted or self.transpose is None}

    def transposed(self) -> Transposed:
        """Return the edges of the way back."""
        if self.transpose is not None:
            return self.transpose()
        return transpose_csc(self.indptr, self.indices, self.num_src, **self.again)
