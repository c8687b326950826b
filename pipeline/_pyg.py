"""Loaders with PyG's names and parameters: see `headrace.pipeline.compat.pyg`."""

from typing import TYPE_CHECKING

from headrace.pipeline.compat.pyg import *  # noqa: F403 - the same names
from headrace.pipeline.compat.pyg import __all__  # noqa: F401

if not TYPE_CHECKING:
    from headrace.pipeline.compat.pyg import __getattr__  # noqa: F401 - it refuses others
