"""Owners as a part knows them: packed, and the places of its own nodes alone."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.pipeline.partition import part_owners
from headrace.pipeline.partition.node_owners import places_of
from headrace.pipeline.partition.part_owners import (
    PackedOwners,
    PartOwners,
    counts_of_owners,
    num_words,
    owned_by,
    packed,
)


@st.composite
def owners(draw) -> tuple[list[int], int]:
    num_parts = draw(st.sampled_from([1, 2, 3, 4, 5, 16, 17, 256, 257, 65536]))
    return draw(st.lists(st.integers(0, num_parts - 1), min_size=1, max_size=200)), num_parts


@given(given_owners=owners(), part=st.integers(0, 4))
def test_what_a_part_knows_is_what_the_partition_says(given_owners, part):
    listed, num_parts = given_owners
    whole, part = hr.Partition.of(listed, num_parts), part % num_parts
    words = torch.cat(list(packed(whole)))
    assert len(words) == num_words(len(listed), num_parts)
    by = PackedOwners(words, num_parts)
    every = torch.arange(len(listed))
    assert torch.equal(by.owner(every), whole.owner(every))
    assert torch.equal(owned_by(by, len(listed), part), whole.owned(part))
    assert counts_of_owners(by, len(listed), num_parts).tolist() == list(whole.sizes)
    known = PartOwners(by, part, whole.owned(part), whole.sizes, whole.content_digest())
    assert known == whole
    assert repr(known) == repr(whole)
    assert known.content_digest() == whole.content_digest()
    own = whole.owned(part)
    assert torch.equal(known.position(own), whole.position(own))
    places = places_of(known, every)
    assert torch.equal(places, torch.where(whole.owner(every) == part, whole.position(every), -1))
    assert torch.equal(known.bounds, whole.bounds)
    assert pickle.loads(pickle.dumps(known)) == known  # noqa: S301 - our own


@given(given_owners=owners(), data=st.data())
def test_nodes_of_a_type_are_as_those_of_all(given_owners, data):
    listed, num_parts = given_owners
    whole, part = hr.Partition.of(listed, num_parts), data.draw(st.integers(0, min(num_parts, 4) - 1))
    first = data.draw(st.integers(0, len(listed)))
    types = hr.Graph.from_coo([], [], node_types={"a": first, "b": len(listed) - first}).node_types
    by = PackedOwners(torch.cat(list(packed(whole))), num_parts)
    known = PartOwners(by, part, whole.owned(part), whole.sizes, whole.content_digest())
    for name in types.names:
        of_all, of_part = whole.of_type(types, name), known.of_type(types, name)
        own = of_all.owned(part)
        assert torch.equal(of_part.owned(part), own)
        assert torch.equal(of_part.owner(own), of_all.owner(own))
        assert torch.equal(places_of(of_part, own), of_all.position(own))


def test_places_of_other_parts_are_not_made_up():
    whole = hr.Partition.of([0, 1, 0, 1])
    known = PartOwners(whole, 0, whole.owned(0), whole.sizes, "")
    with pytest.raises(hr.InputError, match="expected nodes of part 0, got node 3 of another part"):
        known.position(torch.tensor([0, 3]))


def test_chunks_of_owners(monkeypatch):
    monkeypatch.setattr(part_owners, "CHUNK", 64)
    whole = hr.Partition.of(torch.arange(1000) * 7 % 5, 5)
    by = PackedOwners(torch.cat(list(packed(whole))), 5)
    assert torch.equal(by.owner(torch.arange(1000)), whole.owner(torch.arange(1000)))
    assert torch.equal(owned_by(by, 1000, 3), whole.owned(3))
