"""Guards of a program: statements that read all rows only to raise an error, so that nothing else depends on them."""

from __future__ import annotations

import ast
import linecache
from contextlib import suppress
from functools import lru_cache
from types import FrameType

from torch import Tensor, nn

from headrace.ops.forks import ProcessLock
from headrace.pipeline.models.by_parts.users_frames import users_frames

#: What gives a truth value to more than the jump that follows.
_KEEPING = ast.BoolOp, ast.IfExp, ast.NamedExpr, ast.Lambda, ast.comprehension, ast.Compare, ast.Not

#: What may leave out the parts behind.
_JUMPING = ast.BoolOp, ast.IfExp, ast.Compare

_LEAVING = ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom


def is_read_by_guard() -> bool:
    """Whether the truth value that is asked for leads to an error, which no module around catches, or to nothing.

    So it is in ``assert`` and in ``if ...: raise``. What cannot be seen, as programs without files, is no guard.
    """
    frames = list(users_frames(of_callers=True))
    around = [number for number, frame in enumerate(frames) if _is_of_module(frame)]
    if not around:
        return False
    first, *callers = frames[: around[-1] + 1]
    statements = _statements_at(first)
    guards = [one for one in statements if _is_guard(one)]
    in_guards = {id(part) for guard in guards for part in ast.walk(guard)}
    return (
        bool(guards)
        and all(id(one) in in_guards for one in statements if _is_running(one, first.f_lineno))
        and not any(map(_may_catch, statements))
        and not any(_may_catch(one) for frame in callers for one in _statements_at(frame))
        and all(map(_statements_at, callers))
    )


def _is_of_module(frame: FrameType) -> bool:
    return isinstance(frame.f_locals.get("self"), nn.Module)


#: CPython 3.11 counts the depth of what it parses for all threads together, and fails where two parse at once.
_PARSING, _TRIALS = ProcessLock(), 5


def _parsed(source: str) -> ast.Module:
    for _ in range(_TRIALS):  # another thread of the program may parse, too
        with suppress(SystemError), _PARSING.held():
            return ast.parse(source)
    return ast.parse(source)


@lru_cache(maxsize=64)
def _statements_of(file: str) -> tuple[ast.stmt, ...]:
    try:
        tree = _parsed("".join(linecache.getlines(file)))
    except SyntaxError:
        return ()
    return tuple(one for one in ast.walk(tree) if isinstance(one, ast.stmt))


def _statements_at(frame: FrameType) -> list[ast.stmt]:
    """Return the statements around the line that runs, and those on it, in the function that runs."""
    line, code = frame.f_lineno, frame.f_code
    first = 0 if code.co_name == "<lambda>" else code.co_firstlineno  # within a statement that begins before it
    return [one for one in _statements_of(code.co_filename) if first <= one.lineno <= line <= (one.end_lineno or 0)]


def _is_running(statement: ast.stmt, line: int) -> bool:
    """Whether a line is one of a statement itself, and not of those inside of it alone."""
    body = getattr(statement, "body", None)
    return not body or line < body[0].lineno or (isinstance(statement, ast.If) and line <= _last(statement.test))


def _last(part: ast.expr) -> int:
    return part.end_lineno or part.lineno


def _is_guard(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assert | ast.If):
        return False
    if isinstance(statement, ast.If) and (
        not isinstance(statement.body[-1], ast.Raise)
        or any(isinstance(part, _LEAVING) for one in statement.body for part in ast.walk(one))
    ):
        return False
    parts = list(ast.walk(statement.test))
    calls = [one for one in parts if isinstance(one, ast.Call)]
    given = [part for call in calls for one in (*call.args, *call.keywords) for part in ast.walk(one)]
    return not (
        any(isinstance(one, ast.NamedExpr) for one in parts)
        or any(isinstance(one, _KEEPING) or getattr(one, "id", "") == "bool" for one in given)
        or (any(isinstance(one, _JUMPING) for one in parts) and not all(map(_only_computes, calls)))
    )


def _only_computes(call: ast.Call) -> bool:
    """Whether a call is one of torch by its name, so that nobody learns that it was left out."""
    name = getattr(call.func, "attr", "")
    return hasattr(Tensor, name) and not name.endswith("_")


def _may_catch(statement: ast.stmt) -> bool:
    """Whether a statement may go on behind an error inside of it."""
    if isinstance(statement, ast.With | ast.AsyncWith):
        return not all(ast.unparse(one.context_expr).startswith("torch.") for one in statement.items)
    return isinstance(statement, ast.Try) or type(statement).__name__ == "TryStar"
