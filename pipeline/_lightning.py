"""Callbacks for PyTorch Lightning: see `headrace.pipeline.compat.lightning`."""

from headrace.pipeline.compat.lightning import *  # noqa: F403 - the same names
from headrace.pipeline.compat.lightning import __all__  # noqa: F401
