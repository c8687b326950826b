"""Dropout whose masks belong to nodes or edges, so that they do not depend on how many ranks there are."""

from __future__ import annotations

from torch import Tensor, nn

from headrace.ops.random.dropout import dropout_mask
from headrace.pipeline.models.recomputation import Draws
from headrace.pipeline.models.replace_modules import replace_modules
from headrace.pipeline.models.running_batch import RUNNING

#: What DGL's layers call the dropout of attention: its rows are the edges of a block.
OF_EDGES = "attn_drop"


class CooperativeDropout(nn.Dropout):
    """`nn.Dropout` for rows of nodes: the mask of a row depends on seed, batch, place in the model and node alone.

    So it is the same on every rank that has a copy of the row, and the same in one process; and the same whenever the
    model is called with the same batch again. Outside of `hr.cooperative(model)(batch, ...)` it is `nn.Dropout`.

    Parameters
    ----------
    p
        Probability of dropping an element.
    seed
        Another one gives other masks.
    of_edges
        Whether rows, and so masks, are those of a block's edges.
    """

    def __init__(self, p: float = 0.5, *, seed: int = 0, of_edges: bool = False) -> None:
        super().__init__(p)
        self.seed = seed
        self.of_edges = of_edges
        self._draws: Draws[tuple[int, Tensor | None]] = Draws()

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the base class
        """Drop elements of rows, [num_rows, ...], and scale up the others."""
        if not self.training or self.p == 0:
            return super().forward(input)
        key, ids = self._draws.of(lambda: self._draw(len(input)))
        if ids is None:
            return super().forward(input)
        width = input[:1].numel() if len(input) else 0
        mask = dropout_mask(key, ids.cpu(), width, self.p)
        kept = mask.view(input.shape).to(input.device)
        return input * kept / (1 - self.p) if self.p < 1 else input * 0

    def _draw(self, num_rows: int) -> tuple[int, Tensor | None]:
        """Return the key of the masks and what rows stand for; no ids where no batch runs."""
        running = RUNNING.get()
        if running is None:
            return 0, None
        key = running.dropout_key(self.seed)
        return key, running.edge_ids(num_rows) if self.of_edges else running.ids(num_rows)


def convert_dropout(model: nn.Module, seed: int = 0) -> nn.Module:
    """Replace every `nn.Dropout` of a model, in place, by a :class:`CooperativeDropout`; return the model."""
    of_edges = {child for module in model.modules() for name, child in module.named_children() if name == OF_EDGES}

    def converted(dropout: nn.Dropout) -> nn.Module:
        replacement = CooperativeDropout(dropout.p, seed=seed, of_edges=dropout in of_edges)
        replacement.training = dropout.training
        return replacement

    return replace_modules(model, nn.Dropout, converted)
