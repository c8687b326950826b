"""Random streams of functions of the user, in the place of those of PyG's worker processes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from headrace.ops.random.rng import USER, stream_key
from headrace.pipeline.compat.pyg.finish import Finish
from headrace.pipeline.plan.stage import Counts, Runner, RunSettings


@dataclass(frozen=True, eq=False, repr=False)
class FinishAlone(Finish):
    """Pass a batch through a function whose draws seed, epoch and batch number name, and nobody else sees.

    The generators of torch, NumPy and Python are those of the process, so this runs in the thread of the training loop:
    in another one its draws and those of the loop would be mixed as the clock says.

    Parameters
    ----------
    number
        Which of the functions of a batch it is: each has a stream.
    """

    keyed: ClassVar[bool] = True

    number: int = 0

    def runner(self, settings: RunSettings) -> Runner:
        """Return the function that does it."""

        def run(batch: Any, epoch: int, index: int) -> tuple[Any, Counts]:
            with own_stream(stream_key(settings.seed, epoch, index, self.number, USER)):
                return self.function(batch, settings.num_threads), {}

        return run


@contextmanager
def own_stream(key: int) -> Iterator[None]:
    """Let the generators of torch, NumPy and Python begin at a key, and put them back as they were."""
    # Those of GPUs are there once something has used one.
    generators = [torch.default_generator, *torch.cuda.default_generators]
    states = [generator.get_state() for generator in generators]
    of_numpy, of_python = np.random.get_state(legacy=False), random.getstate()  # noqa: NPY002 - the one that users draw from
    try:
        for generator in generators:
            generator.manual_seed(key)
        np.random.seed([key & 0xFFFFFFFF, key >> 32])  # noqa: NPY002
        random.seed(key)
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
        np.random.set_state(of_numpy)  # noqa: NPY002
        random.setstate(of_python)
