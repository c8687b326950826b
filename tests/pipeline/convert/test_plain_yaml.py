"""The reader of plain YAML: as PyYAML reads it, and what is not plain is refused with its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.pipeline.convert.formats.plain_yaml import parse_yaml

TEXT = """
dataset_name: "a: b"   # the name
'quoted': 'x # y'
empty:
numbers: [1, -2, 3.5, 1e3]
nodes:
- num: 3
  type: user
-
  num: 4
edges:
    - {type: "user:buys:item", path: a.csv}
    - []
nested:
  deep:
    deeper: true
  etype: [user, follow, item]
words: two words
owner's: don't "stop" # nor 'this'
'it''s': "say \\"a\\\\b\\" # \\u00e9\\n"
flow: {'a''b': "c, \\"d\\"", e: 'it''s'}
nothing: null
"""


def test_a_text():
    assert parse_yaml(TEXT, "x") == {
        "dataset_name": "a: b",
        "quoted": "x # y",
        "empty": None,
        "numbers": [1, -2, 3.5, 1000.0],
        "nodes": [{"num": 3, "type": "user"}, {"num": 4}],
        "edges": [{"type": "user:buys:item", "path": "a.csv"}, []],
        "nested": {"deep": {"deeper": True}, "etype": ["user", "follow", "item"]},
        "words": "two words",
        "owner's": 'don\'t "stop"',
        "it's": 'say "a\\b" # é\n',
        "flow": {"a'b": 'c, "d"', "e": "it's"},
        "nothing": None,
    }
    assert parse_yaml("", "x") is None


BOOLEANS = ("y", "n", "yes", "no", "on", "off")  # of YAML 1.1; PyYAML puts them into quotes
# What is put into quotes and escaped, which has no line breaks.
odd = st.text("ab \"'#:\\,[]{}-é\t\x07\U0001f600", min_size=1, max_size=6)
words = odd | st.sampled_from(["a", "b_c", "num", "type", "x y", "path", "12a", "item", "v1.0", *BOOLEANS])
numbers = st.integers(-(10**9), 10**9) | st.sampled_from([0.5, -1.25, 1e3])
plain = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=12,
)


@given(plain, st.booleans())
def test_what_pyyaml_writes_is_read(value, flow):
    yaml = pytest.importorskip("yaml")
    text = yaml.safe_dump(value, default_flow_style=flow, width=10**6)
    if text.endswith("...\n"):  # of a scalar alone
        return
    assert parse_yaml(text, "x") == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!python/object/apply:os.system [id]", "line 1"),
        ("a: &anchor 1", "line 1"),
        ("a: 1\nb: *anchor", "line 2"),
        ("a: |\n  text", "line 1"),
        ("a: 1\na: 2", "each key once"),
        ("a: [1, 2", "a comma"),
        ("a: {b}", "key: value"),
        ('a: "b', "ends with its quote"),
        ('a: "b" c', "ends with its quote"),
        ('a: "\\q"', "an escape of YAML"),
        ("a: {b: 1, b: 2}", "each key once"),
        ("a: [1] 2", "the end of the line"),
        ("a:\n\tb: 1", "got a tab"),
        ("a: 1\n  b: 2", "same indentation"),
        ("a: " + "[" * 100, "levels"),
    ],
)
def test_what_is_not_plain_is_refused(text, message):
    with pytest.raises(hr.InputError, match=message):
        parse_yaml(text, "x")
