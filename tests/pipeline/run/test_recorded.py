"""Recorded bits and checkpoints: those of before the plan became a value of its own, by weight those of now."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

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
