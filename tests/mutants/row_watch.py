"""Faults in the watch of modules between layers: where rows are, what their operations do to them, and when it runs."""

from __future__ import annotations

from mutants.mutant import Mutant

_PARTS = "pipeline/models/by_parts/"
_MODULES = "pipeline/models/watched_modules.py"
_TESTS = "tests/behaviour/models/test_row_watch_of_users.py::"
_MIXED = _TESTS + "test_a_module_of_a_user_that_mixes_rows_is_refused_with_its_line"
_TAKEN = _TESTS + "test_a_module_of_a_user_that_works_row_by_row_passes_without_a_word"
_NUMBERS = "tests/behaviour/models/test_row_watch_of_numbers.py::"
_GUARDS = "tests/behaviour/models/test_row_watch_of_guards.py::test_other_branches_by_all_rows_are_refused"
_SHARDS = "tests/behaviour/models/sar/test_row_watch_of_shards.py::"

ROW_WATCH = (
    Mutant(
        _PARTS + "row_watch.py",
        "max(dims, key=value.stride)",
        "dims[-1]",
        _TESTS + "test_as_many_rows_as_columns[rows]",
    ),
    Mutant(
        _PARTS + "row_watch.py",
        "if is_other and one.dim() >= -place and one.shape[place] > 1:",
        "if False:",
        _MIXED + "[by a table]",
    ),
    Mutant(
        _PARTS + "row_watch.py",
        "if len(places) > 1 and plain not in SEVERAL_PLACES:",
        "if False:",
        _MIXED + "[rows with rows]",
    ),
    Mutant(
        _PARTS + "row_counts.py",
        "if place.number > _FEW:",
        "if False:",
        _MIXED + "[by the root of their number]",
    ),
    Mutant(
        _PARTS + "row_counts.py",
        "has.is_constant(one) if is_count else has.has_number(one, self._widths)",
        "has.is_constant(one) if is_count else True",
        _NUMBERS + "test_a_number_that_depends_on_how_many_rows_there_are_is_refused[a local variable]",
    ),
    Mutant(
        _PARTS + "row_counts.py",
        "for name in code.co_freevars if name not in running",
        "for name in code.co_freevars",
        _NUMBERS + "test_a_number_that_depends_on_how_many_rows_there_are_is_refused[a closure]",
    ),
    Mutant(
        _PARTS + "row_watch.py",
        "one.grad_fn is not None or not self._numbers.elsewhere.has_tensor(one)",
        "one.grad_fn is not None",
        _NUMBERS + "test_tensors_of_operations_that_cannot_be_seen_are_refused[of a number]",
    ),
    Mutant(
        _PARTS + "row_places.py",
        "return Place(dim, stride // step, number, mask, space)",
        "return Place(dim, 1, number, mask, space)",
        _TAKEN + "[merged with heads]",
    ),
    Mutant(
        _PARTS + "row_rules.py",
        "return place - len([one for one in _along(plain, args, kwargs) if one % rows.dim() < place])",
        "return place",
        _TAKEN + "[summed before]",
    ),
    Mutant(
        _MODULES,
        "plain = forward.plain if original is None else original",
        "plain = forward.plain",
        _TESTS + "test_the_original_of_a_compiled_module_is_watched[module]",
    ),
    Mutant(
        _MODULES,
        "forward.modes.discard(module.training)",
        "forward.modes.clear()",
        _SHARDS + "test_modules_are_watched_once_in_each_mode_and_copies_keep_no_channel",
    ),
    Mutant(
        _PARTS + "row_watch.py",
        "return place is not None and place.dim == 0 and place.mask == storage_of(mask)",
        "return place is not None and place.dim == 0",
        _MIXED + "[chosen by two masks]",
    ),
    Mutant(
        _PARTS + "guards.py",
        "not isinstance(statement.body[-1], ast.Raise)",
        "False",
        _GUARDS + "[branches]",
    ),
    Mutant(
        _PARTS + "guards.py",
        "and not any(_may_catch(one) for frame in callers for one in _statements_at(frame))",
        "and True",
        _GUARDS + "[catches]",
    ),
    Mutant(
        _PARTS + "guards.py",
        "and not all(map(_only_computes, calls))",
        "and False",
        _GUARDS + "[notes_some]",
    ),
    Mutant(
        _MODULES,
        "ranks.tell(error)",
        "pass",
        _TESTS + "test_a_refusal_reaches_ranks_that_do_not_refuse",
    ),
)
