"""A state is copied as far as the object that returned it may go on to change it."""

from __future__ import annotations

from headrace.pipeline.data.own_state import own_state


class Source:
    def __init__(self) -> None:
        self.numbers, self.names = [1, 2], {"a": [1]}

    def state(self):
        return {"numbers": self.numbers, "of": {"names": self.names}, "list": [self.numbers, 3], "pair": (self.names,)}


def test_what_is_held_elsewhere_is_copied():
    source = Source()
    state = own_state(source.state())
    source.numbers.append(3)
    source.names["a"].append(9)
    source.names["b"] = 4
    assert state == {"numbers": [1, 2], "of": {"names": {"a": [1]}}, "list": [[1, 2], 3], "pair": ({"a": [1]},)}


def test_what_was_made_for_the_state_is_not_copied():
    state = {"numbers": list(range(9)), "of": {"list": [[1, 2]]}}
    addresses = id(state["numbers"]), id(state["of"]["list"][0])
    owned = own_state(state)
    assert (id(owned["numbers"]), id(owned["of"]["list"][0])) == addresses
