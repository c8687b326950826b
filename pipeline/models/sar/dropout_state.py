"""How often the dropouts of a wrapped model have drawn masks, for checkpoints: training that goes on draws the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.models.sar.wrap import keys_by_name

#: Keys of masks hold 64 bits of calls; half of them is more than any training draws, and leaves room to go on.
MOST_CALLS = 2**63 - 1


def dropout_state(model: nn.Module) -> dict[str, int]:
    """Return the state of the dropout masks of a wrapped model: the number of draws of each module, by name.

    Masks are a function of the seed of `wrap` and of these numbers, which are the same on all ranks. They are not in
    ``model.state_dict()``, which is that of the model before `wrap`. Save both in a checkpoint.

    >>> import headrace as hr, torch
    >>> graph = hr.sar.ShardedGraph(hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=3))
    >>> model = hr.sar.wrap(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout(0.5)), graph)
    >>> out = model(torch.randn(graph.num_src, 4))
    >>> state = {"model": model.state_dict(), "dropout": hr.sar.dropout_state(model)}
    >>> state["dropout"]
    {'1': 1}

    Parameters
    ----------
    model
        A model that `wrap` has returned.
    """
    return {name: keys.calls for name, keys in keys_by_name(model).items()}


def load_dropout_state(model: nn.Module, state: Mapping[str, Any]) -> None:
    """Continue the dropout masks at a state, with the same seed and any number of ranks.

    Parameters
    ----------
    model
        A model that `wrap` has returned, with the same modules.
    state
        A result of `dropout_state`.

    Raises
    ------
    InputError
        If it is the state of another model, or not a state, or has numbers below 0 or above 2**63 - 1. The model is
        then unchanged.
    """
    known = keys_by_name(model)
    if not isinstance(state, Mapping) or set(state) != set(known):
        came = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise InputError(
            f"hr.sar.load_dropout_state: expected the dropout_state of a model with the modules {sorted(known)}, got "
            f"{came}; wrap the model first, as it was when the state was taken"
        )
    calls = {
        name: whole_number(value, f"hr.sar.load_dropout_state: {name}", 0, InputError, MOST_CALLS)
        for name, value in state.items()
    }
    for name, keys in known.items():
        keys.calls = calls[name]
