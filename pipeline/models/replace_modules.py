"""Modules of a model replaced by others, wherever and however often they stand in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn


def replace_modules(model: nn.Module, kind: type[nn.Module], replacement: Callable[[Any], nn.Module]) -> nn.Module:
    """Replace modules of just this class, in place; return the model, or what replaces it.

    A module that stands in several places is replaced by one module.
    """
    made: dict[nn.Module, nn.Module] = {}

    def replaced(module: nn.Module) -> nn.Module:
        if module not in made:
            made[module] = replacement(module) if type(module) is kind else module
            for name, child in module._modules.items():  # noqa: SLF001 - named_children leaves out repeats
                if child is not None:
                    module._modules[name] = replaced(child)  # noqa: SLF001
        return made[module]

    return replaced(model)
