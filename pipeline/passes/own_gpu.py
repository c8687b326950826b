"""Name the GPU of this process in copies to ``"cuda"``, so that the plan that runs shows it.

Ranks that torchrun starts have a GPU each, by their number on the machine, unless the process chose another one.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.plan import Facts, Machine, Rule, Window
from headrace.pipeline.stages.copy_to import CopyTo


def _name(copy: CopyTo, facts: Facts, machine: Machine) -> Window | None:
    """Name the GPU where there are several."""
    del facts
    place = copy.moves_to
    if machine.gpus < 2 or place is None or place.kind != "cuda" or place.index is not None:
        return None
    return (replace(copy, device=f"cuda:{machine.current_gpu}"),)


RULES = (Rule("copy_to a GPU -> copy_to the GPU of this process", (CopyTo,), _name),)
