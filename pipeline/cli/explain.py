"""What the command `explain` does: the plan that a loader over a data set runs, on this machine or another one."""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from typing import Any

from headrace.ops.errors import InputError, PlanWarning
from headrace.pipeline.cli.parser import answer, meant, say
from headrace.pipeline.data import whole_number
from headrace.pipeline.data.memory_size import LEAST_OF_A_MACHINE, as_memory
from headrace.pipeline.data.place import MOST_DEVICES
from headrace.pipeline.plan.machine import MOST_RANKS, Machine
from headrace.pipeline.run.make_loader import explain as explain_on
from headrace.pipeline.run.make_loader import loader as loader_of
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.storage.dataset.open_dataset import open_dataset

#: The least and the largest number of options.
_LIMITS = {"measure": (1, None), "gpus": (0, MOST_DEVICES), "ranks": (1, MOST_RANKS)}


def explain(options: argparse.Namespace) -> None:
    """Print the plan that runs, what each pass changed, and with ``--measure`` counts and times.

    Raises
    ------
    HeadraceError
        If there are no such items or features, or the plan is refused.
    """
    for option, limits in _LIMITS.items():
        value = getattr(options, option)
        if value is not None:
            whole_number(value, f"--{option}", limits[0], InputError, limits[1])
    data = open_dataset(options.folder)
    name = options.items or ("train" if "train" in data.items else next(iter(data.items), None))
    if name is not None and name not in data.items:
        raise InputError(f"--items: expected one of {', '.join(data.items)}, got {name!r}{meant(name, data.items)}")
    if not options.json:
        say(f"items: {name or 'all nodes, as the data set has none'}")
    items = data.graph.num_nodes if name is None else data.items[name]
    texts = {key if isinstance(key, str) else ".".join(map(str, key)): key for key in data.store.node}
    unknown = [one for one in options.features or [] if one not in texts]
    if unknown:
        raise InputError(
            f"--features: expected some of {', '.join(texts)}, got {unknown[0]!r}{meant(unknown[0], texts)}"
        )
    wanted = [texts[one] for one in (texts if options.features is None else options.features)]
    plan = ItemSampler(items, batch_size=options.batch_size, shuffle=True, seed=0)
    plan = getattr(plan, f"sample_{options.sampler}")(data.graph, fanouts=options.fanouts)
    if wanted:
        plan = plan.fetch_feature(data.store, node=wanted)
    if options.copy_to is not None:
        plan = plan.copy_to(options.copy_to)
    if options.measure and (options.gpus is not None or options.ranks is not None):
        raise InputError("--measure: expected the machine that is here, got --gpus or --ranks; leave these out")
    if options.gpu_memory is not None and options.gpus is None:
        raise InputError("--gpu-memory: expected --gpus, the number of GPUs that have it, got none")
    if options.cooperative and options.ranks is None:
        raise InputError("--cooperative: expected --ranks, the number of ranks that make batches together, got none")
    text = explain_on(plan, machine=_machine(options), cooperative=options.cooperative)
    if options.gpus and options.copy_to is None:
        text += "\n\nbatches stay in the memory of the CPU: --copy-to cuda moves them to GPUs"
    found: dict[str, Any] = {"items": name, "explain": text.splitlines()}
    if not options.json:
        say(text)
    if options.measure:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PlanWarning)  # of a plan that no user wrote
            loader = loader_of(plan)
        start, batches = time.perf_counter(), 0
        for _ in zip(range(options.measure), loader, strict=False):
            batches += 1
        seconds, stats = time.perf_counter() - start, loader.stats()
        loader.close()
        found |= {"batches": batches, "seconds": seconds, "waited": stats.waited, "stats": stats.stages}
        if not options.json:
            say(f"\n{batches} {'batch' if batches == 1 else 'batches'} in {seconds:.3f} s")
            say(str(stats))
    if options.json:
        answer(found, "", as_json=True)


def _machine(options: argparse.Namespace) -> Machine:
    """Return the machine of one rank that is asked for: its share of the memory of this one, with other GPUs.

    Ranks have a GPU each; those beyond the GPUs are on other machines.
    """
    num_ranks = 1 if options.ranks is None else options.ranks
    here = Machine.detect(min(num_ranks, options.gpus or num_ranks))
    gpus = here.gpus if options.gpus is None else options.gpus
    sizes = here.gpu_memory[:gpus]
    if options.gpu_memory is not None:
        sizes = (as_memory(options.gpu_memory, "--gpu-memory", LEAST_OF_A_MACHINE),) * gpus
    return replace(
        here,
        gpus=gpus,
        gpu_memory=sizes,
        gpu_promised=here.gpu_promised[:gpus],
        current_gpu=here.current_gpu if here.current_gpu < gpus else 0,
        rank=0,
        world_size=num_ranks,
    )
