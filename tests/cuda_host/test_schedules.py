"""Every kernel under twenty schedules of blocks and warps: the bits of the CPU's kernels in each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from headrace import ops
from headrace.cuda.backend import stand_in
from headrace.cuda.faults import Fault
from headrace.cuda.instances import KERNELS
from headrace.cuda.random import labor_variates
from headrace.cuda.rows import check_ids
from headrace.cuda.variates import Variates
from headrace.ops import _native
from headrace.ops.features.cached_rows import gather_cached
from headrace.ops.sampling.negatives import count_below

from cuda_host.stand_in import StandIn

NUM_SCHEDULES = 20
NUM_NODES = 60
RULES = {
    "all": ops.NeighborRule(-1),
    "few": ops.NeighborRule(3),
    "many": ops.NeighborRule(40),
    "replacement": ops.NeighborRule(4, replace=True),
    "labor": ops.LaborRule(3),
    "poisson": ops.LaborRule(3, exact=False),
}


def drawn(*size: int, high: int = NUM_NODES, seed: int = 0) -> torch.Tensor:
    return torch.randint(high, size, generator=torch.Generator().manual_seed(seed))


@cache
def csc() -> ops.Csc:
    """A hub with more edges than a block has threads, parallel edges, and nodes without any."""
    target = torch.cat([drawn(400, high=50), torch.full((700,), 7)])
    return ops.coo_to_csc(drawn(1100, seed=1), target, NUM_NODES)


@cache
def weights() -> torch.Tensor:
    return torch.rand(len(csc().indices), generator=torch.Generator().manual_seed(2)) * (drawn(1100, high=4) > 0)


@cache
def small_csc() -> ops.Csc:
    """A hub with edges for three segments of attention, the last one not full."""
    target = torch.cat([drawn(60, high=15), torch.full((66,), 7)])
    return ops.coo_to_csc(drawn(126, high=20, seed=1), target, 20)


def hop(rule: ops.Rule, *, weighted: bool = False, slotted: bool = False) -> Any:
    named = {"slots": torch.arange(50), "times": drawn(1100).sort().values, "bounds": torch.full((50,), 40)}
    return ops.sample_hop(
        csc().indptr,
        csc().indices,
        torch.arange(50),
        rule,
        11,
        weights=weights() if weighted else None,
        **(named if slotted else {}),
    )


def fused(rules: list[ops.Rule], expand: str = "all", *, weighted: bool = False) -> Any:
    """Two minibatches, of which the second has room by what the first one took."""
    sampler = ops.BlockSampler(csc().indptr, csc().indices, weights=weights() if weighted else None)
    return [sampler.sample(torch.arange(3, 30, 2) + one, rules, [5, 6], expand=expand) for one in range(2)]


@cache
def rows() -> ops.TypedRows:
    """Three types of nodes, and relations into one or all of them: the edges of the hub are of several."""
    ends = [(0,), (0, 1, 2), (1, 2)]
    relation = drawn(len(csc().indices), high=3, seed=5)
    target = torch.arange(NUM_NODES).repeat_interleave(csc().indptr.diff())
    relation[(target < 20) & (relation == 2)] = 1
    relation[(target >= 20) & (relation == 0)] = 1
    counts = torch.bincount(target * 3 + relation, minlength=3 * NUM_NODES).view(NUM_NODES, 3)
    own = [counts[node, [0, 1] if node < 20 else [1, 2]] for node in range(NUM_NODES)]
    row_ptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cat(own).cumsum(0)])
    return ops.TypedRows(row_ptr, NUM_NODES, (0, 20, 40, NUM_NODES), tuple(ends))


def typed_hop(*rules: ops.Rule, weighted: bool = False) -> Any:
    """With slots, bounds and parallel edges."""
    named = {"slots": torch.arange(50), "times": torch.arange(1100), "bounds": drawn(50, high=1100)}
    return ops.sample_hop(
        rows().row_ptr,
        csc().indices,
        torch.arange(50),
        ops.ByRelation(rules),
        11,
        rows=rows(),
        weights=weights() if weighted else None,
        **named,
    )


def fused_behind_fetches() -> Any:
    """Rows that are fetched first, also by guess of their size."""
    sampler = ops.BlockSampler(csc().indptr, csc().indices)
    rules = [ops.LaborRule(4), ops.NeighborRule(3), ops.LaborRule(3, exact=False)]
    return [sampler.sample(torch.arange(20), rules, [1, 2, 3], fetch=True)[:4] for _ in range(2)]


def typed_fused(rules: list[ops.Rule], expand: str = "all") -> Any:
    sampler = ops.BlockSampler(csc().indptr, csc().indices, rows=rows())
    by_relation = [ops.ByRelation((rule, rules[0], rules[0])) for rule in rules]
    return sampler.sample(torch.arange(3, 30, 2), by_relation, [5, 6], expand=expand)


def trees(rules: list[ops.Rule], expand: str = "all", *, weighted: bool = False) -> Any:
    """Of seeds that come twice, in windows of time."""
    ascending = torch.arange(len(csc().indices))
    sampler = ops.BlockSampler(csc().indptr, csc().indices, weights=weights() if weighted else None, times=ascending)
    seeds = torch.arange(14) % 9
    windows = (torch.arange(14) * 7, drawn(14, high=1100), drawn(14, high=200, seed=1))
    return sampler.sample(seeds, rules, [5, 6], expand=expand, trees=ops.Trees(torch.arange(14), 14, *windows))


@cache
def excluded(*, typed: bool = False) -> ops.EdgePositions:
    """A third of the edges, by row."""
    indptr = rows().row_ptr if typed else csc().indptr
    positions = torch.arange(0, len(csc().indices), 3)
    row, counts = (torch.searchsorted(indptr, positions, right=True) - 1).unique_consecutive(return_counts=True)
    return ops.EdgePositions(row, torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]), positions)


def hubs(rule: ops.Rule, *, weighted: bool = False) -> Any:
    """Two rows among those of a block that all of its threads share, and short ones beside and between them."""
    target = torch.cat([drawn(60, high=20, seed=1), torch.full((2100,), 2), torch.full((2400,), 3)])
    graph = ops.coo_to_csc(drawn(len(target), high=5000), target, 5000)
    chances = drawn(len(target), high=40, seed=3).float() if weighted else None  # some are 0
    slots = None if isinstance(rule, ops.LaborImportanceRule) else torch.arange(12) % 3
    return ops.sample_hop(graph.indptr, graph.indices, torch.arange(12), rule, 7, weights=chances, slots=slots)


def hop_without(rule: ops.Rule, *, weighted: bool = False) -> Any:
    return ops.sample_hop(
        csc().indptr,
        csc().indices,
        torch.arange(50),
        rule,
        11,
        weights=weights() if weighted else None,
        excluded=excluded(),
    )


def typed_hop_without() -> Any:
    rule = ops.ByRelation((ops.NeighborRule(4), ops.LaborRule(3), ops.LaborRule(3)))
    return ops.sample_hop(
        rows().row_ptr, csc().indices, torch.arange(50), rule, 11, rows=rows(), excluded=excluded(typed=True)
    )


def edges_of_pairs(*, in_trees: bool) -> Any:
    """Many of the hub, some twice, of which a third is wanted by id."""
    destinations = torch.cat([drawn(100, seed=3), torch.full((80,), 7)])
    return ops.find_edges(
        csc().indptr,
        csc().indices,
        drawn(180, high=20, seed=4),
        destinations,
        slots=drawn(180, high=5, seed=5) if in_trees else None,
        wanted=drawn(180, high=1100, seed=6) if in_trees else None,
    )


def hop_without_by_tree(rule: ops.Rule) -> Any:
    slots = drawn(50, high=4, seed=7)
    found = ops.find_edges(
        csc().indptr, csc().indices, drawn(300, seed=8), drawn(300, seed=9) % 50, slots=drawn(300, high=4)
    )
    return ops.sample_hop(csc().indptr, csc().indices, torch.arange(50), rule, 11, slots=slots, excluded=found)


def negatives(weight: Any, **named: Any) -> Any:
    """Of sources that have edges to most nodes, as of others."""
    target = torch.cat([torch.arange(NUM_NODES - 1), torch.full((90,), 40), drawn(60)])
    graph = ops.coo_to_csc(torch.cat([torch.full((NUM_NODES - 1,), 2), drawn(150, seed=1)]), target, NUM_NODES)
    counts = torch.tensor([5, 0, 3, 20, 9])
    return ops.draw_negatives(graph.indptr, graph.indices, counts, key=5, weight=weight, **named)


def before_bounds() -> list[torch.Tensor]:
    numbers = drawn(300).sort().values
    return [count_below(numbers, drawn(90, seed=1), strictly=strictly) for strictly in (False, True)]


def tables() -> torch.Tensor:
    sizes = ops.TierSizes(replicated=9, interleaved=20, num_devices=2, host=11)
    table, row = ops.locate_rows(
        torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(3)), drawn(200), sizes
    )
    parts = [torch.rand(NUM_NODES, 5, generator=torch.Generator().manual_seed(part)) for part in range(4)]
    out = torch.zeros(200, 5)
    ops.gather_tables(parts, table, row, out)
    return out


def added() -> torch.Tensor:
    rows = torch.rand(300, 7, generator=torch.Generator().manual_seed(4))
    return ops.scatter_add_rows(torch.zeros(NUM_NODES, 7), drawn(300), rows)


def fetched(rule: ops.Rule) -> Any:
    rows = ops.fetch_rows(csc().indptr, csc().indices, torch.arange(40))
    return rows.indptr, rows.indices, ops.sample_fetched(rows, rule, 4)


def normal(*size: int) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(6))


def reduced(reduce: Any, *, weighted: bool) -> list[torch.Tensor]:
    """Three heads, there and back to rows and weights."""
    graph = small_csc()
    x = normal(20, 3, 5).requires_grad_()
    weight = normal(len(graph.indices), 3).requires_grad_() if weighted else None
    found = ops.aggregate_with_grad(graph.indptr, graph.indices, x, reduce=reduce, weight=weight)
    return [found, *torch.autograd.grad((found * found.detach()).sum(), [x] if weight is None else [x, weight])]


def attended(heads: int) -> list[torch.Tensor]:
    """With edge scores and dropout, there and back to all that has gradients."""
    graph = small_csc()
    shapes = (20, heads, 9), (20, heads), (20, heads), (len(graph.indices), heads)
    inputs = [normal(*shape).requires_grad_() for shape in shapes]
    weight = normal(len(graph.indices)).abs()
    scores = ops.AttentionScores(*inputs[1:], weight, dropout=ops.AttentionDropout(0.4, 9))
    found = ops.attend_with_grad(graph.indptr, graph.indices, inputs[0], scores)
    return [found, *torch.autograd.grad((found * found.detach()).sum(), inputs)]


def looked_up(width: int) -> list[torch.Tensor]:
    """Three reads through a cache of features; only what stands in for a GPU has one."""
    index, source = ops.SetIndex(64, torch.device("cpu")), torch.rand(NUM_NODES * 5, width)
    held, found = torch.zeros(index.num_slots, width), []
    for number in range(3):
        ids = drawn(90, high=len(source), seed=number)
        lookup = index.look_up(ids, [drawn(50, high=len(source), seed=number + 1)])
        rows = gather_cached(held, lookup, source, ids)
        assert torch.equal(rows, source[ids])
        found += [lookup.slots, lookup.fills]
    return found


CASES: dict[str, Callable[[], Any]] = {
    "gather": lambda: ops.gather_rows(torch.arange(NUM_NODES * 100.0).view(NUM_NODES, 100), drawn(90)),
    "gather short": lambda: ops.gather_rows(torch.arange(NUM_NODES * 3.0).view(NUM_NODES, 3), drawn(90)),
    "tables": tables,
    "scatter": added,
    "owners": lambda: ops.hash_owners(torch.arange(500), 7),
    "dropout": lambda: ops.dropout_mask(5, torch.arange(90), 33, 0.4),
    "unique": lambda: ops.unique_and_inverse(drawn(500)),
    "compact": lambda: ops.compact(torch.arange(20), drawn(300)),
    # Ids that follow each other would all have slots of their own.
    "compact, all new": lambda: ops.compact(torch.arange(20), drawn(600, high=2**40)),
    **{name: lambda rule=rule: hop(rule) for name, rule in RULES.items()},
    **{f"{name} in slots": lambda rule=rule: hop(rule, slotted=True) for name, rule in RULES.items()},
    **{f"{name} by weight": lambda rule=rule: hop(rule, weighted=True) for name, rule in RULES.items()},
    "labor of hubs": lambda: hubs(ops.LaborRule(5)),
    "poisson of hubs": lambda: hubs(ops.LaborRule(5, exact=False)),
    "hubs by weight": lambda: hubs(ops.NeighborRule(40), weighted=True),
    "most of hubs by weight": lambda: hubs(ops.NeighborRule(1900), weighted=True),
    "labor of hubs by weight": lambda: hubs(ops.LaborRule(5), weighted=True),
    "poisson of hubs by weight": lambda: hubs(ops.LaborRule(5, exact=False), weighted=True),
    "importance of hubs": lambda: hubs(ops.LaborImportanceRule(5, 2)),
    "importance of hubs by weight": lambda: hubs(ops.LaborImportanceRule(5, "*"), weighted=True),
    "importance": lambda: hop(ops.LaborImportanceRule(3, 2)),
    "importance by weight": lambda: hop(ops.LaborImportanceRule(3, "*"), weighted=True),
    "fused": lambda: fused([ops.NeighborRule(4), ops.LaborRule(3)]),
    "fused, rows first": fused_behind_fetches,
    "fused, by guess": lambda: fused([ops.LaborRule(4, exact=False), ops.LaborImportanceRule(3, "*")]),
    "fused, new": lambda: fused([ops.LaborRule(4), ops.NeighborRule(3)], "new", weighted=True),
    "typed": lambda: typed_hop(*[ops.NeighborRule(4)] * 3),
    "typed, of several rules": lambda: typed_hop(ops.NeighborRule(4), ops.LaborRule(3), ops.NeighborRule(4)),
    "typed, some with weights": lambda: typed_hop(
        ops.LaborRule(4), ops.NeighborRule(3), ops.LaborRule(2), weighted=True
    ),
    "typed, fused": lambda: typed_fused([ops.NeighborRule(4), ops.LaborImportanceRule(2, 2)]),
    "typed, fused, new": lambda: typed_fused([ops.LaborRule(4), ops.NeighborRule(-1)], "new"),
    "trees": lambda: trees([ops.NeighborRule(4), ops.LaborRule(3)]),
    "trees, new": lambda: trees([ops.LaborRule(4, exact=False), ops.NeighborRule(3)], "new", weighted=True),
    "trees, latest": lambda: trees([ops.LatestRule(4), ops.LatestRule(3)]),
    "without edges": lambda: hop_without(ops.NeighborRule(4)),
    "without edges, by weight": lambda: hop_without(ops.LaborRule(4), weighted=True),
    "without edges, typed": typed_hop_without,
    "edges of pairs": lambda: edges_of_pairs(in_trees=False),
    "edges of pairs in trees": lambda: edges_of_pairs(in_trees=True),
    "without edges of trees": lambda: hop_without_by_tree(ops.LaborRule(4)),
    "negatives": lambda: negatives(None),
    "negatives without edges": lambda: negatives(None, reject=torch.tensor([2, 2, 9, 2, 30])),
    "negatives by degree": lambda: negatives("degree", reject=torch.tensor([2, 2, 9, 2, 30])),
    "negatives by weight": lambda: negatives(
        torch.arange(1.0, NUM_NODES + 1).double().cumsum(0),
        reject=torch.tensor([2, 2, 9, 2, 30]),
        order=torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(3)),
        prefix=torch.tensor([60, 0, 50, 60, 40]),
    ),
    "numbers below": before_bounds,
    "fetched": lambda: fetched(ops.LaborRule(3)),
    "sums": lambda: reduced("sum", weighted=False),
    "means by weight": lambda: reduced("mean", weighted=True),
    "extremes by weight": lambda: reduced("max", weighted=True),
    "attention of a head": lambda: attended(1),
    "attention of five heads": lambda: attended(5),
}


def parts(value: Any) -> Iterator[Any]:
    """What a result is made of."""
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from parts(one)
    else:
        yield value


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return one == other


@pytest.mark.slow
@pytest.mark.combinations(14)
@pytest.mark.parametrize("name", CASES)
def test_all_have_the_bits_of_the_cpu(name):
    expected = [*parts(CASES[name]())]
    for schedule in range(NUM_SCHEDULES):
        backend = StandIn(seed=schedule)
        with stand_in(backend):
            found = [*parts(CASES[name]())]
        assert backend.launches
        assert len(found) == len(expected)
        assert all(map(same, found, expected))


def test_the_first_fault_is_found():
    """In whichever order threads find theirs."""
    ids = torch.arange(500)
    ids[100:] = -1
    for schedule in range(NUM_SCHEDULES):
        with stand_in(StandIn(seed=schedule)), pytest.raises(Fault, match="no row, item 100"):
            check_ids(ids, NUM_NODES * 10)


@pytest.mark.slow
@pytest.mark.parametrize("width", [3, 90])
def test_caches_are_the_same(width):
    torch.manual_seed(0)
    runs = []
    for schedule in range(NUM_SCHEDULES):
        with stand_in(StandIn(seed=schedule)):
            runs.append(looked_up(width))
    assert all(all(map(torch.equal, run, runs[0])) for run in runs)


@pytest.mark.parametrize("blends", [False, True])
def test_variates_are_the_same(blends):
    nodes, numbers = drawn(300, high=2**40), drawn(300, high=3)
    keys = _native.VariateKeys(3, 2**63 + 5, 2, 7)
    found = _native.labor_variates(keys if blends else 3, nodes.numpy(), numbers.numpy().astype(np.uint32))
    twins = Variates(3, 2**63 + 5, True, keys.cosine, keys.sine) if blends else Variates(3)
    for schedule in range(NUM_SCHEDULES):
        with stand_in(StandIn(seed=schedule)):
            variates = labor_variates(twins, nodes, numbers)
        assert np.array_equal(variates.numpy().view(np.uint64), found)


def test_no_kernel_is_left_out():
    backend = StandIn()
    with stand_in(backend):
        for run in CASES.values():
            run()
        looked_up(3)
        looked_up(90)
        labor_variates(Variates(3), drawn(3), drawn(3))
    launched = {name.partition("<")[0].removeprefix("headrace::") for name in backend.launches}
    assert set(KERNELS) - launched == set()
