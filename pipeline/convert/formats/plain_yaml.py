"""The part of YAML that descriptions of data sets use: nothing of it can name a Python object.

Mappings and lists by indentation, lists and mappings in brackets on one line, texts with or without quotes, numbers,
true, false and null. Anchors, tags, blocks of text and several documents are refused.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from headrace.ops.errors import InputError

#: A text in quotes: a backslash escapes within double ones, and a quote is doubled within single ones.
_QUOTED = r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*\'"""
#: Behind its first character a plain key may have a colon that no space follows, and what brackets mean elsewhere.
_KEY = re.compile(
    r"(" + _QUOTED + r"""|(?:[^\s\[\]{},&*!|>%@`#:?'"-]|[:?-](?=\S))(?:[^:#]|:(?=\S)|(?<=\S)#)*?)\s*:(?:\s+|$)"""
)
_FLOW_KEY = re.compile(
    r"(" + _QUOTED + r"""|(?:[^\s\[\]{},&*!|>%@`#:?'"-]|[:?-](?=[^\s,\[\]{}]))"""
    r"(?:[^:,\[\]{}]|:(?=[^\s,\[\]{}]))*?)\s*:\s*"
)
_FLOW_VALUE = re.compile(r"(" + _QUOTED + r"|[^,\[\]{}]*)")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.|$)")
_ESCAPES = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b"}
_ESCAPES |= {" ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_INT, _FLOAT = re.compile(r"[-+]?\d{1,18}$"), re.compile(r"[-+]?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?$")
_DEEPEST = 50


class _Line(NamedTuple):
    indent: int
    text: str
    number: int


def parse_yaml(text: str, what: str) -> Any:
    """Return what a text holds: dictionaries, lists, texts, numbers, booleans and None.

    Raises
    ------
    InputError
        If it is something else, with its line; it begins with `what`.
    """
    return _Parser(text, what).document()


class _Parser:
    """Reads lines one after the other."""

    def __init__(self, text: str, what: str) -> None:
        self._what = what
        self._lines: list[_Line] = []
        for number, line in enumerate(text.splitlines(), 1):
            plain = _without_comment(line)
            stripped = plain.strip()
            if not stripped or (stripped == "---" and not self._lines):
                continue
            indent = len(plain) - len(plain.lstrip(" "))
            if "\t" in plain[: len(plain) - len(plain.lstrip())]:
                raise self._error(number, "spaces before a line, got a tab")
            self._lines.append(_Line(indent, stripped, number))
        self._at = 0

    def document(self) -> Any:
        if not self._lines:
            return None
        value = self._block(self._lines[0].indent, 0)
        if self._at < len(self._lines):
            line = self._lines[self._at]
            raise self._error(line.number, f"a line of the same indentation, got {line.text[:40]!r}")
        return value

    def _block(self, indent: int, depth: int) -> Any:
        """Read all lines of one indentation."""
        if depth > _DEEPEST:
            raise self._error(self._lines[self._at].number, f"at most {_DEEPEST} levels")
        line = self._lines[self._at]
        if line.text == "-" or line.text.startswith("- "):
            return self._list(indent, depth)
        if _KEY.match(line.text):
            return self._mapping(indent, depth)
        self._at += 1
        return self._scalar(line.text, line.number)

    def _list(self, indent: int, depth: int) -> list[Any]:
        found = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.indent != indent or not (line.text == "-" or line.text.startswith("- ")):
                break
            rest = line.text[1:].strip()
            if not rest:
                self._at += 1
                found.append(self._below(indent, depth))
                continue
            # What stands behind the dash is a block of its own, as far in as it stands.
            inner = indent + len(line.text) - len(line.text[1:].lstrip())
            self._lines[self._at] = _Line(inner, rest, line.number)
            found.append(self._block(inner, depth + 1))
        return found

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._at < len(self._lines) and self._lines[self._at].indent == indent:
            line = self._lines[self._at]
            match = _KEY.match(line.text)
            if match is None:
                break
            key, rest = self._key(match.group(1), line.number), line.text[match.end() :].strip()
            if key in found:
                raise self._error(line.number, f"each key once, got {key!r} again")
            self._at += 1
            found[key] = self._scalar(rest, line.number) if rest else self._below(indent, depth, in_mapping=True)
        return found

    def _below(self, indent: int, depth: int, *, in_mapping: bool = False) -> Any:
        """Read the block that belongs to a key or a dash: further in, or a list under its key."""
        if self._at == len(self._lines):
            return None
        line = self._lines[self._at]
        is_list = line.text == "-" or line.text.startswith("- ")
        if line.indent > indent or (in_mapping and is_list and line.indent == indent):
            return self._block(line.indent, depth + 1)
        return None

    def _scalar(self, text: str, number: int) -> Any:
        if text[0] in "[{":
            value, rest = self._flow(text, number, 0)
            if rest.strip():
                raise self._error(number, f"the end of the line, got {rest[:40]!r}")
            return value
        if text[0] in "&*!|>%@`" or _KEY.match(text):
            raise self._error(number, f"a plain text or number, got {text[:40]!r}, which this version does not read")
        return self._plain(text, number)

    def _flow(self, text: str, number: int, depth: int) -> tuple[Any, str]:
        """Read a list or mapping in brackets; return it and the rest of the line."""
        if depth > _DEEPEST:
            raise self._error(number, f"at most {_DEEPEST} levels")
        close, rest = {"[": "]", "{": "}"}[text[0]], text[1:].lstrip()
        values: list[Any] = []
        keys: list[str] = []
        while not rest.startswith(close):
            if close == "}":
                match = _FLOW_KEY.match(rest)
                if match is None:
                    raise self._error(number, f"key: value in braces, got {rest[:40]!r}")
                key = self._key(match.group(1), number)
                if key in keys:
                    raise self._error(number, f"each key once, got {key!r} again")
                keys.append(key)
                rest = rest[match.end() :]
            if rest[:1] and rest[0] in "[{":
                value, rest = self._flow(rest, number, depth + 1)
            else:
                match = _FLOW_VALUE.match(rest)
                assert match is not None  # the last form takes anything
                value, rest = self._plain(match.group(1).strip(), number), rest[match.end() :]
            values.append(value)
            rest = rest.lstrip()
            if rest.startswith(","):
                rest = rest[1:].lstrip()
            elif not rest.startswith(close):
                raise self._error(number, f"{close} or a comma, got {rest[:40]!r}")
        return (dict(zip(keys, values, strict=True)) if close == "}" else values), rest[1:]

    def _key(self, text: str, number: int) -> str:
        return self._unquoted(text, number) if text[0] in "\"'" else text

    def _plain(self, text: str, number: int) -> Any:
        if text[:1] and text[0] in "\"'":
            return self._unquoted(text, number)
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if _INT.match(text):
            return int(text)
        return float(text) if _FLOAT.match(text) else text

    def _unquoted(self, text: str, number: int) -> str:
        """Return a text without its quotes and escapes."""
        if not re.fullmatch(_QUOTED, text):
            raise self._error(number, f"a text that ends with its quote on the same line, got {text[:40]!r}")
        if text[0] == "'":
            return text[1:-1].replace("''", "'")

        def plain(match: re.Match[str]) -> str:
            code = match.group(1)
            if len(code) > 1 and int(code[1:], 16) < 0x110000:
                return chr(int(code[1:], 16))
            if code not in _ESCAPES:
                raise self._error(number, f"an escape of YAML, got {match.group()!r}")
            return _ESCAPES[code]

        return _ESCAPE.sub(plain, text[1:-1])

    def _error(self, number: int, expected: str) -> InputError:
        return InputError(f"{self._what}, line {number}: expected {expected}")


def _without_comment(line: str) -> str:
    """Return a line without its comment, which is no ``#`` within quotes; quotes begin a text, and are plain in it."""
    quote, place = "", 0
    while place < len(line):
        letter = line[place]
        if quote:
            is_pair = (quote == '"' and letter == "\\") or (quote == "'" and line.startswith("''", place))
            quote = "" if letter == quote and not is_pair else quote
            place += is_pair
        elif letter in "\"'":
            before = line[:place].rstrip()
            quote = letter if not before or before[-1] in "[{,:-" else ""
        elif letter == "#" and (place == 0 or line[place - 1] in " \t"):
            return line[:place]
        place += 1
    return line
