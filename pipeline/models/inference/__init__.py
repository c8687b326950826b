"""Inference on all nodes, layer by layer, with whole neighbourhoods."""

from __future__ import annotations

from headrace.pipeline.models.inference.run import inference

__all__ = ["inference"]
