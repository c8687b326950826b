"""All ranks of a job run one plan on the same data, or each is told what differs, when they make a loader."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.ops.gpu import name_of_gpu
from headrace.pipeline.data.label_range import LabelRange
from headrace.pipeline.plan import Plan, PlanError, SourceStage, Stage, source_of
from headrace.pipeline.plan.fingerprint import digest_of
from headrace.pipeline.plan.rules import facts_of
from headrace.pipeline.plan.text import describe, show

#: What to write where an argument differs, by its name.
_REMEDIES = {
    "seed": "give all ranks the same seed, as each takes a share of its own from the batches that it names",
    "items": "give all ranks the same items, of which each takes its share by itself, or let each bring its own, "
    "ItemSampler(items, items_per_rank=True)",
    "owners": "give all ranks the same partition",
    "stages": "give all ranks the same stages and passes, and machines with as many cores, or machine=",
}
#: Names of arguments in errors.
_CALLED = {"node": "node features", "edge": "edge features"}
#: Letters of an argument that are shown.
MOST_SHOWN = 200

_REMEDIES["time"] = _REMEDIES["items"]

_ALONE = "; a loader for one rank alone is made by .loader(rank=0, world_size=1)"


@dataclasses.dataclass(frozen=True)
class Agreed:
    """What ranks have agreed about.

    Parameters
    ----------
    seed
        The seed of all.
    own
        Digests of what each rank brings of its own, in the order of the ranks; none where all bring the same.
    rank_items
        How many items each rank has, where each brings its own.
    rank_labels
        Facts about the labels of each rank, where each brings its own and a stage changes them.
    gpus
        The GPU to which each rank copies its batches, "" for none.
    """

    seed: int
    own: tuple[str, ...] = ()
    rank_items: tuple[int, ...] = ()
    rank_labels: tuple[LabelRange | None, ...] = ()
    gpus: tuple[str, ...] = ()


def agree(
    plan: Plan, final: Plan, rank: int, tell: Callable[[Mapping[str, Any]], list[dict[str, Any]]], *, together: bool
) -> Agreed:
    """Compare the plan with those of the other ranks.

    Parameters
    ----------
    plan
        The plan as the user wrote it.
    final
        The plan as it will run.
    rank
        This rank.
    tell
        Tells all ranks something, and returns what each has told.
    together
        Whether they make batches together: then they also have to run the same collectives.

    Raises
    ------
    PlanError
        If they run other plans, on every rank: it names stages, arguments and what each rank has.
    """
    source = source_of(plan)
    own = source.own_data()
    what: dict[str, Any] = {
        "names": list(plan.names),
        "arguments": _arguments(plan),
        "seed": source.seed if source.seed_given else None,
        "torch_seed": source.seed,
        "own": digest_of(own) if own else "",
        "num_items": len(own["items"]) if "items" in own else 0,
        "labels": source.label_range if own and any("y" in stage.writes for stage in plan.stages[1:]) else None,
        "text": _text(plan, final) if together else "\n".join(map(describe, plan.stages)),
        "owners": "".join(_owners(final)),
        "runs_as": _text(plan, final) if together else "",
        "gpu": _gpu(final),
    }
    told = tell(what)
    _check(told, rank, source.name)
    gpus = tuple(one["gpu"] for one in told)
    if not own:
        return Agreed(told[0]["torch_seed"], gpus=gpus)
    return Agreed(
        told[0]["torch_seed"],
        tuple(one["own"] for one in told),
        tuple(one["num_items"] for one in told),
        tuple(None if one["labels"] is None else LabelRange(*one["labels"]) for one in told),
        gpus,
    )


def _gpu(final: Plan) -> str:
    """Return the name of the GPU that batches are copied to, "" for none."""
    *_, end = facts_of(final.stages)
    return name_of_gpu(str(end.place)) if end.place is not None and end.place.kind == "cuda" else ""


def _arguments(plan: Plan) -> dict[str, dict[str, tuple[str, str]]]:
    """Return for each argument of each stage that all ranks have in common a digest and a text."""
    arguments: dict[str, dict[str, tuple[str, str]]] = {}
    for name, stage in zip(plan.names, plan.stages, strict=True):
        # A function may know its rank, and copies of rows are each rank's own.
        if stage.changes_batches and stage.ranks.same_parameters:
            values = stage.decisive()
            if isinstance(stage, SourceStage):
                values.pop("seed", None)  # told by itself, as it may be rank 0's
                values.pop("order", None)  # follows from the shuffle
            arguments[name] = {key: (digest_of(value, name), show(value)[:MOST_SHOWN]) for key, value in values.items()}
    return arguments


def _owners(final: Plan) -> list[str]:
    """Return who owns what, by which ranks share items, or find nodes and rows together, once for each division."""
    divided = [one.partition for stage in final.stages for one in stage.divided()]
    return list(dict.fromkeys(one.content_digest() for one in divided))


def _text(plan: Plan, final: Plan) -> str:
    """Return what ranks must have in common of a plan: not functions, devices, caches and sizes that are each rank's.

    Of what passes made of the plan, stages that no other rank waits for have their names alone.
    """
    # A source may have items of this rank, or torch's seed here: what is common of it is compared by itself.
    common = [stage.ranks.same_parameters and not isinstance(stage, SourceStage) for stage in plan.stages]
    written = [_described(stage) if same else stage.name for stage, same in zip(plan.stages, common, strict=True)]
    made = [_described(stage) if stage.ranks.collective else stage.name for stage in final.stages]
    return "\n".join([*written, "which runs as", *made])


def _described(stage: Stage) -> str:
    """Return a text of a stage that is the same on all ranks: features go by their names, as caches are each rank's."""
    wanted = stage.wants
    if wanted is None:
        return describe(stage)
    return f"{stage.name}(node={show(wanted.node)}, edge={show(wanted.edge)}, labels={show(wanted.labels)})"


