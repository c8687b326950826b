"""The text of `loader.explain()`: the plan that runs, and the changes of each pass to the user's plan.

Graphs and stores are named in the plan and described once, at the end.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from headrace.ops import ByRelation, PlanError
from headrace.ops.features.freed_memory import LARGE_BYTES, returns_freed_memory
from headrace.ops.text import printable
from headrace.pipeline.data import GraphView, check_switches
from headrace.pipeline.plan.rules import Facts, facts_of
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.plan.text import describe, show
from headrace.pipeline.plan.traits import same
from headrace.pipeline.storage.features import FeatureStore

if TYPE_CHECKING:
    from headrace.pipeline.plan.machine import Machine
    from headrace.pipeline.plan.plan import Plan
    from headrace.pipeline.plan.rewriting import Rewriting

WIDTH = 120
#: Of plans that use a GPU, until one has run `bench/gpu.sh`.
UNTRIED = "kernels for GPUs have been tested on CPUs only; no GPU has run them yet"
#: Of plans whose batches a CPU trains on, where rows of a batch may be more than the C library keeps by itself.
FREED = (
    "memory of tensors above 32 MB returns to the system after each batch; to train on a CPU, call "
    "hr.keep_freed_memory() once before"
)


def explain(rewriting: Rewriting, *, facts: bool = False) -> str:
    """Return the text.

    Parameters
    ----------
    rewriting
        The user's plan and the plan after each pass.
    facts
        Whether to print, after each stage of the plan that runs, the facts known about the batch there.
    """
    check_switches("explain", PlanError, facts=facts)
    names = _Names()
    runs = [names.describe(stage) for stage in rewriting.final.stages]
    lines = _wrapped(f"plan that runs, on {rewriting.machine}", "")
    known = list(facts_of(rewriting.final.stages))
    for line, behind in zip(runs, known[1:], strict=True):
        lines += _wrapped(line, "  ")
        if facts:
            lines += _wrapped(f"# {_text(behind, names)}", "      ")
    written = [names.describe(stage) for stage in rewriting.plan.stages]
    lines += ["plan as written", *(one for line in written for one in _wrapped(line, "  "))]
    before, idle = written, list[str]()
    for record in rewriting.records:
        if not record.fired:
            why = " (off)" if not record.enabled else " (no GPU)" if record.lacks_gpu else ""
            idle.append(f"{record.name}{why}")
            continue
        after = [names.describe(stage) for stage in record.plan.stages]
        lines += _wrapped(f"pass {record.name} ({record.promise}): {'; '.join(_counted(record.fired))}", "")
        lines += [one for sign, line in _difference(before, after) for one in _wrapped(line, sign)]
        before = after
    if idle:
        lines += _wrapped(f"nothing to do: {', '.join(idle)}", "")
    lines += [one for line in names.described() for one in _wrapped(line, "")]
    detour = detour_of(rewriting.plan, rewriting.final, rewriting.machine)
    lines += [] if detour is None else _wrapped(detour, "")
    lines += [UNTRIED] if any(map(_on_gpu, known)) else []
    lines += _wrapped(FREED, "") if _frees_memory(rewriting) else []
    machine = rewriting.machine
    on_gpus = {f"cuda:{gpu}": num_bytes for gpu, num_bytes in enumerate(machine.gpu_promised[: machine.gpus])}
    lines += [
        f"caches made before, those of the stores of this plan included, have {num_bytes:,} bytes of {place}"
        for place, num_bytes in {"CPU memory": machine.promised, **on_gpus}.items()
        if num_bytes
    ]
    return printable("\n".join(lines))


def _frees_memory(rewriting: Rewriting) -> bool:
    """Whether a batch on a machine without GPUs may have tensors whose memory returns to the system each time."""
    wanted = [stage.wants for stage in rewriting.plan.stages if stage.wants is not None]
    sizes = [source.num_rows * source.row_bytes for one in wanted for source in one.sources()]
    return not rewriting.machine.gpus and max(sizes, default=0) > LARGE_BYTES and returns_freed_memory()


def detour_of(plan: Plan, final: Plan, machine: Machine) -> str | None:
    """Return how ranks exchange what belongs on GPUs, if it is not from GPU to GPU: through CPU memory.

    Parameters
    ----------
    plan, final
        The plan as written, and as it runs.
    machine
        The machine.
    """
    if machine.gpu_channel or not any(stage.ranks.collective for stage in final.stages):
        return None
    parts = list[str]()
    if machine.gpus and any(
        _on_gpu(known) and (stage.first_hop is not None or stage.wants is not None)
        for known, stage in zip(facts_of(plan.stages), plan.stages, strict=False)
    ):
        parts.append("ids and rows of batches")
    *_, end = facts_of(final.stages)
    if _on_gpu(end) and end.shares_layers:
        parts.append("rows of the model")
    return (
        f"ranks exchange {' and '.join(parts)} through CPU memory, as their channel reaches no GPU" if parts else None
    )


def _on_gpu(facts: Facts) -> bool:
    return facts.place is not None and facts.place.kind == "cuda"


class _Names:
    """Short names of graphs and stores, in the order in which they occur."""

    def __init__(self) -> None:
        self._named: dict[int, tuple[str, Any]] = {}

    def describe(self, stage: Stage) -> str:
        """Return one line for a stage; see `text.describe`."""
        return describe(stage, self.show)

    def show(self, value: Any) -> str:
        """Return a short text for the value of a parameter."""
        kind = "graph" if isinstance(value, GraphView) else "store" if isinstance(value, FeatureStore) else None
        if kind is not None:
            number = 1 + sum(name.startswith(kind) for name, _ in self._named.values())
            return self._named.setdefault(id(value), (f"{kind}#{number}", value))[0]
        if isinstance(value, Stage):
            return self.describe(value)
        if isinstance(value, ByRelation):
            return f"by relation {self._folded(value.rules)}"
        if isinstance(value, tuple):
            nested = len(value) > 1 and all(isinstance(one, tuple) and len(one) > 1 for one in value)
            return f"[{', '.join(self._folded(one) if nested else self.show(one) for one in value)}]"
        return _rule(value) or show(value)

    def _folded(self, values: tuple[Any, ...]) -> str:
        """Return a text for values by relation, of which many are equal."""
        texts = [self.show(value) for value in values]
        counted = [(text, texts.count(text)) for text in dict.fromkeys(texts)]
        return f"[{', '.join(text if count == 1 else f'{count} x {text}' for text, count in counted)}]"

    def described(self) -> list[str]:
        """Return a line for each name."""
        return [f"{name}: {value!r}" for name, value in self._named.values()]


def _rule(value: Any) -> str | None:
    """Return a text for a sampling rule, without parameters that have their defaults; None for another value."""
    if not is_dataclass(value) or not hasattr(value, "per_destination"):
        return None
    shown = list[str]()
    for field in fields(value):
        one = getattr(value, field.name)
        if field.default is MISSING or not same(one, field.default):
            shown.append(f"{field.name}={one!r}" if shown else repr(one))
    return f"{type(value).__name__}({', '.join(shown)})"


def _text(facts: Facts, names: _Names) -> str:
    """Return the facts about a batch, on one line."""
    by_place: dict[str, list[str]] = {}
    for name, place in sorted(facts.fields.items()):
        by_place.setdefault(str(place), []).append(name)
    parts = [f"{', '.join(fields)} on {place}" for place, fields in by_place.items()]
    parts += [f"hops: {facts.hops}"] if facts.hops else []
    parts += [names.show(graph) for graph in facts.graphs]
    for holds, text in (
        (facts.boundary is not None, f"boundary {facts.boundary}"),
        (facts.trees, "a tree for each seed"),
        (facts.exclude is not None, "edges are left out"),
        (facts.shares_layers, "ranks share the batch"),
        (facts.threads, "made in a background thread"),
        (not facts.sound_ids, "ids are checked"),
    ):
        parts += [text] if holds else []
    return f"{facts.given}: {'; '.join(parts)}"


def _counted(names: tuple[str, ...]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name} x {names.count(name)}" for name in dict.fromkeys(names)]


def _wrapped(line: str, indent: str) -> list[str]:
    """Return a line as one or more of limited width."""
    behind = " " * (len(indent) + 4)
    return textwrap.wrap(
        line, WIDTH, initial_indent=indent, subsequent_indent=behind, break_long_words=False, break_on_hyphens=False
    )


def _difference(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]]:
    """Return the removed (-) and added (+) lines, with one line of context; none if all are equal."""
    lines, last = list[tuple[str, str]](), len(before)
    changes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(1)
    for number, group in enumerate(changes):
        if number > 0 or group[0][1] > 0:
            lines.append(("    ", "..."))
        for kind, start, stop, new_start, new_stop in group:
            if kind == "equal":
                lines += [("    ", line) for line in before[start:stop]]
            else:
                lines += [("  - ", line) for line in before[start:stop]]
                lines += [("  + ", line) for line in after[new_start:new_stop]]
        last = group[-1][2]
    return lines if last == len(before) else [*lines, ("    ", "...")]
