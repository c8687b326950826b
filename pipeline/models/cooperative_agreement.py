"""Whether the ranks that cooperate have the same model: parts of one batch need the same parameters everywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from headrace.ops.errors import InputError
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.digest import exact_digest
from headrace.pipeline.distributed.channel import Comm

#: What ranks compare, and what to do where it differs.
_COMPARED = (
    ("parameters", "call torch.manual_seed(...) with one seed on all ranks ahead of the model, or load one checkpoint"),
    ("buffers", "load one checkpoint on all ranks"),
    ("modes", "call model.train() or model.eval() on all ranks alike"),
    ("seed of dropout", "pass the same seed= to hr.cooperative"),
)


def check_same_model(model: nn.Module, seed: int, batch: MiniBatch, comm: Comm) -> bool:
    """Compare the model with those of the other ranks, in one collective.

    Parameters
    ----------
    model
        The model.
    seed
        Of its dropout.
    batch
        The batch that it is about to process.
    comm
        The channel of its layers.

    Returns
    -------
    bool
        Whether models were compared; False as long as the sizes of lazy layers are unknown.

    Raises
    ------
    InputError
        On all ranks, if a model differs.
    """
    tensors = [*model.parameters(), *model.buffers()]
    if any(map(is_lazy, tensors)):
        return False
    modes = str([module.training for module in model.modules()])
    parameters, buffers = _number(model.named_parameters()), _number(model.named_buffers())
    mine = [parameters, buffers, _hash(modes), _hash(str(seed))]
    size, world_size = len(mine), comm.world_size
    comm.at((batch.epoch, batch.index))
    counts = [size] * world_size
    sent = torch.tensor(mine * world_size, dtype=torch.int64, device="cpu")
    of_ranks = comm.all_to_all(sent, counts, counts).view(world_size, size).tolist()
    for column, (what, advice) in enumerate(_COMPARED):
        others = [rank for rank in range(world_size) if of_ranks[rank][column] != of_ranks[0][column]]
        if others:
            raise InputError(
                f"cooperative: expected the same model on all ranks, got other {what} on rank "
                f"{', '.join(map(str, others))} than on rank 0; {advice}"
            )
    return True


def _number(tensors: Iterable[tuple[str, Tensor]]) -> int:
    """Return a digest of tensors as a number."""
    return _hash(exact_digest((name, tensor.detach()) for name, tensor in tensors))


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "little")
