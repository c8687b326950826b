"""Batch normalisation and dropout in models that ranks run together: as one process computes them, for any number."""

from __future__ import annotations

from torch import Tensor, nn

from headrace.ops.errors import InputError
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.models.by_parts.seam import running_seam
from headrace.pipeline.models.recomputation import Draws, is_recomputing
from headrace.pipeline.models.replace_modules import drop_elements, norm_over_ranks, replace_modules, taken_over
from headrace.pipeline.models.running_batch import RUNNING

#: What DGL's layers call the dropout of attention: its rows are the edges of a block.
OF_EDGES = "attn_drop"


class CooperativeBatchNorm(nn.BatchNorm1d):
    """`nn.BatchNorm1d` whose statistics are those of all ranks' rows together.

    Each node of a layer is in one rank, so mean and variance are those of one process, for any number of ranks, and
    so are the running estimates. One collective in each direction. In evaluation, and outside cooperative batches, it
    is `nn.BatchNorm1d`.
    """

    _comm: Comm | None = None  # of the last call, which torch.utils.checkpoint may repeat

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the base class
        """Normalise rows, [num_rows, num_features]."""
        running = RUNNING.get()
        comm = self._comm if running is None and is_recomputing() else None if running is None else running.comm
        self._comm = comm
        if comm is None or not (self.training or not self.track_running_stats):
            return super().forward(input)
        if running_seam() is not None or (running is not None and not running.each_once):
            raise InputError(
                "cooperative: batch normalisation of input rows, or inside a layer, would count a node once for each "
                "rank that needs it; normalise the features beforehand, and hidden rows between layers"
            )
        if input.dim() != 2:
            raise InputError(
                f"cooperative: batch normalisation expects [num_rows, num_features], got {list(input.shape)}"
            )
        return norm_over_ranks(self, input, comm)


class CooperativeDropout(nn.Dropout):
    """`nn.Dropout` for rows of nodes: the mask of a row depends on seed, batch, place in the model and node alone.

    So it is the same on every rank that has a copy of the row, and the same in one process; and the same whenever the
    model is called with the same batch again. Outside of `hr.cooperative(model)(batch, ...)` it is `nn.Dropout`.

    Attributes
    ----------
    seed : int
        Another one gives other masks.
    of_edges : bool
        Whether rows, and so masks, are those of a block's edges.
    """

    seed: int
    of_edges: bool
    _draws: Draws[tuple[int, Tensor | None]]

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the base class
        """Drop elements of rows, [num_rows, ...], and scale up the others."""
        if not self.training or self.p == 0 or running_seam() is not None:  # messages have masks of edges
            return super().forward(input)
        key, ids = self._draws.of(lambda: self._draw(len(input)))
        if ids is None:
            return super().forward(input)
        return drop_elements(input, key, ids, self.p)

    def _draw(self, num_rows: int) -> tuple[int, Tensor | None]:
        """Return the key of the masks and what rows stand for; no ids where no batch runs."""
        running = RUNNING.get()
        if running is None:
            return 0, None
        key = running.dropout_key(self.seed)
        return key, running.edge_ids(num_rows) if self.of_edges else running.ids(num_rows)


def convert_modules(model: nn.Module, seed: int) -> nn.Module:
    """Replace `nn.BatchNorm1d` and `nn.Dropout` in a model, in place, by these; return the model.

    Parameters, running estimates, options and modes are those of the modules replaced.
    """
    of_edges = {child for module in model.modules() for name, child in module.named_children() if name == OF_EDGES}

    def batch_norm(old: nn.BatchNorm1d) -> nn.Module:
        return taken_over(CooperativeBatchNorm, old)

    def dropout(old: nn.Dropout) -> nn.Module:
        return taken_over(CooperativeDropout, old, seed=seed, of_edges=old in of_edges, _draws=Draws())

    return replace_modules(replace_modules(model, nn.BatchNorm1d, batch_norm), nn.Dropout, dropout)
