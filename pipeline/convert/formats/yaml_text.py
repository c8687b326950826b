"""YAML as PyYAML parses it, with the words and numbers of YAML 1.2: ``no`` and ``on`` are texts.

Tags, anchors and aliases are refused: nothing in a text can name a Python object, or repeat a part of itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from headrace.ops.errors import InputError
from headrace.ops.optional import require

_NAMES = {"null": None, "true": True, "false": False}
_WORDS: dict[str, bool | None] = {"": None, "~": None}
_WORDS |= {word: value for name, value in _NAMES.items() for word in (name, name.capitalize(), name.upper())}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

_DEEPEST = 50
_STANDARD_TAG = "tag:yaml.org,2002:"


def parse_yaml(text: str, what: str) -> Any:
    """Return the content of a text: dictionaries, lists, texts, numbers, booleans and None.

    Raises
    ------
    InputError
        If it is not YAML, or has a repeated key, a tag, an anchor or an alias, with its line; it begins with `what`.
    ModuleNotFoundError
        If PyYAML is not installed.
    """
    yaml = require("yaml", extra="convert", stage=f"convert: {what}")
    try:
        return _Document(yaml, yaml.parse(text, Loader=yaml.SafeLoader), what).value()
    except yaml.MarkedYAMLError as cause:
        mark = cause.problem_mark or cause.context_mark
        line = "" if mark is None else f", line {mark.line + 1}"
        raise InputError(f"convert: {what}{line}: expected YAML, but {cause.problem or cause.context}") from cause
    except yaml.YAMLError as cause:  # a character that YAML has not
        raise InputError(f"convert: {what}: expected YAML, but {cause}; correct the file") from cause


class _Document:
    """Makes values of the events of a parser."""

    def __init__(self, yaml: Any, events: Iterator[Any], what: str) -> None:
        self._yaml, self._events, self._what = yaml, events, what

    def value(self) -> Any:
        """Return the value of the only document; None of an empty text."""
        next(self._events)  # the start of the stream
        if isinstance(next(self._events), self._yaml.StreamEndEvent):
            return None
        content = self._node(next(self._events), 0)
        next(self._events)  # the end of the document
        behind = next(self._events)
        if not isinstance(behind, self._yaml.StreamEndEvent):
            raise self._error(behind, "one document, got a second one; remove it")
        return content

    def _node(self, event: Any, depth: int) -> Any:
        if isinstance(event, self._yaml.AliasEvent):
            raise self._error(event, f"no aliases, got *{event.anchor}; write the value there again")
        if event.anchor is not None:
            raise self._error(event, f"no anchors, got &{event.anchor}; remove it")
        if event.tag is not None:
            tag = event.tag.replace(_STANDARD_TAG, "!!", 1)
            raise self._error(event, f"no tags, got {tag[:60]}; remove it")
        if depth > _DEEPEST:
            raise self._error(event, f"at most {_DEEPEST} levels, got more")
        if isinstance(event, self._yaml.MappingStartEvent):
            return self._mapping(depth)
        if isinstance(event, self._yaml.SequenceStartEvent):
            return [self._node(each, depth + 1) for each in self._until(self._yaml.SequenceEndEvent)]
        return event.value if event.style is not None else self._plain(event)

    def _mapping(self, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for event in self._until(self._yaml.MappingEndEvent):
            if not isinstance(event, self._yaml.ScalarEvent):
                raise self._error(event, "texts as keys, got a list, a mapping or an alias; write a text")
            self._node(event, depth)  # refuses tags
            if event.value in fields:
                raise self._error(event, f"each key once, got {event.value!r} again; remove one")
            fields[event.value] = self._node(next(self._events), depth + 1)
        return fields

    def _until(self, end: Any) -> Iterator[Any]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _plain(self, event: Any) -> Any:
        text = event.value
        if text in _WORDS:
            return _WORDS[text]
        if _INT.fullmatch(text):
            try:
                return int(text, 0) if text[1:2] in ("x", "o") else int(text)
            except ValueError as cause:  # of thousands of digits
                raise self._error(event, f"YAML, but {cause}; correct it") from cause
        return float(text) if _FLOAT.fullmatch(text) else text

    def _error(self, event: Any, expected: str) -> InputError:
        return InputError(f"convert: {self._what}, line {event.start_mark.line + 1}: expected {expected}")
