"""Whether torch.compile reads this code, and the operations that its graphs take in place of ours."""

from __future__ import annotations

from types import ModuleType

import torch


def _never() -> bool:
    return False


#: Whether code is being compiled; torch before 2.4 has no operations to take, and compiles around ours.
is_compiling = torch.compiler.is_compiling if hasattr(torch.library, "register_autograd") else _never


def operations() -> ModuleType:
    """Return the operations that are registered with torch; the first call registers them."""
    from headrace.ops.aggregate import registered

    return registered


def num_torch_threads() -> int | None:
    """Return the number of torch's threads; while code is compiled None, as operations ask for it when they run."""
    return None if is_compiling() else torch.get_num_threads()
