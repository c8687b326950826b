"""Inference on all nodes, layer by layer, with whole neighbourhoods."""
