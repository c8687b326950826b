"""Rules and keys as kernels know them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from headrace.ops import _native
from headrace.ops._arrays import as_key
from headrace.ops.errors import InputError
from headrace.ops.random.dependency import BlendedKey
from headrace.ops.sampling.rules import ByRelation, HopRule, Rule

if TYPE_CHECKING:
    from headrace.ops.sampling.typed_rows import TypedRows


def check_rule(rule: Rule, stage: str) -> None:
    """Refuse what is no rule.

    Raises
    ------
    InputError
        Saying what rules there are.
    """
    if not isinstance(rule, Rule):
        message = (
            f"{stage}: expected a rule to be one of headrace.ops.sampling.rules, such as NeighborRule, got {rule!r}"
        )
        raise InputError(message)


def native_rule(rule: Rule, by_weight: bool, stage: str) -> _native.Rule:
    """Return the rule as the kernels of the CPU know it."""
    check_rule(rule, stage)
    if by_weight and not rule.traits.takes_weights:
        message = f"{stage}: expected no weights for {rule}, which does not draw, got some; leave weights= out"
        raise InputError(message)
    return _as_native(rule, by_weight)


@lru_cache(maxsize=1024)
def _as_native(rule: Rule, by_weight: bool) -> _native.Rule:
    """Make it once: a plan has a few rules, and asks for them in every batch."""
    return _native.Rule(rule.kind, rule.count, rule.rounds, by_weight)


def native_rules(rule: HopRule, by_weight: bool, rows: TypedRows | None, stage: str) -> list[_native.Rule]:
    """Return one rule for each range of destinations of a graph with types; one alone for a graph without.

    Raises
    ------
    InputError
        If the rule is not for as many relations as the graph has.
    """
    if rows is None:
        if isinstance(rule, ByRelation):
            message = f"{stage}: expected a rule for a graph without types, got one by relation; pass rows="
            raise InputError(message)
        return [native_rule(rule, by_weight, stage)]
    if not isinstance(rule, ByRelation) or len(rule.rules) != len(rows.relations):
        message = f"{stage}: expected ByRelation with a rule for each of {len(rows.relations)} relations, got {rule}"
        raise InputError(message)
    return [native_rule(rule.rules[owner], by_weight, stage) for owner in rows.native[1]]


def native_keys(key: int | BlendedKey, rule: HopRule, stage: str) -> _native.Keys:
    """Return the key, or both of them, as the kernels of the CPU know them."""
    if not isinstance(key, BlendedKey):
        return as_key(key, stage=stage)
    if not rule.has_edge_variates:
        message = f"{stage}: expected an int as the key of {rule}, as LABOR alone blends variates, got {key}"
        raise InputError(message)
    return _native.VariateKeys(key.key, key.next_key, key.step, key.num_steps)
