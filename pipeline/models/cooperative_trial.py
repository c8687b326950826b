"""Whether a layer gives a node the row that it has in one process, tried before the layer runs on several ranks.

A rank has all sampled in-edges of the nodes that it owns, but not those of other nodes, and only some of the out-edges
of a source. So a layer is exact if a row depends on the in-edges of its own node alone. That is tried on the first
batch that can show it: the layer is called as it will be, with other edges, other rows and more rows for all nodes
but some destinations, and with the other destinations alone. Rows of destinations that are left have to stay. Ranks do
not communicate, and the layer keeps no trace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from headrace.ops.errors import InputError
from headrace.pipeline.data.block import Block
from headrace.pipeline.models.fewer_nodes import FewerNodes
from headrace.pipeline.models.other_nodes import OtherNodes
from headrace.pipeline.models.running_batch import RUNNING, RunningBatch
from headrace.pipeline.models.trials import are_alike, least_unit, one_trial, rows_of, unit_of
from headrace.pipeline.models.without_trace import Generators, call_without_trace

#: What may be done to other nodes: edges may end at any row, or at the block's destinations; rows are added, or not. A
#: layer that does not take such an input is tried with the next one.
_ATTEMPTS = ((True, True), (True, False), (False, True), (False, False))


def try_layer(
    number: int, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], running: RunningBatch
) -> bool:
    """Return whether the layer has been tried; False where a later batch may show more.

    Parameters
    ----------
    number, layer
        The layer.
    args, kwargs
        What it is called with: rows of all sources, exchanged by now.
    running
        The batch.

    Raises
    ------
    InputError
        If it is not exact.
    """
    block = running.batch.blocks[number]
    if not isinstance(block, Block) or isinstance(layer, torch.jit.ScriptModule):
        return True  # ranks share its edges, so what layers ask of it is exact by itself; or it cannot be looked into
    others = OtherNodes.of(block)
    if others is None or any(is_lazy(one) for one in (*layer.parameters(), *layer.buffers())):
        return False
    trial = _Trial(number, layer, args, kwargs, others, running)
    kind = f"{type(layer).__module__}.{type(layer).__name__}"
    with one_trial():
        has_unseen = trial.passes_unseen_messages()
    if has_unseen:
        raise InputError(
            f"cooperative: expected the edges of layer {number} among its arguments, as block.edge_index, the block, "
            f"what block.to_pyg(h) returns or a sparse matrix, got {kind}, which passes messages along edges that it "
            "has from elsewhere: from an attribute, an object of another kind or positions in another form; pass them "
            "as arguments, so that they can be looked into"
        )
    with one_trial():
        is_passed = trial.is_passed()
    if is_passed:
        return True
    raise InputError(
        f"cooperative: expected layer {number} to give a node the same row whatever edges and rows other nodes have, "
        f"of which each rank has some, got {kind}, which does not: it reads the degrees of sources, passes messages "
        "twice, takes sums over all rows or edges, or reads their number or the first ones. A graph convolution takes "
        "hr.gcn_norm(graph), fetched as a feature of edges, as edge_weight, with normalize=False (norm='none' in DGL), "
        "once for each block; a norm over all nodes is nn.BatchNorm1d, between layers"
    )


@dataclasses.dataclass(frozen=True)
class _Trial:
    """Calls of a layer, with its input and with other nodes."""

    number: int
    layer: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    others: OtherNodes
    running: RunningBatch

    def is_passed(self) -> bool:
        """Whether rows that are left stay, or the layer takes no other input than the one it has."""
        generators = Generators(self.others.block.indices.device)
        expected = self._call(generators, self.args, self.kwargs, training=True)
        training = not generators.have_moved  # masks of dropout would be others, of other numbers of rows
        if not training:
            expected = self._call(generators, self.args, self.kwargs, training=False)
        generators.restore()
        if expected is None:
            return True  # the call to come fails as well
        return self._is_passed_with_others(generators, expected, training=training) and self._is_passed_with_fewer(
            generators, expected, training=training
        )

    def _is_passed_with_others(self, generators: Generators, expected: Tensor, *, training: bool) -> bool:
        for args, kwargs in self._inputs():
            got = self._call(generators, args, kwargs, training=training)
            generators.restore()
            if got is not None:
                num_kept = self.others.num_kept
                return self._are_alike(expected[:num_kept], got[:num_kept])
        return True

    def _is_passed_with_fewer(self, generators: Generators, expected: Tensor, *, training: bool) -> bool:
        fewer = FewerNodes(self.others)
        changed = self._changed(fewer)
        if changed is None or not fewer.has_rows:
            return True
        running = fewer.running(self.running, self.number)
        got = self._call(generators, *changed, training=training, running=running)
        generators.restore()
        expected = expected[fewer.destinations]
        return got is None or len(got) < len(expected) or self._are_alike(expected, got[: len(expected)])

    def passes_unseen_messages(self) -> bool:
        """Whether a row depends on rows of other nodes, though no argument says along which edges."""
        alone = self.others.alone()
        changed = self._changed(alone)
        if changed is None or alone.knows_edges:
            return False
        generators = Generators(self.others.block.indices.device)
        expected = self._call(generators, self.args, self.kwargs, training=False)
        got = self._call(generators, *changed, training=False)
        generators.restore()
        if expected is None or got is None:
            return False
        num_kept = self.others.num_kept
        return not self._are_alike(expected[:num_kept], got[:num_kept])

    def _changed(self, change: Callable[[Any], Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the arguments changed; None where they cannot be."""
        try:
            return tuple(map(change, self.args)), {name: change(one) for name, one in self.kwargs.items()}
        except Exception:  # noqa: BLE001 - classes of users' own among the arguments
            return None

    def _inputs(self) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Yield what else the layer may take."""
        is_pair = any(map(self.others.is_bipartite, (*self.args, *self.kwargs.values())))
        for anywhere, more in _ATTEMPTS:
            if anywhere and is_pair:
                continue
            changed = self.others.change(anywhere=anywhere, more=more)
            arguments = self._changed(changed)
            if arguments is not None and (changed.has_edges or not more):
                yield arguments

    def _call(
        self,
        generators: Generators,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        training: bool,
        running: RunningBatch | None = None,
    ) -> Tensor | None:
        """Return the rows that the layer returns first; None if it returns none, or fails."""
        generators.restore()
        token = RUNNING.set(dataclasses.replace(running or self.running, is_trial=True))
        try:
            out = call_without_trace(self.layer, args, kwargs, training=training)
        except Exception:  # noqa: BLE001 - another input than the user's may be none that the layer takes
            return None
        finally:
            RUNNING.reset(token)
        return next(rows_of(out), None)

    def _are_alike(self, expected: Tensor, got: Tensor) -> bool:
        return are_alike(expected, got, max(least_unit(expected), unit_of(expected, self.layer)))
