"""A test of a user's own stages: a plan is run in all ways that must make the same batches."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from headrace.ops.errors import InputError, PeerError, PlanError
from headrace.pipeline.data import MiniBatch, check_kind
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.data.batch_parts import named_tensors
from headrace.pipeline.data.checks import is_of_headrace
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.local_comm import LocalGroup
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan import Machine, MapStage, Plan, RunSettings, WindowRunner, source_of
from headrace.pipeline.plan.checks import batches_of
from headrace.pipeline.plan.users_stage import checked_runner
from headrace.pipeline.stages.other_sources import NodeSource

T = TypeVar("T")

_ALONE = {"rank": 0, "world_size": 1}
_RANKS = 2
#: Passes that only save time, and let stages of one kind run inside another.
_PLAIN = {"prefetch": False, "fuse_sampling": False}

_PURE = "what a runner returns depends on its batch and on settings.seed alone, which key hr.ext.uniform"
_STATELESS = "several threads call a runner, in any order: it keeps nothing between batches"
_BY_NODE = "a sampler goes by n_id and slot, and draws by global ids of nodes, not by positions in a batch"


def check_stage(plan: Plan, *, epochs: int = 2) -> tuple[str, ...]:
    """Check that stages of your own make the same batches however a plan is run: for your tests.

    The plan runs with one thread and once more, with two threads, with two workers, with all passes, resumed from
    states in the middle of an epoch, and on two ranks, each with its share. Where its stages declare what that takes
    (`finds_by_node`, `plants_trees`, `shares_by_rank`), two ranks also make batches together. No stage of yours may
    write into the batch that it is given, or change fields that its `writes` does not name.

    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=3)
    >>> hr.testing.check_stage(hr.ItemSampler(3, batch_size=1, seed=0).sample_neighbor(graph, [2]))
    ('once more', 'two threads', 'two workers', 'all passes', 'resumed', 'in place', 'two ranks', 'two ranks together')

    Parameters
    ----------
    plan
        A plan with the stages, over data so small that a few epochs take seconds.
    epochs
        The number of epochs to compare.

    Returns
    -------
    tuple of str
        The ways in which it was run. Those on ranks are left out where a stage or a source does not declare them, and
        behind a conversion.

    Raises
    ------
    AssertionError
        If batches differ: in which way, at which batch, in which field, and what may be the reason.
    InputError
        If the plan has no batches.
    HeadraceError
        As a loader of the plan.
    """
    advice = "pass a plan that ends in the stage"
    check_kind(plan, Plan, "check_stage: expected a plan", advice, InputError)
    num_epochs = whole_number(epochs, "check_stage: epochs", 1, InputError)
    one = {**_ALONE, "num_threads": 1, "prefetch": False}
    expected = _run(plan, num_epochs, **one)
    if not expected:
        raise InputError("check_stage: expected a plan with batches, got one without; give its source items")
    ways: dict[str, Callable[[], None]] = {
        "once more": lambda: _compare(expected, _run(plan, num_epochs, **one), "once more", _PURE),
        "two threads": lambda: _compare(
            expected, _run(plan, num_epochs, **one | {"num_threads": 2}), "with two threads", _STATELESS
        ),
        "two workers": lambda: _compare(
            expected, _run(plan.prefetch(workers=2, depth=4), num_epochs, **_ALONE), "with two workers", _STATELESS
        ),
        "all passes": lambda: _compare(expected, _run(plan, num_epochs, **_ALONE), "with all passes", _STATELESS),
        "resumed": lambda: _check_resumed(plan, expected, num_epochs, one),
        "in place": lambda: _check_in_place(plan),
    }
    source = source_of(plan)
    shares = source.shares_by_rank or (is_of_headrace(source) and not isinstance(source, NodeSource))
    if shares and not source.own_data() and isinstance(expected[0], MiniBatch):
        together = _is_legal(plan, lambda: plan.explain(machine=Machine(world_size=_RANKS), cooperative=True))
        if _is_legal(plan, lambda: plan.loader(rank=0, world_size=_RANKS).close()):
            ways["two ranks"] = lambda: _check_ranks(plan, expected, num_epochs, by_node=together)
        if together:
            ways["two ranks together"] = lambda: _check_together(plan, expected, num_epochs)
    for check in ways.values():
        check()
    return tuple(ways)


def _run(plan: Plan, epochs: int, state: Any = None, **options: Any) -> list[Any]:
    with plan.loader(**options) as loader:
        if state is not None:
            loader.load_state_dict(state)
        return [batch for _ in loader.epochs(epochs) for batch in loader]


def _check_resumed(plan: Plan, expected: list[Any], epochs: int, options: dict[str, Any]) -> None:
    states = []
    with plan.loader(**options) as loader:
        for _ in loader.epochs(epochs):
            for _ in loader:
                states.append(json.loads(json.dumps(loader.state_dict())))  # noqa: PERF401 - of a moment
    for place in sorted({0, len(states) // 2, len(states) - 2} & set(range(len(states) - 1))):
        found = _run(plan, epochs, states[place], **options)
        _compare(expected[place + 1 :], found, f"resumed behind batch {place}", _STATELESS)


def _compare(expected: list[Any], found: list[Any], way: str, reason: str) -> None:
    if len(expected) != len(found):
        raise AssertionError(
            f"check_stage: expected {len(expected)} batches {way}, as with one thread, got {len(found)}; a source "
            "draws as many of them wherever it begins"
        )
    for number, (batch, like) in enumerate(zip(found, expected, strict=True)):
        differing = _differing(batch, like)
        if differing:
            raise AssertionError(
                f"check_stage: expected the batches of one thread {way}, got another {' and '.join(differing)} in "
                f"{_which(batch, number)}; {reason}"
            )


def _which(batch: Any, number: int) -> str:
    return f"batch {batch.index} of epoch {batch.epoch}" if isinstance(batch, MiniBatch) else f"batch {number}"


def _differing(batch: Any, like: Any) -> list[str]:
    """Return the fields in which two batches differ."""
    values, others = dict(_values(batch)), dict(_values(like))
    changed = [name for name in {**values, **others} if not _same(values.get(name), others.get(name))]
    return list(dict.fromkeys(name.partition("/")[0] for name in changed))


def _values(batch: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a batch, or of what it was converted to, by name."""
    if isinstance(batch, MiniBatch):
        yield from named_tensors(batch)
        yield from ((key, getattr(batch, key)) for key in ("epoch", "index", "num_global_seeds"))
    elif hasattr(batch, "to_dict"):
        yield from _values(batch.to_dict(), name)
    elif isinstance(batch, Mapping | tuple | list):
        inside = batch.items() if isinstance(batch, Mapping) else enumerate(batch)
        for key, one in inside:
            yield from _values(one, f"{name}/{key}" if name else str(key))
    else:
        yield name or type(batch).__name__, batch


