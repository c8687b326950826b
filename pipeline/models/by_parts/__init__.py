"""Layers whose edges come by parts: any function of messages, as long as it works edge by edge and reduces them."""
