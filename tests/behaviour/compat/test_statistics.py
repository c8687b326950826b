"""The laws of what is drawn, and what decides it (peers.md, part A, section 5, 11 to 13)."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chisquare
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader

from headrace.pyg import NeighborLoader, Sampler


def stars(num_stars, degree, **attributes):
    """Return stars whose centres are the first nodes; edge i of a star has the id star * degree + i."""
    centres = torch.arange(num_stars).repeat_interleave(degree)
    leaves = num_stars + torch.arange(num_stars * degree)
    return Data(edge_index=torch.stack([leaves, centres]), num_nodes=num_stars * (degree + 1), **attributes)


def picks(num_stars, degree, fanout, *, replace=False, weight_attr=None, **attributes):
    """Return which edge of its star each pick is, [num_stars, fanout]."""
    (batch,) = NeighborLoader(
        stars(num_stars, degree, **attributes),
        [fanout],
        input_nodes=torch.arange(num_stars),
        batch_size=num_stars,
        replace=replace,
        weight_attr=weight_attr,
        seed=4,
    )
    return (batch.e_id % degree).reshape(num_stars, -1)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(
    ("degree", "fanout", "num_stars"), [(3, 2, 3000), (5, 3, 3000), (1000, 10, 400), (40_000, 200, 5)]
)
def test_peers_11_uniform(degree, fanout, num_stars, replace):
    found = picks(num_stars, degree, fanout, replace=replace)
    counts = torch.histc(found.double(), bins=min(degree, 50), min=0, max=degree)
    assert chisquare(counts).pvalue > 1e-3
    if not replace:
        assert all(len(row.unique()) == fanout for row in found)


def test_peers_11_subsets():
    """All two of five are equally likely, and none is left out."""
    low, high = picks(6000, 5, 2).sort(1).values.unbind(1)
    counts = torch.bincount(low * 5 + high, minlength=25)
    counts = counts[counts > 0]
    assert len(counts) == 10
    assert chisquare(counts).pvalue > 1e-3


def test_peers_11_fanouts_of_a_degree_and_above_take_all():
    for fanout in (4, 9, -1):
        assert torch.equal(picks(6, 4, fanout), torch.arange(4).expand(6, 4))


@pytest.mark.parametrize("replace", [False, True])
def test_peers_12_weights(replace):
    weight = torch.tensor([0.0, 1, 2, 5]).repeat(3000)
    found = picks(3000, 4, 1, replace=replace, weight_attr="w", w=weight)
    counts = torch.bincount(found.flatten(), minlength=4)
    assert counts[0] == 0
    assert chisquare(counts[1:], torch.tensor([1, 2, 5]) * counts.sum() / 8).pvalue > 1e-3


def test_peers_12_weights_of_zero():
    """Edges of weight 0 are never drawn, also where there are no others."""
    weight = torch.tensor([0.0, 0, 0, 1])
    (batch,) = NeighborLoader(stars(2, 2, w=weight), [2], input_nodes=torch.arange(2), batch_size=2, weight_attr="w")
    assert batch.e_id.tolist() == [3]


def bits(loader):
    return [torch.cat([batch.n_id, batch.e_id, batch.input_id]) for batch in loader]


def same(left, right):
    return len(left) == len(right) and all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("options", [{"num_workers": 1}, {"num_workers": 4}, {"prefetch": False}, {"num_threads": 1}])
def test_peers_13_workers_change_nothing(data, options):
    wanted = bits(NeighborLoader(data, [3, 2], batch_size=16, shuffle=True, seed=9))
    assert same(bits(NeighborLoader(data, [3, 2], batch_size=16, shuffle=True, seed=9, **options)), wanted)


def test_peers_13_seeds(data):
    def made(**options):
        return NeighborLoader(data, [3, 2], batch_size=16, shuffle=True, **options)

    torch.manual_seed(5)
    loader = made()
    first, second = bits(loader), bits(loader)
    assert not same(first, second), "the next epoch"
    torch.manual_seed(5)
    assert same(bits(made()), first)
    assert same(bits(made(seed=5)), first)
    assert same(bits(made(generator=torch.Generator().manual_seed(5))), first)
    assert not same(bits(made(seed=6)), first)
    assert same(first, bits(made(seed=5)))
    torch.manual_seed(6)
    assert not same(bits(made()), first)


def test_peers_13_the_generator_of_torch_stays(data):
    state = torch.get_rng_state()
    bits(NeighborLoader(data, [3], batch_size=16, shuffle=True))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_peers_13_pygs_loader_with_our_sampler(data, num_workers):
    """With a seed, worker processes change nothing; without one torch's seed decides, and each has a stream."""

    def made(seed):
        return NodeLoader(data, Sampler(data, [2, 2], seed=seed), batch_size=20, num_workers=num_workers)

    wanted = bits(NodeLoader(data, Sampler(data, [2, 2], seed=3), batch_size=20))
    assert same(bits(made(3)), wanted)
    torch.manual_seed(1)
    first, second = bits(made(None)), bits(made(None))
    torch.manual_seed(1)
    assert same(bits(made(None)), first)
    assert not same(first, second)


def test_the_epoch_of_a_sampler_with_a_seed(data):
    sampler = Sampler(data, [2], seed=3)
    first = bits(NodeLoader(data, sampler, batch_size=20))
    assert same(bits(NodeLoader(data, sampler, batch_size=20)), first)
    sampler.set_epoch(1)
    assert not same(bits(NodeLoader(data, sampler, batch_size=20)), first)
