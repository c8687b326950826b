"""The batch that a model works on, for modules inside it that must know what their rows stand for."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.batch import MiniBatch
from headrace.pipeline.comm import Comm


@dataclass
class RunningBatch:
    """How far a model has come with a batch.

    Parameters
    ----------
    batch
        The batch.
    vertices
        The vertices whose rows are being worked on, or the first of them: int64[n].
    each_once
        Whether each of these vertices is in one rank: outside of layers, behind the first one.
    num_layers
        Layers entered so far.
    num_dropouts
        Dropouts applied so far.
    """

    batch: MiniBatch
    vertices: Tensor
    each_once: bool = False
    num_layers: int = 0
    num_dropouts: int = 0

    @staticmethod
    def of(batch: MiniBatch) -> RunningBatch:
        """Return the beginning, before the first layer."""
        return RunningBatch(batch, batch.n_id)

    def enter(self, layer: int) -> None:
        """Go into a layer: rows are those of its sources, destinations first."""
        exchanges = self.batch.exchanges
        self.vertices = exchanges[layer].wanted if exchanges else self.batch.n_id
        self.each_once = False
        self.num_layers += 1

    def leave(self, layer: int) -> None:
        """Go out of a layer: rows are those of its destinations."""
        exchanges = self.batch.exchanges
        self.vertices = exchanges[layer + 1].owned if exchanges else self.batch.n_id
        self.each_once = True

    @property
    def comm(self) -> Comm | None:
        """The channel on which the model communicates; None if the batch is one process's own."""
        return self.batch.exchanges[0].comm if self.batch.exchanges else None

    def ids(self, num_rows: int) -> Tensor:
        """Return the vertices of rows.

        Raises
        ------
        InputError
            If there are more rows than vertices: they stand for something else, such as edges.
        """
        if num_rows > len(self.vertices):
            raise InputError(
                f"cooperative: dropout came to {num_rows} rows where there are {len(self.vertices)} vertices; its "
                "masks are those of vertices, so drop attention and messages by other means"
            )
        return self.vertices[:num_rows]


RUNNING: ContextVar[RunningBatch | None] = ContextVar("headrace_running_batch", default=None)
