"""Streams of a GPU: work on a side stream, and others that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from headrace.cuda import backend

Made = TypeVar("Made")


class Event:
    """What was on its way on a stream when it was recorded.

    Parameters
    ----------
    wait
        Lets the current stream wait for it.
    is_done
        Returns whether it is done, without a wait.
    """

    def __init__(self, wait: Callable[[], None], is_done: Callable[[], bool]) -> None:
        self._wait = wait
        self._is_done = is_done

    def wait(self) -> None:
        """Let what is launched from now on, on the current stream, come behind what was on its way."""
        self._wait()

    def is_done(self) -> bool:
        """Whether it is done, as far as the host can tell without waiting."""
        return self._is_done()


_streams = threading.local()


@contextmanager
def side_stream(device: torch.device, *, behind_current: bool) -> Iterator[None]:
    """Let kernels and copies of this thread go to a stream of its own, where others go on meanwhile.

    Parameters
    ----------
    device
        The GPU.
    behind_current
        Whether it begins behind all that was launched on the stream that was current, as it must to read what is made
        there. The stream that a thread begins with is that of the training loop: whoever reads nothing of it should not
        wait for its kernels.
    """
    stand_in = backend.streams_of_stand_in()
    if stand_in is not None:
        with stand_in.side_stream():
            yield
        return
    stream = _own_stream(device)
    if behind_current:
        stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield


def record(device: torch.device) -> Event:
    """Return an event of what is on its way on the current stream."""
    stand_in = backend.streams_of_stand_in()
    if stand_in is not None:
        return Event(*stand_in.record())
    event = torch.cuda.current_stream(device).record_event()
    return Event(lambda: torch.cuda.current_stream(device).wait_event(event), event.query)


def capture(device: torch.device, work: Callable[[], Made]) -> tuple[Made, Callable[[], None]]:
    """Capture what a function launches, on the side stream of this thread, as a CUDA graph; nothing of it runs.

    Other threads may allocate meanwhile.

    Returns
    -------
    What the function returns, in memory of the graph, and a function that launches the graph on the current stream.
    """
    stand_in = backend.streams_of_stand_in()
    if stand_in is not None:
        return stand_in.capture(work)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=_own_stream(device), capture_error_mode="thread_local"):
        made = work()
    return made, graph.replay


def read_back(tensor: Tensor) -> list[int]:
    """Return integers, int64[n], behind all that was launched on the current stream; the host waits for them."""
    wait_here()
    found: list[int] = tensor.tolist()
    return found


def in_order() -> None:
    """Let what stands in for a GPU do what the current stream was given: what torch does next comes behind that."""
    stand_in = backend.streams_of_stand_in()
    if stand_in is not None:
        stand_in.catch_up()


def wait_here() -> None:
    """Let what stands in for a GPU know that the host waits for the current stream."""
    stand_in = backend.streams_of_stand_in()
    if stand_in is not None:
        stand_in.synchronize()


def synchronize(device: torch.device) -> None:
    """Let the host wait for all that the current stream was given."""
    wait_here()
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


def use_here(tensors: Iterable[Tensor]) -> None:
    """Let memory of tensors, which come from another stream, not be given to others before this stream is done."""
    stand_in = backend.streams_of_stand_in()
    for tensor in tensors:
        if tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))
        elif stand_in is not None:
            stand_in.use(tensor)


class MadeOnce(Generic[Made]):
    """What is made on first use, on the stream that is current then, and kept for all streams.

    Threads that come meanwhile wait until it is made, and streams other than that one until it is there.

    Parameters
    ----------
    device
        The GPU that makes it.
    make
        Launches what makes it.
    tensors
        Returns the tensors that it is in.
    """

    def __init__(
        self, device: torch.device, make: Callable[[], Made], tensors: Callable[[Made], Iterable[Tensor]]
    ) -> None:
        self._device = device
        self._make = make
        self._tensors = tensors
        self._lock = threading.Lock()
        self._made: tuple[Made, Event] | None = None

    def here(self) -> Made:
        """Return it, for use on the current stream."""
        with self._lock:
            if self._made is None:
                value = self._make()
                self._made = value, record(self._device)
                return value
            value, event = self._made
        event.wait()
        use_here(self._tensors(value))
        return value

    @property
    def num_bytes(self) -> int:
        """Bytes that it takes, 0 before it is made."""
        return 0 if self._made is None else sum(tensor.nbytes for tensor in self._tensors(self._made[0]))


def _own_stream(device: torch.device) -> Any:
    """Return the side stream of this thread on a device, always the same."""
    own: dict[torch.device, Any] = _streams.__dict__.setdefault("own", {})
    if device not in own:
        own[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return own[device]
