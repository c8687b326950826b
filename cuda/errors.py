"""Errors of devices."""

from __future__ import annotations


class DeviceError(RuntimeError):
    """A GPU, or what it takes to use one, is not there or does not do what is asked."""
