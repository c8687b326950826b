"""Digests of plans, which identify the plan of a checkpoint."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from headrace.ops.errors import PlanError
from headrace.ops.text import utf8
from headrace.pipeline.data.digest import sampled_digest
from headrace.pipeline.plan.plan import Plan


def fingerprint(plan: Plan) -> dict[str, str]:
    """Return a digest per stage, keyed by stage name, that is the same in every process.

    Stages that have no say in what the minibatches hold (prefetch, copy_to) are left out, so that a checkpoint can be
    continued on another machine. Functions count with their name, code, defaults and what they close over, methods
    with the class of their object.

    Raises
    ------
    PlanError
        For a parameter whose content nobody can tell.
    """
    stages = zip(plan.names, plan.stages, strict=True)
    return {name: digest_of(stage.decisive(), name) for name, stage in stages if stage.changes_batches}


def digest_of(value: Any, stage: str = "") -> str:
    """Return a digest of a value, the same in every process; `stage`, whose parameters it has, is for errors.

    Raises
    ------
    PlanError
        If nobody can tell its content.
    """
    digest = hashlib.blake2b(digest_size=8)
    problem = _try(digest, value)
    if problem is None:
        return digest.hexdigest()
    named = value.items() if isinstance(value, dict) else ()
    inside = next((f" in {name}" for name, one in named if _try(hashlib.blake2b(), one) is not None), "")
    raise PlanError(
        f"{stage and f'{stage}: '}expected values that a checkpoint can tell by their content, got {problem}{inside}; "
        "pass what it is made of, or give its class a method content_digest()"
    )


class _NoContentError(Exception):
    """A value has none; names its class."""


def _try(digest: hashlib.blake2b, value: Any) -> str | None:
    """Feed a value to a digest, or return what in it cannot be fed."""
    try:
        _absorb(digest, value)
    except _NoContentError as error:
        return str(error)
    except RecursionError:
        return "one that holds itself"
    return None


def _absorb(digest: hashlib.blake2b, value: Any) -> None:
    """Feed a value to a digest, framed by its type and length so that no two values feed the same stream."""
    # Only the contents of data count, so that a checkpoint is valid for a whole array and one in shards.
    is_data = hasattr(value, "content_digest") and not isinstance(value, type)
    digest.update(utf8(f"<{'data' if is_data else type(value).__name__}"))
    if is_data:
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
    elif isinstance(value, (set, frozenset)):
        for one in sorted(map(digest_of, value)):
            _absorb(digest, one)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        _absorb(digest, {field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    elif isinstance(value, functools.partial):
        _absorb(digest, (value.func, value.args, value.keywords))
    elif isinstance(value, types.FunctionType):
        cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
        _absorb(digest, (value.__module__, value.__qualname__, value.__defaults__, value.__kwdefaults__, cells))
        _absorb_code(digest, value.__code__)
    elif isinstance(value, types.MethodType):
        _absorb(digest, (value.__func__, type(value.__self__)))  # the object may change while it works
    elif isinstance(value, type | types.ModuleType) or not hasattr(value, "__dict__"):
        text = repr(value)
        if isinstance(value, type):
            text = f"{value.__module__}.{value.__qualname__}"
        elif isinstance(value, types.ModuleType):
            text = value.__name__
        elif _ADDRESS.search(text):
            _absorb(digest, _parts(value))
            text = ""
        digest.update(utf8(f"{len(text)} {text}"))
    else:
        # Any other object: its class and its attributes.
        _absorb(digest, type(value))
        _absorb(digest, vars(value))
    digest.update(b">")


#: In the text of a value that is another one in each process.
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")


def _parts(value: Any) -> Any:
    """Return what a value is copied by: its class or function, and what these are called with."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception as error:
        raise _NoContentError(type(value).__name__) from error
    if isinstance(reduced, str):  # a name in its module
        return getattr(value, "__module__", None), reduced
    return tuple(list(part) if isinstance(part, Iterator) else part for part in reduced)


def _absorb_code(digest: hashlib.blake2b, code: types.CodeType) -> None:
    """Feed the code of a function to a digest: its instructions, names and constants."""
    digest.update(code.co_code)
    _absorb(digest, code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _absorb_code(digest, constant)
        else:
            _absorb(digest, constant)
