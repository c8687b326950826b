"""Room by what minibatches before took: whatever that was, blocks are those of the CPU, and faults are named."""

from __future__ import annotations

import re

import pytest
import torch

from headrace.cuda.backend import stand_in
from headrace.cuda.faults import Faults
from headrace.cuda.numbering import Numbering
from headrace.ops import (
    BlockSampler,
    InputError,
    LaborImportanceRule,
    LaborRule,
    NeighborRule,
    Trees,
)

from cuda_host.stand_in import StandIn
from plans import graph

#: Rules whose picks are not bounded, or not as tightly as they are.
RULES = {
    "all": NeighborRule(-1),
    "poisson": LaborRule(3, exact=False),
    "star": LaborImportanceRule(2, "*"),
    "two rounds": LaborImportanceRule(2, 2),
    "exact": LaborRule(3),
}


@pytest.fixture
def backend():
    """Let the CPU stand in for a GPU; memory that nobody has written holds no number."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    one = StandIn()
    with stand_in(one):
        yield one
    torch.use_deterministic_algorithms(False)


def assert_same(found, right):
    assert torch.equal(found.n_id, right.n_id)
    assert found.num_sampled_nodes == right.num_sampled_nodes
    assert found.num_sampled_edges == right.num_sampled_edges
    for hop, other in zip(found.hops, right.hops, strict=True):
        assert (hop.num_dst, hop.num_src) == (other.num_dst, other.num_src)
        for name in ("indptr", "indices", "edge_ids", "weights"):
            one, expected = getattr(hop, name), getattr(other, name)
            assert (one is None) == (expected is None)
            assert one is None or torch.equal(one, expected)


@pytest.mark.slow
@pytest.mark.combinations(6)
@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
@pytest.mark.parametrize("expand", ["all", "new"])
@pytest.mark.parametrize("rule", RULES)
def test_blocks_are_those_of_the_cpu_after_any_others(rule, expand, weighted, backend):
    """Few seeds before many, whose arrays do not fit at first, then few and none, which have too much room."""
    whole = graph()
    arrays = (whole.indptr, whole.indices, whole.edge_ids, whole.edge_attrs_csc["weight"] if weighted else None)
    order = torch.randperm(whole.num_nodes, generator=torch.Generator().manual_seed(2))
    there, here = BlockSampler(*arrays), None
    for number, seeds in enumerate((order[:3], order[:90], order[90:], order[:2], order[:0], order[50:140])):
        how = {"rules": [RULES[rule]] * 2, "keys": [number, number + 1], "expand": expand}
        found = there.sample(seeds, **how)
        with stand_in(None):
            here = here or BlockSampler(*arrays)
            right = here.sample(seeds, **how)
        assert_same(found, right)


def test_edges_are_numbered_in_windows_after_any_others(backend):
    """By tables that are made for each frontier."""
    whole = graph()
    times = torch.arange(whole.num_edges)
    there, here = (BlockSampler(whole.indptr, whole.indices, times=times) for _ in range(2))
    for number, size in enumerate((2, 60, 5)):
        seeds, slots = torch.arange(size), torch.arange(size)
        bounds = torch.full((size,), 1200)
        trees = Trees(slots, size, streams=slots, bounds=bounds, lows=bounds - 900)
        how = {"rules": [LaborRule(3)] * 2, "keys": [number, 5], "trees": trees}
        found = there.sample(seeds, **how)
        with stand_in(None):
            right = here.sample(seeds, **how)
        assert_same(found, right)
        assert torch.equal(found.slots, right.slots)


@pytest.mark.parametrize("fits", [True, False], ids=["with room", "without"])
@pytest.mark.parametrize("rule", RULES)
def test_faults_are_named_in_minibatches_after_others(rule, fits, backend):
    """As in the first one: what is wrong, of which seed, in which stage."""
    whole = graph()
    indices = whole.indices.clone()
    damaged = 60
    indices[whole.indptr[damaged] : whole.indptr[damaged + 1]] = 4_000  # whichever is picked
    sampler = BlockSampler(whole.indptr, indices)
    sound = torch.tensor([node for node in range(190) if node not in (7, damaged)])
    sound = sound[[damaged not in indices[whole.indptr[one] : whole.indptr[one + 1]] for one in sound.tolist()]]
    many = torch.cat([sound[:20], torch.tensor([damaged])])

    def sample(seeds, num_hops=1):
        return sampler.sample(seeds, [RULES[rule]] * num_hops, [3] * num_hops)

    for _ in range(2):
        sample(sound[:20] if fits else sound[:1])
    message = "BlockSampler.sample: indices hold 4000, which is not a node id: expected 0 <= id < num_nodes = 200"
    with pytest.raises(InputError, match=re.escape(message)):
        sample(many)
    for seeds, message in (
        (torch.cat([sound[:20], sound[3:4]]), f"seeds[3] and seeds[20] are both {int(sound[3])}"),
        (torch.cat([sound[:20], torch.tensor([200])]), "seeds[20] = 200 is not a node of the graph"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            sample(seeds)
    assert sample(sound[:20]).num_sampled_nodes[0] == 20  # nothing is left of it


@pytest.mark.parametrize("fanout", [40, -1], ids=["bounded", "by guess"])
def test_without_memory_for_more_room_arrays_have_their_exact_sizes(fanout, backend, monkeypatch):
    """With one warning, and the next minibatch does not try it again."""
    whole, tried = graph(), []
    make = torch.empty

    def empty(*size, **how):
        made = make(*size, **how)
        if made.numel() > most:
            tried.append(made.numel())
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate")
        return made

    there, here = (BlockSampler(whole.indptr, whole.indices) for _ in range(2))
    how = {"rules": [NeighborRule(fanout)] * 2, "keys": [1, 2]}
    with stand_in(None):
        right = here.sample(torch.arange(60), **how)
    most = max(right.num_sampled_edges)
    found = [there.sample(torch.arange(60), **how)] if fanout < 0 else []
    monkeypatch.setattr(torch, "empty", empty)
    with pytest.warns(UserWarning, match="with more room than edges do not fit: CUDA out of memory") as warned:
        found += [there.sample(torch.arange(60), **how) for _ in range(2)]
    assert (len(warned), len(tried)) == (1, 1)
    for one in found:
        assert_same(one, right)
    most = 1
    with pytest.raises(torch.cuda.OutOfMemoryError):  # there is no other way
        there.sample(torch.arange(60), **how)


def test_a_table_for_ids_is_made_for_those_of_minibatches_before(backend, monkeypatch):
    """And anew where it was too small: numbers are those of the CPU in any case."""
    made = []

    class Noted(Numbering):
        def __init__(self, room, device, expected=None):
            super().__init__(room, device, expected)
            made.append(self.num_slots)

    monkeypatch.setattr("headrace.cuda.blocks.Numbering", Noted)
    num_nodes = 600
    indptr = 4 * torch.arange(num_nodes + 1)
    indices = (torch.arange(4 * num_nodes) % 4).int()  # all have the same four neighbours
    there = BlockSampler(indptr, indices)
    with stand_in(None):
        here = BlockSampler(indptr, indices)
    seeds = torch.arange(num_nodes)
    for number, some in enumerate((seeds[:1], seeds[:2], seeds, seeds[1:2])):
        how = {"rules": [NeighborRule(4)] * 4, "keys": [number] * 4}
        found = there.sample(some, **how)
        with stand_in(None):
            assert_same(found, here.sample(some, **how))
    first, second, too_small, anew, last = made
    assert second < first
    assert too_small < num_nodes < anew == last


def test_a_table_that_hops_fill_is_made_anew(backend):
    """Where seeds fit and are no fault, and their neighbours are too many."""
    drawn = torch.randint(300, 600, (1200,), generator=torch.Generator().manual_seed(1))
    indices = torch.cat([torch.arange(1200) % 4, drawn]).int()
    indptr = 4 * torch.arange(601)
    there = BlockSampler(indptr, indices)
    with stand_in(None):
        here = BlockSampler(indptr, indices)
    for seed in (0, 599):
        how = {"rules": [NeighborRule(4)] * 6, "keys": [3] * 6}
        found = there.sample(torch.tensor([seed]), **how)
        with stand_in(None):
            assert_same(found, here.sample(torch.tensor([seed]), **how))
    assert len(found.n_id) > 256


def test_ids_beyond_a_full_table_are_told(backend):
    device = torch.device("cpu")
    numbering = Numbering(40, device, expected=1)
    faults = Faults(("repeated",), device, num_sizes=3)
    numbering.begin(torch.arange(1), faults.sizes[:1], faults.items)
    numbering.add(torch.arange(30), None, faults.sizes[:1], faults.sizes[1:])
    assert faults.check()[1] >= numbering.num_slots
    whole = Numbering(40, device)
    whole.begin(torch.arange(1), faults.sizes[:1], faults.items)
    local = whole.add(torch.arange(30).flip(0), None, faults.sizes[:1], faults.sizes[1:])
    assert local.tolist() == [*range(1, 30), 0]
    assert faults.check()[1] == 30 < whole.num_slots
