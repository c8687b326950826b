"""Numbers for samplers of users: variates of the streams that the contract names."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import ext
from headrace.ops import reference, stream_key
from headrace.ops.errors import InputError
from headrace.ops.random.rng import OWN
from headrace.ops.reference.random import slot_key, stream_variates

INT64 = st.integers(-(2**63), 2**63 - 1)
DRAWS = st.integers(0, 40)


def expected(key, ids, trees, draws):
    keys = [key if tree is None else slot_key(key, tree) for tree in trees]
    streams = [stream_variates(one, identifier % 2**64) for one, identifier in zip(keys, ids, strict=True)]
    variates = [next(islice(stream, draw, None)) for stream, draw in zip(streams, draws, strict=True)]
    return [reference.unit_interval(one) for one in variates]


@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**16 - 1),
    st.lists(st.tuples(INT64, INT64, DRAWS), max_size=6),
    DRAWS,
)
def test_equals_the_contract(seed, epoch, index, hop, elements, draw):
    ids, trees, draws = ([one[place] for one in elements] for place in range(3))
    given_ids, tree, each = (torch.tensor(one, dtype=torch.int64) for one in (ids, trees, draws))
    key = stream_key(seed, epoch, index, hop, OWN)
    alone, own = [None] * len(ids), [draw] * len(ids)
    for options, wanted in (
        ({}, expected(key, ids, alone, [0] * len(ids))),
        ({"draw": draw}, expected(key, ids, alone, own)),
        ({"draw": each}, expected(key, ids, alone, draws)),
        ({"tree": tree, "draw": each}, expected(key, ids, trees, draws)),
    ):
        values = ext.uniform(seed, epoch, index, given_ids, hop=hop, **options)
        assert values.dtype == torch.float64
        assert values.tolist() == wanted


def test_numbers_are_uniform_and_independent():
    ids = torch.arange(100_000)
    first, second = ext.uniform(3, 1, 2, ids), ext.uniform(3, 1, 2, ids, draw=1)
    for values in (first, second, ext.uniform(3, 1, 2, ids, tree=ids % 7), ext.uniform(3, 1, 2, ids, hop=1)):
        counts = np.histogram(values.numpy(), bins=50, range=(0, 1))[0]
        assert ((counts - 2000) ** 2 / 2000).sum() < 110  # 49 degrees of freedom: 1e-6 of such sums are larger
        if values is not first:
            assert abs(np.corrcoef(first.numpy(), values.numpy())[0, 1]) < 5 / len(ids) ** 0.5
    assert first.min() > 0
    assert first.max() < 1


def test_the_default_dtype_and_numpy_integers_change_nothing():
    before = ext.uniform(3, 1, 2, torch.arange(5), draw=3)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(ext.uniform(np.int64(3), 1, np.int32(2), torch.arange(5), draw=np.int64(3)), before)
    finally:
        torch.set_default_dtype(torch.float32)


IDS = torch.arange(3)
WRONG = {
    "ids of int32": (lambda: ext.uniform(1, 0, 0, IDS.int()), r"ids to be int64\[n\], got int32\[3\]; pass ids.to"),
    "a list": (lambda: ext.uniform(1, 0, 0, [1, 2]), r"ids to be int64\[n\], got list"),
    "two dimensions": (lambda: ext.uniform(1, 0, 0, IDS[None]), r"ids to be int64\[n\], got int64\[1, 3\]"),
    "other trees": (lambda: ext.uniform(1, 0, 0, IDS, tree=IDS[:2]), r"tree to be int64\[3\], got int64\[2\]"),
    "other draws": (lambda: ext.uniform(1, 0, 0, IDS, draw=IDS.float()), r"draw to be int64\[3\], got float32"),
    "no draw": (lambda: ext.uniform(1, 0, 0, IDS, draw=None), r"draw to be an integer or int64\[3\], got None"),
    "below 0": (lambda: ext.uniform(1, 0, 0, IDS, draw=IDS - 1), "draw to count from 0, .* got -1 to 1"),
    "too many": (lambda: ext.uniform(1, 0, 0, IDS, draw=2**33), "draw to count from 0, below"),
    "a seed": (lambda: ext.uniform(-1, 0, 0, IDS), "expected seed to be in"),
    "a hop": (lambda: ext.uniform(1, 0, 0, IDS, hop=2**16), "expected layer to be in"),
}


@pytest.mark.parametrize("what", WRONG)
def test_refusals(what):
    call, match = WRONG[what]
    with pytest.raises(InputError, match=match):
        call()
