"""Modules between the layers of a model that several ranks run: each is watched at its first call in a mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from headrace.ops.aggregate.compiling import uncompiled
from headrace.ops.errors import InputError
from headrace.pipeline.data import as_list
from headrace.pipeline.models.by_parts.row_rules import users_line
from headrace.pipeline.models.by_parts.row_watch import RowWatch, running_watch
from headrace.pipeline.models.by_parts.seam import running_seam
from headrace.pipeline.models.by_parts.users_frames import run_watched

_CONTAINERS = nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict


class Ranks(NamedTuple):
    """The other ranks of a call: numbers of rows that tables may have here, and how to tell them of an error."""

    numbers: frozenset[int]
    tell: Callable[[InputError], None]


class WatchedModules:
    """Modules that must work row by row, and in which modes they were watched.

    Parameters
    ----------
    model
        The model.
    layers
        Its layers and their modules: these, and what contains them, are not watched.
    trusted
        Modules that are exact over ranks by themselves, or that the user vouches for.
    ranks
        Returns what is known of the other ranks where a module is called; None where it is not to be watched.
    caller
        Begins errors.
    """

    def __init__(
        self,
        model: nn.Module,
        layers: Iterable[nn.Module],
        trusted: Iterable[nn.Module],
        ranks: Callable[[], Ranks | None],
        caller: str,
    ) -> None:
        layers, trusted = set(layers), set(trusted)
        scripted = {
            part for one in model.modules() if isinstance(one, torch.jit.ScriptModule) for part in [*one.modules()][1:]
        }
        vouched = {part for one in trusted for part in one.modules()}
        between = [one for one in model.modules() if layers.isdisjoint(one.modules()) and one not in scripted]
        #: In which modes a module has to be watched yet.
        self._left = {one: {True, False} for one in between if not isinstance(one, _CONTAINERS) and one not in vouched}
        self._trusted = trusted.intersection(between)
        self._ranks, self._caller = ranks, caller
        self.num_running = 0

    def install(self) -> None:
        """Watch the modules that were not watched in both modes yet, as soon as they are called."""
        for module in (*self._left, *(self._trusted if self._left else ())):
            if not isinstance(vars(module).get("forward"), _Forward):
                vars(module)["forward"] = _Forward(self, module, self._left.get(module))

    @uncompiled  # compiled operations cannot be watched
    def call(self, forward: _Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a module, watched if need be."""
        watch = running_watch()
        if forward.module in self._trusted:
            plain = partial(forward.plain, *args, **kwargs)
            return plain() if watch is None else watch.trusted(plain)
        if watch is None:
            ranks = self._ranks()
            if ranks is None or running_seam() is not None or not _takes_rows((args, kwargs), ranks.numbers):
                return forward.plain(*args, **kwargs)
            return self._watch(ranks, forward, args, kwargs)
        watch.modules.append(forward.module)
        try:
            return self._inside(watch, forward, args, kwargs)
        finally:
            watch.modules.pop()

    def _watch(self, ranks: Ranks, forward: _Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        watch = RowWatch(forward.module, self._caller, _advice(self._caller))
        self.num_running += 1
        try:
            watch.enter((args, kwargs), ranks.numbers)
            with watch:
                out = self._inside(watch, forward, args, kwargs)
            watch.check((out, args, kwargs))
        except InputError as error:
            ranks.tell(error)
            raise
        finally:
            self.num_running -= 1
            watch.close()
        return out

    def _inside(self, watch: RowWatch, forward: _Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        module = forward.module
        if isinstance(module, torch.jit.ScriptModule):
            raise watch.refusal(watch.named(f"runs operations that cannot be seen {users_line()}"))
        original = vars(module).get("_modules", {}).get("_orig_mod")  # of torch.compile: it computes the same numbers
        plain = forward.plain if original is None else original
        out = run_watched(partial(plain, *args, **kwargs))
        assert forward.modes is not None  # of a module that is not trusted
        if watch.is_sure:
            forward.modes.discard(module.training)
        if not forward.modes:
            self._left.pop(module, None)
            forward.remove()
        for one in () if self._left else self._trusted:
            remove_watch(one)
        return out


class _Forward:
    """Stands in a module for its `forward`, until it was watched in both modes. A copy of the module has its own.

    Parameters
    ----------
    owner, module
        What watches the module, and the module.
    modes
        In which it is left to watch, training or not; None if it is trusted.
    """

    def __init__(self, owner: WatchedModules, module: nn.Module, modes: set[bool] | None) -> None:
        self._owner, self.module, self.modes = owner, module, modes
        self._kept = vars(module).get("forward")
        self.plain: Callable[..., Any] = module.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._owner.num_running == 0 if self.modes is None else self.module.training not in self.modes:
            return self.plain(*args, **kwargs)
        return self._owner.call(self, args, kwargs)

    def __reduce__(self) -> tuple[Any, tuple[nn.Module, str]]:
        return getattr, (self.module, "forward")

    def remove(self) -> None:
        """Leave the module as it was."""
        if vars(self.module).get("forward") is self:
            del vars(self.module)["forward"]
            vars(self.module).update({} if self._kept is None else {"forward": self._kept})


def remove_watch(model: nn.Module) -> None:
    """Leave the modules of a model as they were before they were to be watched."""
    for module in model.modules():
        forward = vars(module).get("forward")
        if isinstance(forward, _Forward):
            forward.remove()


def check_row_local(modules: Sequence[nn.Module], model: nn.Module, caller: str) -> list[nn.Module]:
    """Return the modules of a model that a user vouches for; refuse others."""
    modules = as_list(modules, f"{caller}: row_local", "modules")
    within = set(model.modules())
    for one in modules:
        if not isinstance(one, nn.Module) or one not in within:
            raise InputError(
                f"{caller}: expected modules of the model in row_local, got {type(one).__name__}; pass those that it "
                f"calls, {caller}(..., row_local=[model.between])"
            )
    return modules


def _takes_rows(values: Any, numbers: frozenset[int]) -> bool:
    """Whether a module takes rows, and nothing that tells about edges: it meets other ranks, or is a layer."""
    leaves = tree_leaves(values)
    if any(map(_tells_of_edges, leaves)):
        return False
    tensors = [one for one in leaves if isinstance(one, Tensor)]
    if any(one.layout != torch.strided or _is_edges(one) for one in tensors):
        return False
    return any(one.is_floating_point() and any(size > 1 and size in numbers for size in one.shape) for one in tensors)


def _tells_of_edges(value: Any) -> bool:
    try:
        return any(hasattr(value, name) for name in ("num_dst", "is_block", "edge_index", "sparse_sizes"))
    except InputError:  # values of edges, which are computed later
        return True


def _is_edges(value: Tensor) -> bool:
    return value.dim() == 2 and len(value) == 2 and value.dtype in (torch.int32, torch.int64)


def _advice(caller: str) -> str:
    return (
        "normalise by nn.BatchNorm1d, which is computed over all ranks, or nn.LayerNorm; attention and recurrent "
        "modules take a sequence for each node, [num_rows, length, num_features] with batch_first=True; a module that "
        f"works so is declared, {caller}(..., row_local=[model.module])"
        f"{'; name it in layers= if it takes a block' if caller == 'cooperative' else ''}"
    )
