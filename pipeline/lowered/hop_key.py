"""The key that a hop of a batch takes its randomness from."""

from __future__ import annotations

from headrace.ops.random.dependency import BlendedKey, dependent_key
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.settings import RunSettings


def hop_key(batch: MiniBatch, settings: RunSettings, key_layer: int, batch_dependency: float) -> int | BlendedKey:
    """Return it: a function of the plan's seed and of which batch it is, whoever makes it and in whatever order."""
    return dependent_key(settings.seed, batch.epoch, batch.index, key_layer, batch_dependency)
