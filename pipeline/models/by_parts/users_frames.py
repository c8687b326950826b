"""The functions of a program that run: those of users and of libraries of layers, not of torch or this library."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

OURS = f"{Path(__file__).parents[2]}{os.sep}"
TORCH = f"{Path(torch.__file__).parent}{os.sep}"  # not torch_geometric, which stands beside it


def run_watched(call: Callable[[], Any]) -> Any:
    """Return the result of a module or layer that is watched: what called it has nothing to do with its numbers."""
    return call()


def users_frames(*, of_callers: bool = False) -> Iterator[FrameType]:
    """Yield the frames that run, the inner ones first: up to what is watched, or with all callers of it."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        if frame.f_code is run_watched.__code__ and not of_callers:
            return
        if not frame.f_code.co_filename.startswith((TORCH, OURS)):
            yield frame
        frame = frame.f_back
