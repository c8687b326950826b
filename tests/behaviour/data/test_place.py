"""Places: values with a text."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
import torch

import headrace as hr

CPU, DISK = hr.Place("cpu"), hr.Place("disk")

TEXTS = ["cpu", "pinned", "cuda", "cuda:0", "cuda:13", "peer", "disk", "rank:0", "rank:2", "meta"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_read_and_printed(text):
    place = hr.Place.parse(text)
    assert str(place) == text
    assert eval(repr(place), {"Place": hr.Place}) == place  # noqa: S307 - its own text
    assert pickle.loads(pickle.dumps(place)) == place  # noqa: S301


def test_places_compare_by_what_they_are():
    places = [hr.Place.parse(text) for text in TEXTS]
    assert len(set(places)) == len(TEXTS)
    assert [place for place in places if place == hr.Place("cuda", 0)] == [places[3]]
    assert (hr.Place("cpu"), hr.Place("disk")) == (CPU, DISK)
    with pytest.raises(dataclasses.FrozenInstanceError):
        CPU.kind = "disk"  # type: ignore[misc]


def test_devices_are_places():
    assert hr.Place.parse(torch.device("cuda", 1)) == hr.Place("cuda", 1)
    assert hr.Place.parse(torch.device("cpu", 0)) == CPU
    assert hr.Place.parse(torch.empty(1).device) == CPU


@pytest.mark.parametrize(
    "text",
    ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1:2", "cuda:128", "cuda:256", "rank", "cpu:0", "disk:1", "CPU"],
)
def test_other_texts_are_refused(text):
    with pytest.raises(hr.InputError, match=r"expected a place, one of cpu, pinned, cuda:i, peer, disk, rank:r, got"):
        hr.Place.parse(text)


@pytest.mark.parametrize("arguments", [("cuda", -1), ("cuda", True), ("rank",), ("pinned", 0), (3,), ("cuda:1",)])
def test_other_kinds_and_numbers_are_refused(arguments):
    with pytest.raises(hr.InputError, match="expected a place"):
        hr.Place(*arguments)
    with pytest.raises(hr.InputError, match="got int"):
        hr.Place.parse(3)  # type: ignore[arg-type]


def test_pinned_memory_serves_as_cpu_memory():
    assert {str(place) for place in map(hr.Place.parse, TEXTS) if place.serves(CPU)} == {"cpu", "pinned"}
    assert not CPU.serves(hr.Place("pinned"))
    assert hr.Place("cuda", 1).serves(hr.Place("cuda", 1))
    assert not hr.Place("cuda", 1).serves(hr.Place("cuda", 0))
