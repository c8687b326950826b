"""Digests of plans, which identify the plan of a checkpoint."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from typing import Any

import numpy as np
import torch

from headrace.ops.text import utf8
from headrace.pipeline.data.digest import sampled_digest
from headrace.pipeline.plan.plan import Plan


def fingerprint(plan: Plan) -> dict[str, str]:
    """Return a digest per stage, keyed by stage name, that is the same in every process.

    Stages that have no say in what the minibatches hold (prefetch, copy_to) are left out, so that a checkpoint can be
    continued on another machine. Functions count with their name, code, defaults and what they close over.
    """
    stages = zip(plan.names, plan.stages, strict=True)
    return {name: digest_of(stage.decisive()) for name, stage in stages if stage.changes_batches}


def digest_of(value: Any) -> str:
    """Return a digest of a value, the same in every process."""
    digest = hashlib.blake2b(digest_size=8)
    _absorb(digest, value)
    return digest.hexdigest()


def _absorb(digest: hashlib.blake2b, value: Any) -> None:
    """Feed a value to a digest, framed by its type and length so that no two values feed the same stream."""
    # Only the contents of data count, so that a checkpoint is valid for a whole array and one in shards.
    kind = "data" if hasattr(value, "content_digest") else type(value).__name__
    digest.update(utf8(f"<{kind}"))
    if hasattr(value, "content_digest"):
        digest.update(utf8(value.content_digest()))
    elif isinstance(value, (torch.Tensor, np.ndarray)):
        digest.update(sampled_digest([("parameter", value)]).encode())
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            _absorb(digest, key)
            _absorb(digest, value[key])
    elif isinstance(value, (tuple, list)):
        for item in value:
            _absorb(digest, item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        _absorb(digest, {field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    elif isinstance(value, functools.partial):
        _absorb(digest, (value.func, value.args, value.keywords))
    elif isinstance(value, types.FunctionType):
        cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
        _absorb(digest, (value.__module__, value.__qualname__, value.__defaults__, value.__kwdefaults__, cells))
        _absorb_code(digest, value.__code__)
    elif isinstance(value, type) or not hasattr(value, "__dict__"):
        text = f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else repr(value)
        digest.update(utf8(f"{len(text)} {text}"))
    else:
        # Any other object: its class and its attributes.
        _absorb(digest, type(value))
        _absorb(digest, vars(value))
    digest.update(b">")


def _absorb_code(digest: hashlib.blake2b, code: types.CodeType) -> None:
    """Feed the code of a function to a digest: its instructions, names and constants."""
    digest.update(code.co_code)
    _absorb(digest, code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _absorb_code(digest, constant)
        else:
            _absorb(digest, constant)
