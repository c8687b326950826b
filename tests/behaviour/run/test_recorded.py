"""Bits, counts and checkpoints recorded in earlier versions: a change of the code leaves them as they are."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from recorded_work import WORK

from plans import PLANS

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())


@pytest.mark.parametrize("name", RECORDED["batches"])
def test_batches_are_those_of_before(name):
    with PLANS[name]().loader() as loader:
        digests = "".join(batch.digest() for batch in loader)
    assert hashlib.sha256(digests.encode()).hexdigest()[:16] == RECORDED["batches"][name]


@pytest.mark.parametrize("name", RECORDED["states"])
def test_checkpoints_of_before_load(name):
    """Taken behind two batches, with the names of stages and the digests of their parameters as they were then."""
    with PLANS[name]().loader() as loader:
        loader.load_state_dict(RECORDED["states"][name])
        assert next(iter(loader)).digest() == RECORDED["behind"][name]


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED["work"])
def test_tiers_caches_ranks_and_shards_are_those_of_before(name):
    assert WORK[name]() == RECORDED["work"][name]
