"""Every error headrace raises on purpose.

::

    Exception
    └── HeadraceError                    a GPU or a background thread is missing or fails, a loader is used wrongly
        ├── InputError (ValueError)      an argument is not what a function or a stage expects
        ├── PlanError (ValueError, TypeError)
        │                                stages that cannot be chained, a plan that was used as a loader
        ├── StateError (ValueError)      a loader state that belongs to another plan
        └── PeerError (RuntimeError)     another rank failed, was lost, or does something else

A message says what was expected, what came, in which function or stage, and what to do.
"""

from __future__ import annotations

from headrace.ops.text import printable

__all__ = ["HeadraceError", "InputError", "PeerError", "PlanError", "PlanWarning", "StateError"]


class HeadraceError(Exception):
    """The base class of all errors that headrace raises on purpose.

    It is raised itself where a GPU, a file or a background thread is missing or fails, and where a running loader is
    used wrongly.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class InputError(HeadraceError, ValueError):
    """An argument has a value that a function or a stage does not accept; nothing was changed."""


class PlanError(HeadraceError, ValueError, TypeError):
    """Stages do not fit together, a plan was used as a loader, or a call has arguments that do not exist."""


class PlanWarning(UserWarning):
    """A plan is legal and hardly meant, because seeds find edges of their future, or those to predict."""


class StateError(HeadraceError, ValueError):
    """A saved loader state does not belong to this plan."""


class PeerError(HeadraceError, RuntimeError):
    """Another rank failed, was lost, or diverged from this one; the message names the rank and the reason."""


def add_note(error: Exception, note: str) -> None:
    """Add where an error was raised; Python 3.10 keeps the note with the error but does not print it."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        error.__notes__ = [*getattr(error, "__notes__", []), note]