def _same(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if not isinstance(first, Tensor):
        return not isinstance(first, bool | int | float | str) or bool(first == second)  # of others nobody knows
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return torch.equal(first, second) or bool(((first == second) | (first.isnan() & second.isnan())).all())


def _check_in_place(plan: Plan) -> None:
    """Run the stages one by one, and look at what each does to the batch that it is given."""
    rewriting = rewrite(plan, Machine(cores=1), _PLAIN)
    final, source = rewriting.final, source_of(rewriting.final)
    settings = RunSettings(source.seed, source)
    stages = [stage for stage in final.stages if isinstance(stage, MapStage)]
    runners = [(stage, stage.runner(settings)) for stage in stages]
    drawer = batches_of(source, settings)
    drawer.seek(0, None)
    for drawn in _drawn(drawer.draw):
        batch: Any = drawn
        for stage, runner in runners:
            if isinstance(runner, WindowRunner):
                return
            key = (drawn.epoch, drawn.index) if stage.keyed else ()
            if is_of_headrace(stage) or not isinstance(batch, MiniBatch):
                batch, _ = runner(batch, *key)
                continue
            copies = {name: tensor.clone() for name, tensor in named_tensors(batch)}
            before = batch
            batch, _ = checked_runner(stage, runner, is_last=stage is stages[-1])(batch, *key)
            name, where = type(stage).__name__, _which(before, 0)
            written = [field for field, tensor in named_tensors(before) if not _same(tensor, copies[field])]
            if written:
                raise AssertionError(
                    f"check_stage: expected {name} to leave the batch that it is given as it is, got writes into "
                    f"{', '.join(written)} in {where}; others hold the same memory: write into a clone()"
                )
            if isinstance(batch, MiniBatch):
                odd = [field for field in _differing(batch, before) if field not in stage.writes]
                if odd:
                    raise AssertionError(
                        f"check_stage: expected {name} to change the fields that its writes names, "
                        f"{sorted(stage.writes)}, got another {' and '.join(odd)} in {where}; name them in writes"
                    )


def _drawn(draw: Callable[[], MiniBatch]) -> Iterator[MiniBatch]:
    while True:
        try:
            batch = draw()
        except StopIteration:
            return
        yield batch


def _is_legal(plan: Plan, make: Callable[[], object]) -> bool:
    """Whether ranks can share the batches so; a stage that declares that it finds by node and cannot is refused."""
    try:
        make()
    except PlanError:
        parts = rewrite(plan, Machine(), _PLAIN).final.stages
        if any(getattr(part, "finds_by_node", False) for part in parts if not is_of_headrace(part)):
            raise
        return False
    return True


def _check_ranks(plan: Plan, expected: list[Any], epochs: int, *, by_node: bool) -> None:
    """Compare the shares of ranks that make batches alone: all seeds once, and where nodes decide, the same edges."""
    shares = [_run(plan, epochs, rank=rank, world_size=_RANKS, num_threads=1) for rank in range(_RANKS)]
    for whole, mine in _batches(expected, shares, "on two ranks"):
        _check_seeds(whole, mine, "on two ranks")
        edges, found = _edges(whole, trees=True), [_edges(batch, trees=True) for batch in mine]
        if by_node and set(edges) != {edge for one in found for edge in one}:
            raise AssertionError(_other_edges("on two ranks", whole))


def _check_together(plan: Plan, expected: list[Any], epochs: int) -> None:
    """Compare the shares of ranks that make batches together: each edge once."""

    def work(comm: Comm) -> list[Any]:
        return _run(plan, epochs, comm=comm, cooperative=True)

    way = "on two ranks together"
    for whole, mine in _batches(expected, _on_ranks(work), way):
        _check_seeds(whole, mine, way)
        if Counter(_edges(whole)) != Counter(edge for batch in mine for edge in _edges(batch)):
            raise AssertionError(_other_edges(way, whole))


def _batches(expected: list[Any], shares: list[list[Any]], way: str) -> Iterator[tuple[MiniBatch, list[MiniBatch]]]:
    if {len(share) for share in shares} != {len(expected)}:
        counts = " and ".join(str(len(share)) for share in shares)
        raise AssertionError(f"check_stage: expected {len(expected)} batches {way}, on each of them, got {counts}")
    for whole, *mine in zip(expected, *shares, strict=True):
        yield whole, mine


def _check_seeds(whole: MiniBatch, mine: Iterable[MiniBatch], way: str) -> None:
    def items(batch: MiniBatch) -> list[tuple[int, str]]:
        return list(zip(batch.item_index.tolist(), map(str, batch.seeds.tolist()), strict=False))

    if Counter(items(whole)) != Counter(item for batch in mine for item in items(batch)):
        raise AssertionError(
            f"check_stage: expected the seeds of one process {way}, each on one rank, got others in "
            f"{_which(whole, 0)}; a source draws the part of settings.rank, and a stage changes each seed by itself"
        )


def _edges(batch: MiniBatch, *, trees: bool = False) -> list[tuple[int, int, int]]:
    """Return the edges by layer, tree and id; without ids there are none to compare."""
    slots = batch.slot if batch.slot is None or batch.seed_slot is None else batch.seed_slot[batch.slot]
    found: list[tuple[int, int, int]] = []
    for layer, block in enumerate(batch.blocks):
        if block.edge_ids is None:
            return []
        of = slots[block.edge_index[1]].tolist() if trees and slots is not None else [0] * block.num_edges
        found += [(layer, tree, edge) for tree, edge in zip(of, block.edge_ids.tolist(), strict=True)]
    return found


def _other_edges(way: str, whole: MiniBatch) -> str:
    return f"check_stage: expected the edges of one process {way}, got others in {_which(whole, 0)}; {_BY_NODE}"


def _on_ranks(work: Callable[[Comm], T]) -> list[T]:
    """Return what ranks in threads return; where some fail, raise the error of which others were told."""
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(comm: Comm) -> None:
        try:
            results[comm.rank] = work(comm)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)
            comm.fail(repr(error))

    threads = [threading.Thread(target=run, args=(comm,)) for comm in LocalGroup(_RANKS).comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in sorted(errors, key=lambda one: isinstance(one, PeerError)):
        raise error
    return [results[rank] for rank in range(_RANKS)]
