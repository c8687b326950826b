"""A step of training over buffers whose addresses stay, which a GPU repeats as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._pytree import tree_leaves

from headrace.ops.aggregate.compiling import IS_CAPTURED
from headrace.ops.aggregate.precision import autocast_of
from headrace.ops.errors import HeadraceError, InputError, PlanError
from headrace.ops.gpu import capture, device_of, record, side_stream, use_here
from headrace.pipeline.data import describe, whole_number
from headrace.pipeline.data.batch_parts import named_tensors
from headrace.pipeline.data.block_messages import is_trusted
from headrace.pipeline.data.padded_batch import PaddedBatch

if TYPE_CHECKING:
    from headrace.pipeline.data.padded_block import PaddedBlock

Result = TypeVar("Result")


class CapturedStep(Generic[Result]):
    """A step of training that is called with padded batches, and that a GPU repeats as a CUDA graph.

    For each shape of batches (see ``plan.pad()``) it keeps buffers. Each call copies the batch into them, and the step
    gets a batch of these buffers. A CPU calls the step each time. A GPU calls it for the first `warm_up` batches of a
    shape, on a stream of its own. The next batch has it captured, and from then on each call launches the captured work
    at once, in place of the step. Each batch is one step: a capture runs nothing.

    Code on the host runs only when the step is called. Therefore:

    - ``zero_grad()``, ``backward()`` and the step of the optimiser belong in it. An optimiser outside of it works, too:
      after a launch parameters of modules have the gradients that it wrote.
    - ``model.train()`` and ``model.eval()`` are read when it is called: make one `CapturedStep` for each.
    - The host must not wait: no ``loss.item()``, no mask as an index. Return tensors, and read them outside.
    - Numbers of Python stay as they were. So counts of the batch (``num_seeds``, ``num_sampled_nodes``, ``epoch``, ...)
      raise an error; ``seed_mask`` and ``node_mask`` are of each batch. Dropout of attention (`GATConv`,
      ``Block.attend``) raises one too; ``torch.nn.Dropout`` has new masks in each launch.
    - Optimisers of torch that count steps need ``capturable=True`` on a GPU, such as ``Adam``. A learning rate that
      changes must be a tensor, which a scheduler changes in place.
    - The tensors that it returns are overwritten by the next call with a batch of the same shape.

    Parameters
    ----------
    step
        Takes a batch, and returns tensors, or tuples, lists or dictionaries of them, or None.
    warm_up
        Batches of each shape, at least 1, before it is captured. The first ones compile kernels and make the states of
        the optimiser.

    Raises
    ------
    InputError
        For a step that cannot be called. When called, for a batch without padding, one of a graph with types (whose
        relations depend on values), and one with blocks that others have made.
    PlanError
        When called, for a step that reads counts of the batch, or drops attention.
    HeadraceError
        When called, if a GPU cannot capture the step.

    Examples
    --------
    >>> import headrace as hr, torch
    >>> graph = hr.Graph.from_coo([1, 2, 3, 4], [0, 0, 1, 2], num_nodes=5)
    >>> loader = hr.ItemSampler(4, batch_size=2).sample_neighbor(graph, [2]).pad().loader()
    >>> step = hr.nn.CapturedStep(lambda batch: batch.blocks[0].aggregate(torch.ones(6, 1)).sum())
    >>> [step(batch).item() for batch in loader]
    [3.0, 3.0]
    """

    def __init__(self, step: Callable[[Any], Result], *, warm_up: int = 3) -> None:
        if not callable(step):
            raise InputError(f"CapturedStep: expected a function of a batch, got {type(step).__name__}")
        self._step = step
        self._warm_up = whole_number(warm_up, "CapturedStep: warm_up", 1, InputError)
        self._kept: dict[Hashable, _Kept[Result]] = {}

    def __call__(self, batch: PaddedBatch) -> Result:
        """Make the step with a batch, and return what it returns."""
        _check(batch)
        tensors = dict(named_tensors(batch), seed_mask=batch.seed_mask)
        if batch.seed_slot is not None:
            tensors["seed_slot"] = batch.seed_slot
        names: dict[int, str] = {}  # the first of each tensor, as fields may share one
        shape = tuple(
            (name, names.setdefault(id(one), name), one.shape, one.dtype, one.device) for name, one in tensors.items()
        )
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast_of(batch.seeds.device.type)
        key = batch.sizes, shape, modes
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept({name: tensors[name].clone() for name in names.values()})
        for name, buffer in kept.buffers.items():
            buffer.copy_(tensors[name], non_blocking=True)
        # A new object, as blocks keep what was computed of their arrays.
        buffers = {place: kept.buffers[name] for place, name in names.items()}
        over = CapturedBatch.like(batch).over(buffers, kept.buffers["seed_mask"])
        device = device_of(batch.seeds)
        if device is None:
            return self._called(over)
        if kept.replay is None and kept.num_calls < self._warm_up:
            kept.num_calls += 1
            with side_stream(device, behind_current=True):
                result = self._called(over)
                event = record(device)
            event.wait()
            use_here(one for one in tree_leaves(result) if isinstance(one, Tensor))
            return result
        if kept.replay is None:
            try:
                with _parameters() as parameters:
                    result, kept.replay = capture(device, lambda: self._called(over))
            except RuntimeError as error:
                if isinstance(error, HeadraceError):
                    raise
                raise HeadraceError(
                    "CapturedStep: expected a step in which the host does not wait for the GPU, as for .item(), a mask "
                    f"as an index, a size that depends on values, got an error when it was captured: {error}"
                ) from error
            kept.results = (result,)
            kept.gradients = [(one, one.grad) for one in parameters if one.grad is not None]
        kept.replay()
        for parameter, gradient in kept.gradients:
            parameter.grad = gradient
        return kept.results[0]

    def _called(self, batch: CapturedBatch) -> Result:
        token = IS_CAPTURED.set(True)
        try:
            return self._step(batch)
        finally:
            IS_CAPTURED.reset(token)

    def __repr__(self) -> str:
        return f"CapturedStep({self._step!r}, warm_up={self._warm_up})"


@dataclass
class _Kept(Generic[Result]):
    """What is kept of a shape.

    Parameters
    ----------
    buffers
        The tensors that batches are copied to, by name.
    num_calls
        Calls of the step on a GPU so far.
    replay
        Launches the captured step.
    results
        What it writes to, if it is captured.
    gradients
        Parameters, and the tensors that it writes their gradients to.
    """

    buffers: dict[str, Tensor]
    num_calls: int = 0
    replay: Callable[[], None] | None = None
    results: tuple[Result, ...] = ()
    gradients: list[tuple[Tensor, Tensor]] = field(default_factory=list)


class CapturedBatch(PaddedBatch):
    """A padded batch in buffers, without the numbers that a captured step would take from one batch for all."""

    @classmethod
    def like(cls, batch: PaddedBatch) -> CapturedBatch:
        """Return a batch of the same tensors."""
        captured = object.__new__(cls)
        captured.__dict__.update(batch.__dict__)
        return captured

    def over(self, buffers: Mapping[int, Tensor], seed_mask: Tensor) -> CapturedBatch:
        """Return a batch of buffers, which are given by `id` of the tensors whose values they hold."""
        made = self._map(lambda tensor: buffers[id(tensor)])
        made.__dict__["_seed_mask"] = seed_mask
        return cast("CapturedBatch", made)

    @property
    def seed_mask(self) -> Tensor:
        """Return which entries of `seeds` are real, bool[len(seeds)]."""
        mask: Tensor = self.__dict__["_seed_mask"]
        return mask

    @property
    def node_mask(self) -> Tensor:
        """Return which entries of `n_id` are real, bool[len(n_id)]."""
        return cast("PaddedBlock", self.blocks[0]).src_mask

    def __repr__(self) -> str:
        return f"CapturedBatch(seeds={describe(self.seeds)}, blocks={self.blocks!r})"


#: Numbers of a batch, which differ among batches of one shape.
_NUMBERS = (
    "num_seeds",
    "num_real_seeds",
    "num_sampled_nodes",
    "num_sampled_edges",
    "num_global_seeds",
    "num_positives",
    "epoch",
    "index",
)


@contextmanager
def _parameters() -> Iterator[list[nn.Parameter]]:
    """Note the parameters of all modules that are called meanwhile."""
    found: dict[nn.Parameter, None] = {}
    hook = register_module_forward_pre_hook(lambda module, _: found.update(dict.fromkeys(module.parameters())))
    noted: list[nn.Parameter] = []
    try:
        yield noted
    finally:
        hook.remove()
        noted.extend(found)


def _refused(name: str) -> property:
    def refuse(batch: CapturedBatch) -> Any:
        del batch
        raise PlanError(
            f"MiniBatch.{name}: expected tensors of the batch alone in hr.nn.CapturedStep, as a GPU would repeat the "
            f"number of one batch for all, got {name}; take batch.seed_mask (its sum is the number of seeds) or "
            "batch.node_mask, or divide outside of the step"
        )

    return property(refuse)


for _name in _NUMBERS:
    setattr(CapturedBatch, _name, _refused(_name))


def _check(batch: object) -> None:
    """Refuse a batch whose shape does not come again, or that a step cannot work on without a wait."""
    if not isinstance(batch, PaddedBatch):
        raise InputError(
            f"CapturedStep: expected a batch with padding, whose shape comes again, got {type(batch).__name__}; end "
            "the plan in .pad(), without .to_pyg() or .to_dgl()"
        )
    if batch.types is not None:
        raise InputError(
            "CapturedStep: expected a batch of a graph without types, got one with types, whose relations depend on "
            "values; call the step itself"
        )
    if not batch.blocks or not all(map(is_trusted, batch.blocks)):
        raise InputError(
            "CapturedStep: expected blocks as the loader has made them, got others, at whose edges each layer looks; "
            "leave the blocks of the batch as they are, and pass weights to layers"
        )
