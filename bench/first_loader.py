"""The first loader of a process, after `import torch`: `import headrace`, a small graph, a plan and its `.loader()`.

two_builds.py runs it with the Python of a build. It prints milliseconds, and the gigabytes of the whole process.
"""

from __future__ import annotations

import json
import time

import torch

wall, cpu = time.perf_counter(), time.process_time()

import headrace as hr  # noqa: E402 - it is timed

graph = hr.Graph.from_coo(torch.arange(90), torch.arange(90).roll(1), num_nodes=90)
store = hr.FeatureStore(node={"x": torch.randn(90, 4), "y": torch.arange(90)})
plan = hr.ItemSampler(90, batch_size=10, shuffle=True, seed=0).sample_neighbor(graph, fanouts=[2, 2])
loader = plan.fetch_feature(store, node=["x"], labels="y").loader()

wall, cpu = time.perf_counter() - wall, time.process_time() - cpu

if __name__ == "__main__":
    from one_build import resident

    print(json.dumps({"time": wall * 1e3, "CPU time": cpu * 1e3, "peak memory": resident("VmHWM") / 1e9}))
