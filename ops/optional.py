"""Libraries that come with an extra, imported when a function needs them."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, *, extra: str, stage: str) -> Any:
    """Import a library, or say how to install it.

    Raises
    ------
    ModuleNotFoundError
        Naming the extra of headrace that brings the library.
    """
    library = module.split(".", maxsplit=1)[0]
    try:
        importlib.import_module(library)
        return importlib.import_module(module)
    except ModuleNotFoundError as cause:
        if cause.name != library:
            raise
        message = f"{stage} needs {module}, which is not installed; install it with: pip install 'headrace[{extra}]'"
        raise ModuleNotFoundError(message, name=module) from cause
