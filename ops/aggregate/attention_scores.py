"""What attention depends on: scores of both ends of an edge and of the edge, weights, dropout."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from headrace.ops._arrays import Array, as_key
from headrace.ops.aggregate.compiling import IS_CAPTURED, is_compiling
from headrace.ops.aggregate.edges import check_shape, check_table
from headrace.ops.errors import InputError, PlanError

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class AttentionDropout:
    """Dropout of attention: word h of the stream of an edge's id decides its head h, as in `dropout_mask`.

    Attributes
    ----------
    probability : float
        The probability of dropping, in [0, 1). Kept attention is divided by 1 - probability.
    key : int
        Stream key, see `stream_key`; the same one in the backward pass.
    edge_ids : torch.Tensor or numpy.ndarray or None
        int64[num_positions], the ids of edges; None: their positions.
    """

    probability: float
    key: int
    edge_ids: Array | None = None

    def __post_init__(self) -> None:
        """Check probability and key."""
        stage = "AttentionDropout"
        if isinstance(self.probability, bool) or not isinstance(self.probability, (int, float)):
            raise InputError(f"{stage}: expected probability to be a number in [0, 1), got {self.probability!r}")
        if not 0 <= self.probability < 1:
            raise InputError(f"{stage}: expected probability to be a number in [0, 1), got {self.probability!r}")
        as_key(self.key, stage=stage)

    @classmethod
    def of(cls, probability: float, key: int, edge_ids: Array | None = None) -> AttentionDropout | None:
        """Return the dropout for a probability, after a check; None for 0, which drops nothing.

        Raises
        ------
        InputError
            For a probability outside of [0, 1).
        PlanError
            In a step that a GPU may repeat.
        """
        if isinstance(probability, (int, float)) and probability == 0:
            return None
        if not is_compiling() and IS_CAPTURED.get():
            raise PlanError(
                "dropout of attention: expected none in hr.nn.CapturedStep, as a GPU repeats the masks of a call, got "
                f"a probability of {probability}; drop rows by torch.nn.Dropout, or call the step itself"
            )
        return cls(probability, key, edge_ids)

    @property
    def threshold(self) -> int:
        """The number of words, of 2**32, that are dropped."""
        return min(round(self.probability * 2**32), 2**32 - 1)

    @property
    def kept_scale(self) -> float:
        """The factor of kept attention."""
        return 1 / (1 - self.probability)


@dataclass(frozen=True)
class AttentionScores:
    """The inputs of attention.

    An edge e from j to i has the score ``s = leaky_relu(source[j] + destination[i] + edge[e])`` and the attention
    ``weight[e] * exp(s)``, divided by the sum of these over the edges to i. An edge of score -inf, or of weight
    0, does not count.

    Attributes
    ----------
    source : torch.Tensor
        [num_src, heads] of float32 or float64.
    destination : torch.Tensor
        [num_dst, heads].
    edge : torch.Tensor, optional
        [num_positions, heads].
    weight : torch.Tensor, optional
        [num_positions], importance weights of sampled edges, at least 0: the softmax then estimates that over all
        edges.
    slope : float
        The slope of the leaky rectifier below 0.
    dropout : AttentionDropout, optional
        Of attention.
    """

    source: torch.Tensor
    destination: torch.Tensor
    edge: torch.Tensor | None = None
    weight: torch.Tensor | None = None
    slope: float = 0.2
    dropout: AttentionDropout | None = None

    def __post_init__(self) -> None:
        """Check the slope."""
        if isinstance(self.slope, bool) or not isinstance(self.slope, (int, float)) or not math.isfinite(self.slope):
            raise InputError(f"AttentionScores: expected slope to be a finite number, got {self.slope!r}")

    def map(self, of_tensor: Callable[[torch.Tensor], torch.Tensor]) -> AttentionScores:
        """Return a copy with a function applied to scores and weights."""
        return replace(
            self,
            source=of_tensor(self.source),
            destination=of_tensor(self.destination),
            edge=None if self.edge is None else of_tensor(self.edge),
            weight=None if self.weight is None else of_tensor(self.weight),
        )

    @property
    def heads(self) -> int:
        """Heads."""
        return self.source.shape[1]

    def check(self, x: torch.Tensor, stage: str) -> None:
        """Check that dtypes, devices and shapes fit together.

        Raises
        ------
        InputError
            If they do not.
        """
        check_table(self.source, "source", stage, like=x)
        if self.source.ndim != 2 or self.source.shape[1] == 0 or x.ndim < 2 or x.shape[:2] != self.source.shape:
            message = (
                f"{stage}: expected source scores [num_src, heads] and x [num_src, heads, ...], "
                f"got {list(self.source.shape)} and {list(x.shape)}"
            )
            raise InputError(message)
        check_table(self.destination, "destination", stage, like=x)
        check_shape(self.destination, "destination", stage, (len(self.destination), self.heads), x)
        if self.edge is not None:
            check_table(self.edge, "edge", stage, like=x)
            check_shape(self.edge, "edge", stage, (len(self.edge), self.heads), x)
        if self.weight is not None:
            check_table(self.weight, "weight", stage, like=x)
            check_shape(self.weight, "weight", stage, (len(self.weight),), x)
