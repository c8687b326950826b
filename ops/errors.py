"""Every error headrace raises on purpose.

::

    Exception
    └── HeadraceError
        ├── InputError (ValueError)      an argument is not what a function or a stage expects
        │   ├── GraphError               ... of a graph: ids, indptr, lengths, dtypes, weights
        │   ├── ItemsError               ... of the training items: seeds, pairs, labels, batch size
        │   └── FeatureError             ... of a feature store: missing names, rows out of range
        ├── PlanError (ValueError)       stages that cannot be chained, or a rewrite that broke the plan
        │   └── UsageError (TypeError)   a plan was iterated, or called with arguments that are not there
        ├── DeviceError (RuntimeError)   a GPU, or what it takes to use one, is missing or fails
        ├── StateError (ValueError)      a loader state that belongs to another plan
        └── LoaderError (RuntimeError)   a running loader was used wrongly, or a background thread failed
            └── PeerError                another rank failed, was lost, or does something else

A message says what was expected, what came, in which function or stage, and what to do.
"""

from __future__ import annotations

from headrace.ops.text import printable

__all__ = [
    "DeviceError",
    "FeatureError",
    "GraphError",
    "HeadraceError",
    "InputError",
    "ItemsError",
    "LoaderError",
    "PeerError",
    "PlanError",
    "StateError",
    "UsageError",
]


class HeadraceError(Exception):
    """The base class of all errors that headrace raises on purpose."""

    def __str__(self) -> str:
        return printable(super().__str__())


class InputError(HeadraceError, ValueError):
    """An argument has a value that a function or a stage does not accept; nothing was changed."""


class GraphError(InputError):
    """A graph, or an array that describes one, is malformed."""


class ItemsError(InputError):
    """Training items (seeds, pairs, labels) are malformed or out of range."""


class FeatureError(InputError):
    """A feature is missing, too short, or does not have the requested rows."""


class PlanError(HeadraceError, ValueError):
    """Stages do not fit together, or a pass produced a plan that breaks the rules."""


class PlanWarning(UserWarning):
    """A plan is legal and hardly meant, because seeds find edges of their future, or those to predict."""


class UsageError(PlanError, TypeError):
    """A plan was used as a loader, or a call has arguments that do not exist."""


class DeviceError(HeadraceError, RuntimeError):
    """A GPU, or software that it needs, is missing or fails."""


class StateError(HeadraceError, ValueError):
    """A saved loader state does not belong to this plan."""


class LoaderError(HeadraceError, RuntimeError):
    """A loader was used in a way that it does not support, or one of its background threads failed."""


class PeerError(LoaderError):
    """Another rank failed, was lost, or diverged from this one; the message names the rank and the reason."""
