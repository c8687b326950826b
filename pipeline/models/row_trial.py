"""Whether modules between the layers of a cooperative model work row by row, tried before they run on several ranks.

A rank has some of the rows of a layer. So a module there is exact if a row depends on no other one, and neither on its
position nor on the number of rows. That is tried on the first batch of each mode that can show it: a module is called
with every other row alone, which has to change none of these. Ranks do not communicate, and the module keeps no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from traceback import format_exception
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from headrace.ops.errors import InputError
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.models.running_batch import RUNNING, RunningBatch
from headrace.pipeline.models.trials import are_alike, least_unit, one_trial, rows_of, unit_of
from headrace.pipeline.models.without_trace import Generators, call_without_trace

#: With fewer rows than these, a row more or less may show nothing; of more, the first are tried.
LEAST_ROWS, MOST_ROWS = 4, 4096


class RowTrial:
    """The modules of a model between its layers, and whether they were tried.

    Parameters
    ----------
    model
        The model.
    layers
        Its layers, whose own modules are none of them.
    ours
        Modules that are exact over ranks by themselves.
    """

    def __init__(self, model: nn.Module, layers: Sequence[nn.Module], ours: tuple[type[nn.Module], ...]) -> None:
        within = {module for layer in layers for module in layer.modules()}
        containers = nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict, torch.jit.ScriptModule
        self._modules = [
            module
            for module in model.modules()
            if within.isdisjoint(module.modules()) and not isinstance(module, (*containers, *ours))
        ]
        self._ours = ours
        self._tried: set[tuple[nn.Module, bool]] = set()

    @contextmanager
    def watched(self, comm: Comm) -> Iterator[None]:
        """Try the modules that are called meanwhile, each before its first call in a mode.

        Parameters
        ----------
        comm
            The channel, on which other ranks would wait for one that raises an error.
        """
        waiting = [module for module in self._modules if (module, module.training) not in self._tried]

        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            running = RUNNING.get()
            if running is None or running.layer is not None or (module, module.training) in self._tried:
                return
            verdict = works_row_by_row(module, args, kwargs, _numbers_of_rows(running), self._ours)
            if verdict is False:
                error = mixes_rows(module, "cooperative")
                comm.fail("".join(format_exception(error)))
                raise error
            if verdict is not None:  # what works so as a whole does, whatever its parts do
                self._tried.update((one, one.training) for one in module.modules())

        handles = [module.register_forward_pre_hook(hook, with_kwargs=True) for module in waiting]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def works_row_by_row(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    numbers: Iterable[int],
    ours: tuple[type[nn.Module], ...],
) -> bool | None:
    """Return whether it does; None where a later call may show more. A module that takes no such rows does.

    Parameters
    ----------
    module
        The module.
    args, kwargs
        Its arguments.
    numbers
        How many rows a table of these may have.
    ours
        Modules that are exact over ranks by themselves.
    """
    if any(is_lazy(one) for one in (*module.parameters(), *module.buffers())):
        return None
    rows = next((one for one in (*args, *kwargs.values()) if isinstance(one, Tensor) and one.dim() > 0), None)
    if rows is None or not rows.is_floating_point() or rows.layout != torch.strided:
        return True
    num_rows = next((number for number in numbers if _places(rows, number)), None)
    if num_rows is None:
        return True
    if num_rows < LEAST_ROWS:
        return None
    tried = torch.arange(min(num_rows, MOST_ROWS), device=rows.device)
    kept = tried[1::2]  # a first half would be the same for modules that go along rows
    generators = Generators(rows.device)

    def call(args: tuple[Any, ...], kwargs: dict[str, Any], *, training: bool) -> Tensor | None:
        generators.restore()
        token = RUNNING.set(None)
        try:
            return next(rows_of(call_without_trace(module, args, kwargs, training=training)), None)
        except Exception:  # noqa: BLE001 - fewer rows may be none that the module takes
            return None
        finally:
            RUNNING.reset(token)

    with one_trial():
        try:
            most, most_named = _of_rows(args, kwargs, num_rows, tried)
            fewer, fewer_named = _of_rows(args, kwargs, num_rows, kept)
        except ValueError:
            return True
        # Ours would meet other ranks, or take new masks.
        training = not any(isinstance(one, ours) for one in module.modules())
        expected = call(most, most_named, training=training)
        if training and generators.have_moved:  # masks would be others, of other numbers of rows
            training = False
            expected = call(most, most_named, training=False)
        draws = generators.have_moved
        got = None if expected is None or draws else call(fewer, fewer_named, training=training)
        generators.restore()
    if expected is None or got is None:
        return True
    if _places(expected, len(tried)):
        expected = _rows_at(expected, len(tried), kept)
    return _are_alike(expected, got, module)


def _numbers_of_rows(running: RunningBatch) -> Iterator[int]:
    """Yield how many rows a module may get here: of nodes, of the next layer's destinations, or of edges."""
    yield len(running.nodes)
    for block in running.batch.blocks:
        yield from (block.num_dst, block.num_edges)


def _places(tensor: Tensor, num_rows: int) -> list[int]:
    """Return the dimension that holds rows: the first, or else the only one of that size; none if there is none."""
    places = [place for place, size in enumerate(tensor.shape) if size == num_rows]
    return places[:1] if len(places) == 1 or places[:1] == [0] else []


def _of_rows(
    args: tuple[Any, ...], kwargs: dict[str, Any], num_rows: int, rows: Tensor
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments of some rows alone; `ValueError` for arguments that name rows by position, as edges do."""
    named = {name: _rows_at(one, num_rows, rows) for name, one in kwargs.items()}
    return tuple(_rows_at(one, num_rows, rows) for one in args), named


def _rows_at(argument: Any, num_rows: int, rows: Tensor) -> Any:
    if not isinstance(argument, Tensor):
        return argument
    if argument.layout != torch.strided or (argument.dtype in (torch.int32, torch.int64) and argument.dim() == 2):
        raise ValueError
    places = _places(argument, num_rows)
    if not places:
        return argument
    return argument.index_select(places[0], rows.to(argument.device))


def _are_alike(expected: Tensor, got: Tensor, module: nn.Module) -> bool:
    unit = unit_of(got, module, got.dtype)
    return are_alike(expected, got, max(unit, least_unit(got)) if unit > torch.finfo(torch.float64).eps else unit)


def mixes_rows(module: nn.Module, caller: str) -> InputError:
    """Return the error for a module that does not, which begins with the name of a function."""
    kind = type(module)
    return InputError(
        f"{caller}: expected modules between layers to work row by row, as each rank has some of the rows, got "
        f"{kind.__module__}.{kind.__name__}, which reads other rows, their number or the position of a row; normalise "
        "by nn.BatchNorm1d, which is computed over all ranks, or nn.LayerNorm; attention and recurrent modules take a "
        "sequence for each node, [num_rows, length, num_features] with batch_first=True"
        f"{'; name it in layers= if it takes a block' if caller == 'cooperative' else ''}"
    )
