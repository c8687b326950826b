"""What a subclass of a loader of this package has of its own in the place of PyG's methods."""

from __future__ import annotations

from typing import Any

from headrace.ops.errors import InputError


def is_overridden(loader: Any, name: str) -> bool:
    """Return whether a subclass of the user, or the loader itself, has a method of its own."""
    if name in vars(loader):
        return True
    for one in type(loader).__mro__:
        if one.__module__.startswith("headrace."):
            return False
        if name in vars(one):
            return True
    return False


def check_overrides(loader: Any, names: tuple[str, ...]) -> None:
    """Refuse methods that PyG's loader would call for each batch, and a plan does not.

    Raises
    ------
    InputError
        If a subclass has one of them.
    """
    for name in names:
        if is_overridden(loader, name):
            raise InputError(
                f"{type(loader).__name__}: expected no {name} of its own in a subclass, got one, which batches of a "
                "plan do not pass through; override filter_fn(out), or pass transform= or transform_sampler_output="
            )
