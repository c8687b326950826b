"""Calls of a module that leave no trace: what it keeps, counts and draws is afterwards what it was before."""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

#: Hooks of modules. They do not run: most of them record what passes.
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

#: Larger tensors are not copied, in bytes: tables, where a second one may not fit.
_COPIED = 1 << 26


class Generators:
    """The random generators of this process that a module may draw from: torch's, Python's and NumPy's.

    Parameters
    ----------
    device
        Where the module works.
    """

    def __init__(self, device: torch.device) -> None:
        self._torch = [torch.default_generator]
        if device.type == "cuda":
            self._torch.append(torch.cuda.default_generators[device.index or 0])
        self._kept = self._states()

    def _states(self) -> tuple[list[Tensor], Any, Any]:
        return [one.get_state() for one in self._torch], random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002 - the one that layers draw from

    def restore(self) -> None:
        """Set them to where they were when this was made."""
        states, of_python, of_numpy = self._kept
        for generator, state in zip(self._torch, states, strict=True):
            generator.set_state(state)
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002

    @property
    def have_moved(self) -> bool:
        """Whether anything was drawn since."""
        states, *others = self._states()
        same = all(map(torch.equal, states, self._kept[0]))
        return not same or any(str(one) != str(kept) for one, kept in zip(others, self._kept[1:], strict=True))


def call_without_trace(layer: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, training: bool) -> Any:
    """Return what a module's `forward` returns, without gradients; no hooks run.

    Parameters
    ----------
    layer
        The module.
    args, kwargs
        Of the call.
    training
        Whether it is called in its own mode, else in that of evaluation.
    """
    layer = getattr(layer, "_orig_mod", layer)  # what torch.compile was given: compiling takes long
    forward: Callable[..., Any] = layer.forward
    with _kept_apart(layer, training=training), torch.no_grad():
        return forward(*args, **kwargs)


@contextmanager
def _kept_apart(layer: nn.Module, *, training: bool) -> Iterator[None]:
    """Have copies of what the modules of a layer keep, all but parameters, in the places of the originals."""
    memo: dict[int, Any] = {}
    kept = [(module, vars(module)) for module in layer.modules()]
    try:
        for module, attributes in kept:
            copies = {name: _copied(one, memo) for name, one in attributes.items()}
            copies.update({name: type(attributes[name])() for name in _HOOKS if name in attributes})
            copies["training"] = training and module.training
            copies["_compiled_call_impl"] = None
            object.__setattr__(module, "__dict__", copies)
        yield
    finally:
        for module, attributes in kept:
            object.__setattr__(module, "__dict__", attributes)


def _copied(value: Any, memo: dict[int, Any], *, is_in_object: bool = False) -> Any:
    """Return a copy of a value that a call may change; what several places share is copied once.

    Modules, parameters, large tensors and what cannot be copied are returned as they are, and so are the objects that
    an object holds.
    """
    if id(value) in memo:
        return memo[id(value)]
    made = value
    with suppress(Exception):  # classes of users, which may forbid it
        if not (is_in_object and _is_object(value)):
            made = _copied_alone(value)
    if made is value:
        return value
    memo[id(value)] = made
    if isinstance(value, dict):
        made.update({key: _copied(one, memo, is_in_object=is_in_object) for key, one in value.items()})
    elif isinstance(value, list):
        made[:] = [_copied(one, memo, is_in_object=is_in_object) for one in value]
    elif _is_object(value):
        vars(made).update({name: _copied(one, memo, is_in_object=True) for name, one in vars(value).items()})
    return made


def _copied_alone(value: Any) -> Any:
    """Return a copy that shares what the value holds."""
    if isinstance(value, Tensor):
        is_shared = isinstance(value, nn.Parameter) or value.requires_grad or value.nbytes > _COPIED
        return value if is_shared else value.clone()
    if isinstance(value, torch.Generator):
        made = torch.Generator(device=value.device)
        made.set_state(value.get_state())
        return made
    if isinstance(value, random.Random | np.random.Generator | np.random.RandomState):
        return copy.deepcopy(value)
    if isinstance(value, dict | list | set | deque | np.ndarray) or _is_object(value):
        return copy.copy(value)
    return value


def _is_object(value: Any) -> bool:
    """Whether a value is nothing but its attributes, such as a counter of a user's class."""
    kind = type(value)
    if isinstance(value, nn.Module | Tensor) or kind.__module__.partition(".")[0] in ("torch", "headrace"):
        return False
    plain = all(getattr(kind, name) is getattr(object, name) for name in ("__reduce_ex__", "__reduce__"))
    return plain and hasattr(value, "__dict__") and not hasattr(kind, "__del__") and not hasattr(kind, "__copy__")
