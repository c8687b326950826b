"""Streams of a GPU: work on a side stream, and others that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from headrace.cuda import backend


class Event:
    """What was on its way on a stream when it was recorded.

    Parameters
    ----------
    wait
        Lets the current stream wait for it.
    """

    def __init__(self, wait: Callable[[], None]) -> None:
        self._wait = wait

    def wait(self) -> None:
        """Let what is launched from now on, on the current stream, come behind what was on its way."""
        self._wait()


_streams = threading.local()


@contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """Let kernels and copies of this thread go to a stream of its own, where others go on meanwhile.

    It begins behind all that was launched on the stream that was current: what it reads may come from there.
    """
    stand_in = backend.streams_of_stand_in()
    if stand_in is not None:
        with stand_in.side_stream():
            yield
        return
    stream = _own_stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield


def record(device: torch.device) -> Event:
    """Return an event of what is on its way on the current stream."""
    stand_in = backend.streams_of_stand_in()
    if stand_in is not None:
        return Event(stand_in.record())
    event = torch.cuda.current_stream(device).record_event()
    return Event(lambda: torch.cuda.current_stream(device).wait_event(event))


def read_back(tensor: Tensor) -> list[int]:
    """Return integers, int64[n], behind all that was launched on the current stream; the host waits for them."""
    wait_here()
    found: list[int] = tensor.tolist()
    return found


def wait_here() -> None:
    """Let what stands in for a GPU do what the current stream was given: the host is about to look."""
    stand_in = backend.streams_of_stand_in()
    if stand_in is not None:
        stand_in.record()()


def use_here(tensors: Iterable[Tensor]) -> None:
    """Let memory of tensors, which come from another stream, not be given to others before this stream is done."""
    for tensor in tensors:
        if tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))


def _own_stream(device: torch.device) -> Any:
    """Return the side stream of this thread on a device, always the same."""
    own: dict[torch.device, Any] = _streams.__dict__.setdefault("own", {})
    if device not in own:
        own[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return own[device]
