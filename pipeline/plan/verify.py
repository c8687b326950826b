"""The two legal languages of plans: of users, checked before the first pass, and of passes, after each pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headrace.ops.errors import InputError, PlanError
from headrace.pipeline.data.checks import is_of_headrace
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.plan.checks import check_items_fit
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.rules import Facts, facts_of
from headrace.pipeline.plan.stage import FETCHED, HOP, PADDED, MacroStage, Stage
from headrace.pipeline.plan.text import render
from headrace.pipeline.plan.traits import KnownNodes


@dataclass(frozen=True, eq=False, repr=False)
class Language:
    """The stages that a plan may have. The rules of their order are the same in both languages.

    Parameters
    ----------
    refuses
        Returns why a stage is not in the language, or None.
    """

    refuses: Callable[[Stage], str | None]


USERS = Language(
    lambda stage: (
        "expected a stage with a verb, got one that passes alone make; chain what it stands for"
        if stage.lowered
        else None
    )
)

LOWERED = Language(
    lambda stage: (
        "expected macro stages to be expanded before this point, got one" if isinstance(stage, MacroStage) else None
    )
)


def verify(plan: Plan, language: Language = USERS) -> None:
    """Check that a plan is legal.

    Raises
    ------
    PlanError
        Naming the rule that is broken and the stage that breaks it, with the plan.
    """
    stages = plan.stages
    facts = Facts()
    for stage in stages:
        if not is_of_headrace(stage):
            from headrace.pipeline.plan.users_stage import check_declared  # loaded where there is one

            check_declared(stage)
        problem = _problem(stage, facts) or language.refuses(stage)
        if problem is not None:
            raise PlanError(f"{stage.name} cannot stand here: {problem}. The plan is\n{render(stages, '  ')}")
        facts = facts.behind(stage)
    launched = [number for number, stage in enumerate(stages) if stage.stream == "launch"]
    for start in launched:
        threads = next((number for number in range(start, len(stages)) if stages[number].threads), len(stages))
        if not any(stage.stream == "wait" for stage in stages[threads + 1 : threads + 2]):
            raise PlanError(
                f"{stages[start].name} cannot stand here: batches behind its threads are still on their way, and no "
                f"stage waits for them. The plan is\n{render(stages, '  ')}"
            )
    unfinished = _UNFINISHED.get(facts.given)
    if unfinished is not None:
        raise PlanError(f"{stages[-1].name} cannot end a plan: {unfinished}. The plan is\n{render(stages, '  ')}")


#: Why a plan cannot end in a stage that gives this.
_UNFINISHED = {
    HOP: "its hop is not compacted",
    FETCHED: "nothing is sampled of its rows",
}


#: What gives a batch a field that a stage of a user may read.
_GIVEN_BY = {
    "seed_time": "give items times, ItemSampler(items, time=...)",
    "y": "give items labels, or chain fetch_feature(store, labels=...) before it",
    "node": "chain fetch_feature(store, node=[...]) before it",
    "edge": "chain fetch_feature(store, edge=[...]) before it",
    "blocks": "chain a sampler before it",
    "slot": "chain a sampler of trees before it, disjoint=True or time=",
    "seed_slot": "leave it out of reads, as batches of one rank have none",
}


def _problem(stage: Stage, facts: Facts) -> str | None:
    """Return why a stage is not legal at its position, or None."""
    places = facts.fields
    if (facts.last is None) != isinstance(stage, Plan):
        return "a plan begins with a source such as ItemSampler, and has no second one"
    if facts.last is None:
        return None
    if facts.given not in stage.takes:
        return _not_taken(stage, facts)
    missing = sorted(stage.reads.difference(places))
    if missing:
        advice = "".join(f"; {_GIVEN_BY[name]}" for name in missing if name in _GIVEN_BY)
        return f"it reads {', '.join(missing)}, which no stage before it writes{advice}"
    if stage.first_hop is not None and stage.first_hop != facts.hops:
        if stage.first_hop == 0:
            return "a plan has one sampler: give that one more hops instead"
        return f"expected hops to be numbered from the seeds outwards, got {stage.first_hop} for hop {facts.hops}"
    # Features are rows of the nodes, edges and seeds that the batch had when they were read.
    fetched = places.keys() - (frozenset() if facts.source is None else facts.source.writes)
    for changed, feature, what in (
        ("n_id", "node", "node features"),
        ("blocks", "edge", "edge features"),
        ("seeds", "y", "labels"),
    ):
        if changed in stage.writes and feature in fetched and not stage.ranks.keeps_rows:
            return f"it changes {changed}, for which {what} were fetched before: fetch them behind"
    again = sorted(stage.fetches & facts.fetched, key=str)
    if again:
        domain, name = again[0]
        return (
            f"it fetches {domain} feature {name!r}, which a stage before has fetched and would lose: fetch it once, "
            "and give features of two stores two names"
        )
    return _misplaced(stage, places) or stage.fits_behind(facts.last)


def _misplaced(stage: Stage, places: Mapping[str, Place]) -> str | None:
    """Return the fields that a stage cannot read at their place, or None."""
    wanted = stage.reads_at
    if wanted is None:
        return None
    # A stage that names no field goes by the batch: a sampler that draws seeds of its own adds to what lies there.
    misplaced = [name for name in sorted(stage.reads or places) if not places[name].serves(wanted)]
    if not misplaced:
        return None
    if wanted == CPU:
        return "it works in CPU memory, but the batch was copied to a device before: copy it behind this stage"
    return (
        f"it reads {', '.join(misplaced)} on {wanted}, but what it finds is on {places[misplaced[0]]}: put "
        f"copy_to({str(wanted)!r}) before this stage"
    )


def _not_taken(stage: Stage, facts: Facts) -> str:
    """Return why a stage cannot take its input."""
    if facts.given == FETCHED:
        return "expected fetched rows to be sampled by the very next stage, got this one"
    if facts.given == HOP:
        return "expected a sampled hop to be compacted by the very next stage, got this one"
    if facts.given == PADDED:
        return "behind pad() a batch has rows that are no nodes: put this stage before it"
    if facts.converted is not None:
        return (
            f"behind {facts.converted.name} a batch is an object of another library: put this stage before it; only "
            "prefetch and copy_to may follow"
        )
    return f"it takes {' or '.join(sorted(stage.takes))}, and a {facts.given} comes"


def check_data(plan: Plan) -> None:
    """Check that the data of the stages fit together; run once, before any batch is made.

    Raises
    ------
    InputError
        From the stage that does not fit.
    """
    stages = plan.stages
    for position, stage in enumerate(stages):
        if position > 0:
            check_items_fit(stage, stages[:position])
            stage.check(stages[:position])
    check_same_nodes(stages)
    if not any(stage.lowered for stage in stages):  # passes have taken out what reads some of it
        _check_all_is_read(stages)


def check_same_nodes(stages: Sequence[Stage]) -> None:
    """Refuse stages with other nodes than the stages before them, because ids would refer to another graph.

    Edges may differ, as where negatives have none of a whole graph and a part of it is sampled. A stage that knows of
    no types has the ids of all.

    Raises
    ------
    InputError
        Naming both stages.
    """
    first: tuple[Stage, KnownNodes] | None = None
    typed: tuple[Stage, KnownNodes] | None = None
    for stage in stages:
        for known in stage.known_nodes():
            first = first or (stage, known)
            if known.num_nodes != first[1].num_nodes:
                raise InputError(
                    f"{stage.origin.name}: expected the {first[1].num_nodes} nodes that {first[0].origin.name} has by "
                    f"{first[1].what}, got {known.num_nodes} by {known.what}; give all stages of a plan the same nodes"
                )
            if known.types is None:
                continue
            typed = typed or (stage, known)
            if known.types != typed[1].types:
                raise InputError(
                    f"{stage.origin.name}: expected the node types that {typed[0].origin.name} has, {typed[1].types}, "
                    f"got {known.types}; give all stages of a plan the same nodes"
                )


def _check_all_is_read(stages: Sequence[Stage]) -> None:
    """Refuse what a source gives and no stage behind it reads, so that it can have no effect."""
    *_, facts = facts_of(stages)
    source = facts.source
    if source is None:
        return
    if source.boundary and not facts.hops:
        raise PlanError(
            f"{source.origin.name}: expected a sampler behind it, which goes as far as "
            f"boundary={source.boundary}, got none; chain sample_in_subgraph(graph, num_hops={source.boundary}), "
            "or pass boundary=0"
        )
    if source.boundary is not None and source.boundary > facts.hops:
        raise PlanError(
            f"{source.origin.name}: expected a boundary of at most {facts.hops}, the hops of the sampler behind it, "
            f"got {source.boundary}; lower boundary, or sample more hops"
        )
    if source.seed_edge_ids is not None and (facts.exclude is None or facts.exclude.excludes != "edge_id"):
        raise PlanError(
            f'{source.name}: expected exclude_seed_edges(by="edge_id") behind items with edge_ids, got none, so that '
            "they have no effect; chain it ahead of the sampler, or leave edge_ids= out"
        )
    name = source.seed_times
    # An array of times is in the batch, where a model may read it; a name is nothing to anybody else.
    if isinstance(name, str) and all(getattr(stage, "time", None) is None for stage in stages[1:]):
        raise InputError(
            f"{source.name}: expected a sampler with time={name!r} behind seeds with times of this name, got none "
            f"that goes by times; give the sampler time={name!r}, or the source none"
        )
