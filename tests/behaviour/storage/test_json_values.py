"""Notes of a data set: those that are saved are read again, and equal; all others are refused before anything is."""

from __future__ import annotations

import collections
import enum

import numpy as np
import pytest
import torch

import headrace as hr

GRAPH = hr.Graph.from_coo([0, 1], [1, 0])


class Number(enum.IntEnum):
    ONE = 1


class Text(str, enum.Enum):
    A = "a"


def nested(levels: int) -> list:
    found: list = []
    for _ in range(levels):
        found = [found]
    return found


def circular() -> dict:
    found: dict = {}
    found["itself"] = [found]
    return found


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "",
        "\0 é 日本",
        -0.0,
        5e-324,
        10**38,
        np.float64(0.1),
        np.str_("a"),
        Number.ONE,
        Text.A,
        nested(60),
        collections.OrderedDict(a=[1, {"b": None}]),
        collections.defaultdict(int, a=1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_saved_is_read_again(tmp_path, value):
    hr.save_dataset(tmp_path / "d", GRAPH, notes={"a": value}, progress=False)
    assert hr.open_dataset(tmp_path / "d").notes == {"a": value}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), r"got nan at notes\['a'\]"),
        ([1, float("-inf")], r"got -inf at notes\['a'\]\[1\]"),
        (10**60, "an integer of more than 39 digits"),
        (-(10**39), "an integer of more than 39 digits"),
        ({1: 2}, "the key 1"),
        ({None: 2}, "the key None"),
        ({"b": [{1}]}, r"got a set at notes\['a'\]\['b'\]\[0\]; pass a sorted list"),
        (b"a", "a bytes"),
        ({1}, "a set"),
        (np.float32(1), r"a float32 .*\.item\(\)"),
        (np.int64(1), r"an? int64 .*\.item\(\)"),
        (np.bool_(True), "a bool"),
        (torch.ones(2), r"a Tensor .*\.tolist\(\)"),
        (1j, "a complex"),
        (object(), "a object"),
        ("\ud800", "Unicode"),
        ({"\ud83d\ude00": 1}, "Unicode"),
        (circular(), "more than 64 levels"),
        (nested(5000), "more than 64 levels"),
        ("x" * (70 << 20), "characters"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_would_be_read_as_something_else_is_refused(tmp_path, value, message):
    with pytest.raises(hr.InputError, match=message):
        hr.save_dataset(tmp_path / "d", GRAPH, notes={"a": value}, progress=False)
    assert not list(tmp_path.iterdir())
