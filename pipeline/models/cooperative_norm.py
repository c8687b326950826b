"""Batch normalisation over the rows of all ranks."""

from __future__ import annotations

from torch import Tensor, nn

from headrace.ops.errors import InputError
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.models.norm_over_ranks import norm_over_ranks
from headrace.pipeline.models.recomputation import is_recomputing
from headrace.pipeline.models.replace_modules import replace_modules
from headrace.pipeline.models.running_batch import RUNNING


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
        if running is not None and not running.each_once:
            raise InputError(
                "cooperative: batch normalisation of input rows, or inside a layer, would count a node once for each "
                "rank that needs it; normalise the features beforehand, and hidden rows between layers"
            )
        if input.dim() != 2:
            raise InputError(
                f"cooperative: batch normalisation expects [num_rows, num_features], got {list(input.shape)}"
            )
        return norm_over_ranks(self, input, comm)


def convert_batch_norm(model: nn.Module) -> nn.Module:
    """Replace every `nn.BatchNorm1d` of a model, in place, by one over the rows of all ranks; return the model.

    Parameters, running estimates and the mode are those of the module replaced.
    """
    return replace_modules(model, nn.BatchNorm1d, _converted)


def _converted(model: nn.BatchNorm1d) -> nn.Module:
    converted = CooperativeBatchNorm(
        model.num_features, model.eps, model.momentum, model.affine, model.track_running_stats
    )
    converted.weight, converted.bias = model.weight, model.bias
    converted.running_mean, converted.running_var = model.running_mean, model.running_var
    converted.num_batches_tracked = model.num_batches_tracked
    converted.training = model.training
    return converted
