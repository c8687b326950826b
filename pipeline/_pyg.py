"""Loaders with PyG's names and parameters: see `headrace.pipeline.compat.pyg`."""

from headrace.pipeline.compat.pyg import *  # noqa: F403 - the same names
from headrace.pipeline.compat.pyg import __all__  # noqa: F401
