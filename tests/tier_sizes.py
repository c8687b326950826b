"""Sizes of tiers, as a user gives them."""

from __future__ import annotations


def tier_sizes(replicated: int = 0, interleaved: int = 0, host: int = 0, num_devices: int = 0) -> dict[str, int]:
    """Rows of each tier, and the GPUs that the first two are on."""
    return {"replicated": replicated, "interleaved": interleaved, "host": host, "num_devices": num_devices}
