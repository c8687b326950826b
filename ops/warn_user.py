"""Warnings are shown at the line of a user, whatever of headrace and of other libraries lies between."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

_PACKAGE = __name__.partition(".")[0]
#: Through which headrace is called: a warning about a batch is not about their lines.
_LIBRARIES = frozenset(
    (_PACKAGE, "torch", "torchdata", "torch_geometric", "dgl", "lightning", "lightning_fabric", "pytorch_lightning",
     "tqdm", "numpy")
)  # fmt: skip
#: Where the standard library is; a user's module may have the name of one of its modules.
_STANDARD = (os.path.dirname(os.__file__) + os.sep, "<frozen ")  # noqa: PTH120 - pathlib costs time at the import


class _Line(NamedTuple):
    """A line of a file, and the globals of its module, which remember what was warned there."""

    path: str
    number: int
    names: dict[str, Any]


#: Where a user waits for what threads make.
_STARTED_AT: WeakKeyDictionary[threading.Thread, _Line] = WeakKeyDictionary()


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is neither of headrace nor of a library which calls it.

    In a thread of headrace that is the line that started its work, else the one at which another thread has called
    headrace; without any, the program's first.

    Parameters
    ----------
    message
        The text.
    category
        The class of the warning.
    """
    line = _line_of_user()
    module = line.names.get("__name__") or "<string>"
    registry = line.names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, line.path, line.number, module, registry)


def remember_user(thread: threading.Thread) -> None:
    """Let warnings of a thread, which is about to start, be shown at the line of a user that is running now."""
    _STARTED_AT[thread] = _line_of_user()


def _line_of_user() -> _Line:
    own = _first_of_user(sys._getframe()) or _STARTED_AT.get(threading.current_thread())  # noqa: SLF001
    return own or _line_of_another_thread() or _first_of_program()


def _line_of_another_thread() -> _Line | None:
    """Return where another thread has called headrace, else where the main thread is."""
    frames = sys._current_frames()  # noqa: SLF001 - the threading module names no frames
    main = frames.get(threading.main_thread().ident or 0)
    others = [main] if main is not None else []
    others += [frame for frame in frames.values() if frame is not main]
    lines = [(_first_of_user(frame), _is_in_headrace(frame)) for frame in others]
    inside = [line for line, is_inside in lines if line is not None and is_inside]
    return inside[0] if inside else lines[0][0] if lines else None


def _first_of_program() -> _Line:
    names = vars(sys.modules["__main__"])
    return _Line(names.get("__file__") or sys.argv[0] or "<string>", 1, names)


def _first_of_user(innermost: FrameType) -> _Line | None:
    for frame in _outwards(innermost):
        if not _is_of_library(frame.f_globals, frame.f_code.co_filename):
            return _Line(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
    return None


def _is_in_headrace(innermost: FrameType) -> bool:
    return any(_top(frame.f_globals) == _PACKAGE for frame in _outwards(innermost))


def _outwards(innermost: FrameType) -> Iterator[FrameType]:
    frame: FrameType | None = innermost
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_of_library(names: Mapping[str, Any], path: str) -> bool:
    top = _top(names)
    if top == "__main__":  # the first line of a spawned process is multiprocessing's own
        return path == "<string>" and "__mp_main__" in sys.modules
    return top in _LIBRARIES or (top in sys.stdlib_module_names and path.startswith(_STANDARD))


def _top(names: Mapping[str, Any]) -> str:
    return str(names.get("__name__", "")).partition(".")[0]
