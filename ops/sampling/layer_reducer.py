"""What the parts of a hop have to agree on, where a layer-wise rule decides for a frontier that was cut in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from headrace.ops.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class LayerReducer(Protocol):
    """Combines numbers of all parts of a hop, so that each part decides as if it had the whole frontier.

    Each call of `sample_hop` for a part of a frontier takes one. The calls run at the same time, and call the same
    methods in the same order, each in the thread of its caller. An exception in a method ends the hop, which raises it.

    A part's *candidates* are the sources of the edges into its destinations. Several parts may have the same source.
    """

    def begin(self, candidates: NDArray[np.int64]) -> None:
        """Take the candidates of this part. It is called first, once per hop, and also for a part without candidates.

        Parameters
        ----------
        candidates : numpy.ndarray
            int64[num_candidates], distinct global ids.
        """

    def counted(self) -> NDArray[np.bool_]:
        """Return the candidates that this part counts, bool[num_candidates]: each source is counted by one part."""

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest value over all parts for each candidate of this part.

        Parameters
        ----------
        values : numpy.ndarray
            float64[num_candidates], of at least 0.
        """

    def sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum over all parts of the values of each candidate of this part.

        Parameters
        ----------
        values : numpy.ndarray
            int64[num_candidates, width].
        """

    def total(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum of all parts' values.

        Parameters
        ----------
        values : numpy.ndarray
            int64[width].
        """

    def gather(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the values of all parts, part by part.

        Parameters
        ----------
        values : numpy.ndarray
            int64[n], of any length.
        """


METHODS = ("begin", "counted", "gather", "largest", "sums", "total")


def as_reducer(value: Any, *, stage: str) -> LayerReducer | None:
    """Return a reducer or None as it is, or refuse it.

    Raises
    ------
    InputError
        If it lacks a method.
    """
    missing = [] if value is None else [method for method in METHODS if not callable(getattr(value, method, None))]
    if missing:
        message = (
            f"{stage}: expected reducer to be a LayerReducer, but {type(value).__name__} has no {', '.join(missing)}"
        )
        raise InputError(message)
    reducer: LayerReducer | None = value
    return reducer
