"""Seeds of several types have labels by type: `batch.y` is a dictionary, each in the order of its type's seeds."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torchdata import nodes

import headrace as hr

from plans import typed_graph


def store():
    """Labels that name their node: of "a" class numbers, of "b" rows of two floats."""
    of_b = torch.stack([torch.arange(70.0), -torch.arange(70.0)], 1)
    return hr.FeatureStore(node={"a": {"y": torch.arange(120) * 10}, "b": {"z": of_b}})


def plan(*, items=None, one=None, **changes):
    items = {"a": torch.arange(0, 120, 3), "b": torch.tensor([5, 69, 5, 0])} if items is None else items
    arguments = {"batch_size": 11, "shuffle": True, "seed": 3, **changes}
    sampled = hr.ItemSampler(items, **arguments).sample_neighbor(typed_graph(), [3, 2])
    return sampled.fetch_feature(store() if one is None else one, labels={"b": "z", "a": "y"})


def expected(seeds, name):
    first, last = {"a": (0, 120), "b": (120, 190)}[name]
    ids = seeds[(seeds >= first) & (seeds < last)] - first
    return ids * 10 if name == "a" else torch.stack([ids.float(), -ids.float()], 1)


@pytest.mark.parametrize("more", [{}, {"prefetch": False}, {"lookahead": False}], ids=str)
def test_each_type_has_the_labels_of_its_seeds(more):
    seen = 0
    for batch in plan().loader(**more):
        assert list(batch.y) == ["b", "a"]
        for name, labels in batch.y.items():
            assert torch.equal(labels, expected(batch.seeds, name))
            assert torch.equal(batch.types.of(batch.seeds).places(name).long(), of_type(batch.seeds, name))
            seen += len(labels)
    assert seen == 44


def of_type(seeds, name):
    return ((seeds < 120) if name == "a" else (seeds >= 120)).nonzero().squeeze(1)


def test_a_batch_without_seeds_of_a_type_has_none_of_its_labels():
    (batch,) = plan(items={"a": [4], "b": []}).loader()
    assert batch.y["a"].tolist() == [40]
    assert batch.y["b"].shape == (0, 2)


def test_from_disk(tmp_path):
    """Reads ahead of batches, source by source, give the same labels."""
    files = {"a": "y", "b": "z"}
    on_disk = {}
    for name, label in files.items():
        rows, _ = store().node[name, label].read(torch.arange(store().node[name, label].num_rows))
        np.save(tmp_path / f"{label}.npy", rows.numpy())
        on_disk[name] = {label: hr.DiskFeature(tmp_path / f"{label}.npy")}
    with plan(one=hr.FeatureStore(node=on_disk)).loader(tiered_cache=False) as loader:
        assert "fetch_ahead" in loader.explain()
        found = [batch.digest() for batch in loader]
    assert found == [batch.digest() for batch in plan().loader()]


def test_a_batch_moves_pickles_prints_and_is_told_apart():
    batch = next(iter(plan().loader()))
    again = pickle.loads(pickle.dumps(batch))  # noqa: S301 - our own
    assert again.digest() == batch.digest() == batch.to("cpu").digest()
    assert torch.equal(again.y["b"], batch.y["b"])
    assert "y['a']=int64[" in repr(batch)
    changed = batch.replace(y={**batch.y, "a": batch.y["a"] + 1})
    assert changed.digest() != batch.digest()
    assert changed.num_bytes == batch.num_bytes
    with pytest.raises(TypeError):
        batch.y["a"] = None


def test_ranks_have_the_labels_of_their_shares():
    count = 0
    for rank in range(2):
        for batch in plan().loader(rank=rank, world_size=2):
            for name in ("a", "b"):
                assert torch.equal(batch.y[name], expected(batch.seeds, name))
                count += len(batch.y[name])
    assert count == 44


def test_labels_decide_what_a_checkpoint_is_of():
    state = plan().loader().state_dict()
    other = store()
    other = hr.FeatureStore(node={"a": {"y": torch.arange(120)}, "b": {"z": other.node["b", "z"]}})
    plan().loader().load_state_dict(state)
    with pytest.raises(hr.HeadraceError):
        plan(one=other).loader().load_state_dict(state)


@pytest.mark.parametrize("size", [11, 44])
def test_to_pyg_has_them_on_their_types(size):
    """One for each distinct seed, in the order of the type's first rows; one seed comes twice in a batch of all."""
    for batch in plan(batch_size=size).loader():
        data = batch.to_pyg()
        for name in ("a", "b"):
            assert torch.equal(data[name].y[data[name].seed_index], batch.y[name])
            ids = data[name].n_id[: data[name].batch_size]
            assert torch.equal(data[name].y, expected(ids + (0 if name == "a" else 120), name))


def test_to_pyg_of_a_batch_without_seeds_of_a_type():
    """It has what other batches have of that type, and nothing in it: a loop over types need not ask."""
    (batch,) = plan(items={"a": [4], "b": []}).loader()
    data = batch.to_pyg()
    assert (data["a"].batch_size, data["b"].batch_size, data["lonely"].batch_size) == (1, 0, 0)
    for name in ("input_id", "seed_index"):
        assert data["b"][name].tolist() == []
    assert data["b"].y.shape == (0, 2)
    assert "y" not in data["lonely"]


def test_to_pyg_refuses_two_labels_of_one_seed():
    batch = next(iter(plan(items={"a": [1, 2], "b": [5, 5]}, shuffle=False).loader()))
    twice = batch.replace(y={**batch.y, "b": torch.tensor([[1.0, 2.0], [1.0, 3.0]])})
    with pytest.raises(hr.InputError, match="seed 125 comes twice with different labels"):
        twice.to_pyg()


@pytest.mark.parametrize("items", [{"a": [1], "lonely": [1]}, [1, 195]], ids=str)
def test_refuses_seeds_of_a_type_without_a_label(items):
    with pytest.raises(hr.InputError, match="expected seeds of type 'b' or 'a', of which 'z' or 'y' is a label"):
        plan(items=items).loader()


def test_refuses_them_when_they_show_with_a_batch():
    source = hr.ext.NodeSource(nodes.IterableWrapper([torch.tensor([1, 195])]), seed=1)
    late = source.sample_neighbor(typed_graph(), [1]).fetch_feature(store(), labels={"a": "y", "b": "z"})
    with pytest.raises(hr.InputError, match="expected seeds of type 'a' or 'b'"):
        next(iter(late.loader(prefetch=False)))


def test_refuses_names_that_are_not_there():
    sampled = hr.ItemSampler({"a": [1]}, seed=1).sample_neighbor(typed_graph(), [1])
    with pytest.raises(hr.InputError, match=r"no node feature 'b', 'y'"):
        sampled.fetch_feature(store(), labels={"a": "y", "b": "y"})
