"""The error classes, for modules of the pipeline that may not know ``headrace.ops`` (the passes)."""

from headrace.ops.errors import (
    FeatureError,
    GraphError,
    HeadraceError,
    InputError,
    ItemsError,
    LoaderError,
    PeerError,
    PlanError,
    StateError,
    UsageError,
)

__all__ = [
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