def _check(told: Sequence[Mapping[str, Any]], rank: int, source: str) -> None:
    """Refuse plans that differ.

    Raises
    ------
    PlanError
        On every rank.
    """
    which: list[str] = []
    found: list[str] = []

    def compare(part: str, argument: str, values: Sequence[Any], texts: Sequence[str], where: str = "") -> None:
        if len({str(value) for value in values}) > 1:
            which.append(part)
            remedy = _REMEDIES.get(argument, "give all ranks the same")
            what = _CALLED.get(argument, argument)
            found.append(f"{where}expected the same {what} on all ranks, got {_by_rank(values, texts)}; {remedy}")

    names = [one["names"] for one in told]
    if any(one != names[0] for one in names):
        compare("stages", "stages", names, [", ".join(one) for one in names])
    else:
        seeds = [one["seed"] for one in told]
        texts = ["none" if seed is None else str(seed) for seed in seeds]
        compare(f"data of {source}", "seed", seeds, texts, f"{source}: ")
        for stage in told[0]["arguments"]:
            arguments = [one["arguments"].get(stage, {}) for one in told]
            for argument in dict.fromkeys(key for one in arguments for key in one):
                pairs = [one.get(argument, ("", "none")) for one in arguments]
                digests, texts = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
                compare(f"data of {stage}", argument, digests, texts, f"{stage}: ")
        owners = [one["owners"] for one in told]
        compare("owners", "owners", owners, [f"those of {one[:8]}" if one else "none" for one in owners])
    runs = [one["runs_as"] for one in told]
    if not which:
        compare("stages", "stages", runs, [""] * len(runs))
    if not which:
        return
    differing = [other for other, one in enumerate(told) if _essence(one) != _essence(told[rank])]
    together = bool(told[rank]["runs_as"])
    raise PlanError(
        f"the plan of rank {rank} differs from that of rank {', '.join(map(str, differing))} in the "
        f"{', '.join(dict.fromkeys(which))}:\n"
        + "\n".join(found)
        + ("" if together else _ALONE)
        + f"\nRank {rank} has\n{told[rank]['text']}"
    )


def _essence(told: Mapping[str, Any]) -> list[Any]:
    return [told[key] for key in ("names", "arguments", "seed", "owners", "runs_as")]


def _by_rank(values: Sequence[Any], texts: Sequence[str]) -> str:
    """Say what each rank has, those that have the same together."""
    ranks: dict[str, list[int]] = {}
    for rank, value in enumerate(values):
        ranks.setdefault(str(value), []).append(rank)
    seen: list[str] = []
    parts = []
    for group in ranks.values():
        text = texts[group[0]]
        other = " of another content" if text in seen else ""
        seen.append(text)
        named = f"rank {group[0]}" if len(group) == 1 else f"ranks {', '.join(map(str, group))}"
        parts.append(f"{text}{other} on {named}".strip())
    return ", ".join(parts)
