"""Objects as bytes and back: nothing changes, nothing foreign is made, and damage is seen."""

from __future__ import annotations

import collections
import functools
import io
import json
import math
import threading
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, Flag, IntEnum, StrEnum, auto
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import VARIANTS, ticket_number
from oddarms import Question, Search
from oddarms.algorithms import Algorithm, Decision, Pulls, Threshold, _registry, register
from oddarms.errors import InvalidParameter
from oddarms.freezing import freeze, thaw
from oddarms.testing import AlgorithmConformance, Streams, drive

HERE = ["test_freezing"]


class Point(NamedTuple):
    x: float
    y: Any


@dataclass(frozen=True)
class Fixed:
    name: str
    counts: Any = field(default_factory=list)


class Plain:
    """What an algorithm is: attributes, some of them its own kind."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Colour(Enum):
    RED = (1, 0, 0)
    GREEN = (0, 1, 0)


class Word(StrEnum):
    YES = auto()


class Level(IntEnum):
    HIGH = 3


class Switch(Flag):
    A = auto()
    B = auto()


def _code(*_arguments: Any, **_more: Any) -> Any:
    raise AssertionError("this is code of the class")


class Touchy:
    __init__ = __new__ = __setattr__ = __setstate__ = __getstate__ = __reduce__ = _code


class TouchyPair(NamedTuple("TouchyPair", [("a", int), ("b", int)])):
    __slots__ = ()
    __new__ = _make = _code


class Mood(Enum):
    GOOD = 1
    _missing_ = _code


def again(value: Any) -> Any:
    return thaw(freeze(value), HERE)


PLAIN = [
    None,
    True,
    False,
    0,
    -(2**200),
    2**63,
    1.5,
    -0.0,
    5e-324,
    math.inf,
    -math.inf,
    "",
    'text with " and \\ and \n and \x00 and é and 𝄞 and \ud800',
    (),
    (1, (2.0, "three")),
    [],
    [[1], [2, [3]]],
    {},
    {"a": 1, "tree": 2, "object": 3},
    {1: "int", "1": "text", (1, 2): "tuple", None: 0, 2.5: [1], False: 1},
    set(),
    {3, "a", (1, 2), None},
    frozenset({1, "1", 2.5}),
    Point(1.0, [2]),
    Colour.GREEN,
    Word.YES,
    Level.HIGH,
    Switch.B,
    Point,
    Decision.HIGH,
    Decision,
]


class TestRoundTrips:
    @pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
    def test_plain_values_and_containers(self, value: Any) -> None:
        found = again(value)
        assert found == value
        assert type(found) is type(value)
        assert repr(found) == repr(value) or isinstance(value, set | frozenset)

    def test_not_a_number(self) -> None:
        assert math.isnan(again(math.nan))
        assert math.isnan(again([math.nan])[0])

    def test_order_of_keys(self) -> None:
        assert list(again({"b": 1, "a": 2, "c": 3})) == ["b", "a", "c"]

    @pytest.mark.parametrize(
        "value",
        [
            np.float64(0.1),
            np.float32(0.1),
            np.float16(0.1),
            np.float64(-np.inf),
            np.int8(-128),
            np.uint64(2**64 - 1),
            np.int64(-(2**63)),
            np.bool_(True),
        ],
        ids=repr,
    )
    def test_numpy_scalars_keep_their_type(self, value: Any) -> None:
        found = again(value)
        assert type(found) is type(value)
        assert found == value
        assert np.isnan(again(np.float32("nan")))

    @pytest.mark.parametrize(
        "array",
        [
            np.array([0.1, np.nan, -np.inf, -0.0]),
            np.array([1, -1], dtype=np.int8),
            np.array([True, False]),
            np.array([2**64 - 1], dtype=np.uint64),
            np.arange(24, dtype=np.int64).reshape(2, 3, 4),
            np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            np.arange(12)[::-3],
            np.array(3.5),
            np.empty(0),
            np.empty((0, 3), dtype=np.int8),
            np.array(["a", "beta"]),
            np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
            np.array([1, 2], dtype=">i4"),
            np.array(["2020-01-01"], dtype="datetime64[D]"),
        ],
        ids=lambda a: f"{a.dtype}{a.shape}",
    )
    def test_arrays(self, array: Any) -> None:
        found = again(array)
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()
        assert found.flags.f_contiguous == (array.flags.f_contiguous or found.size <= 4)
        assert found.flags.writeable

    def test_arrays_that_may_not_be_written(self) -> None:
        array = np.arange(3.0)
        array.setflags(write=False)
        found = again([array, np.zeros(2)])
        assert not found[0].flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            found[0][0] = 1.0
        found[1][0] = 1.0

    def test_named_tuples(self) -> None:
        pulls = again(Pulls(np.array([1, 2]), np.array([3, 4])))
        assert type(pulls) is Pulls
        assert pulls.total == 7

    def test_instances(self) -> None:
        fixed = again(Fixed("a", [Fixed("b"), Point(1, 2)]))
        assert fixed == Fixed("a", [Fixed("b"), Point(1, 2)])
        plain = again(Plain(a=1, array=np.arange(2)))
        assert list(vars(plain)) == ["a", "array"]

    def test_nothing_of_a_class_is_called(self) -> None:
        touchy = object.__new__(Touchy)
        vars(touchy)["a"] = 1
        found = again([touchy, tuple.__new__(TouchyPair, (1, 2)), Mood.GOOD])
        assert vars(found[0]) == {"a": 1}
        assert tuple(found[1]) == (1, 2)
        assert found[2] is Mood.GOOD


class TestSharing:
    def test_what_is_shared_stays_shared(self) -> None:
        array, items = np.zeros(3), [1]
        rng = np.random.default_rng(1)
        inner = Plain(array=array, rng=rng)
        outer = again(Plain(a=inner, b=inner, array=array, items=(items, {"k": items}), rng=rng))
        assert outer.a is outer.b
        assert outer.a.array is outer.array
        assert outer.a.rng is outer.rng
        assert outer.items[0] is outer.items[1]["k"]
        outer.a.array[0] = 7.0
        assert outer.array[0] == 7.0

    def test_what_is_only_equal_stays_apart(self) -> None:
        one, two = again([[1], [1]])
        assert one is not two
        a, b = again([np.zeros(2), np.zeros(2)])
        assert not np.shares_memory(a, b)

    def test_cycles(self) -> None:
        items: list[Any] = [1]
        items.append(items)
        found = again(items)
        assert found[1] is found
        parent = Plain(name="parent")
        parent.child = Plain(parent=parent, pair=(parent, 1))  # type: ignore[attr-defined]
        found = again(parent)
        assert found.child.parent is found
        assert found.child.pair[0] is found
        table: dict[str, Any] = {}
        table["self"] = table
        found = again(table)
        assert found["self"] is found

    def test_a_temporary_is_not_mistaken_for_another(self) -> None:
        class_state = [np.random.default_rng(i) for i in range(50)]  # their states are made anew
        found = again(class_state)
        assert [rng.random() for rng in found] == [
            np.random.default_rng(i).random() for i in range(50)
        ]


KINDS = ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"]


class TestGenerators:
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_same_draws_and_the_same_children(self, kind: str) -> None:
        rng = np.random.Generator(getattr(np.random, kind)(5))
        rng.spawn(3)
        rng.random(7)
        rng.integers(0, 10, dtype=np.uint32)  # leaves half a draw behind
        found = again(rng)
        assert found.integers(0, 10, 5, dtype=np.uint32).tolist() == (
            rng.integers(0, 10, 5, dtype=np.uint32).tolist()
        )
        assert found.random(5).tolist() == rng.random(5).tolist()
        assert found.standard_normal(5).tolist() == rng.standard_normal(5).tolist()
        for one, two in zip(found.spawn(2), rng.spawn(2), strict=True):
            assert one.random(3).tolist() == two.random(3).tolist()
            assert one.bit_generator.seed_seq.spawn_key == two.bit_generator.seed_seq.spawn_key

    @pytest.mark.parametrize("seed", [None, 7, [1, 2, 3], np.array([4, 5]), 2**100])
    def test_any_seed(self, seed: Any) -> None:
        rng = np.random.default_rng(seed)
        found = again(rng)
        assert found.spawn(1)[0].random() == rng.spawn(1)[0].random()
        assert found.random() == rng.random()

    def test_children_of_children(self) -> None:
        rng = np.random.default_rng(1).spawn(2)[1].spawn(3)[2]
        found = again(rng)
        assert found.spawn(1)[0].random() == rng.spawn(1)[0].random()

    def test_a_generator_goes_on_where_it_was_saved(self) -> None:
        rng = np.random.default_rng(3)
        data = freeze(rng)
        rng.random(10)
        assert thaw(data).random() == np.random.default_rng(3).random()


class TestSameBytes:
    def test_each_time(self) -> None:
        def value() -> Any:
            rng = np.random.default_rng(1)
            shared = np.arange(5.0)
            return {"rng": rng, "a": [shared, shared], "set": {"b", "a", 3, None}, "p": Plain(x=1)}

        first = freeze(value())
        assert freeze(value()) == first
        assert freeze(thaw(first, HERE)) == first

    def test_frozen_again_after_being_thawed(self) -> None:
        for value in PLAIN:
            assert freeze(again(value)) == freeze(value)

    def test_not_in_the_order_of_hashes(self) -> None:
        """The hash of a text differs from process to process; the order of insertion stands in."""
        words = [f"word {i}" for i in range(20)]
        backwards = words[::-1]
        assert freeze(set(words)) == freeze(set(backwards))
        assert freeze(frozenset(words)) == freeze(frozenset(backwards))

    def test_the_value_is_left_alone(self) -> None:
        rng = np.random.default_rng(1)
        freeze(rng)
        assert rng.random() == np.random.default_rng(1).random()


class Whole(int):
    pass


class Items(list):  # type: ignore[type-arg]
    pass


class Pair(tuple):  # type: ignore[type-arg]
    pass


class Slotted:
    __slots__ = ("x",)


class HalfSlotted(Slotted):
    """Has a `__dict__`, and x beside it."""


class Callable:
    def __call__(self) -> None:
        raise NotImplementedError


class Grid(np.ndarray):  # type: ignore[type-arg]
    pass


def _pair_with_attribute() -> Pair:
    pair = Pair((1, 2))
    pair.extra = 1  # type: ignore[attr-defined]
    return pair


class _OwnSeeds(np.random.bit_generator.ISpawnableSeedSequence):
    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        return np.ones(n_words, dtype=dtype)

    def spawn(self, n_children: int) -> Any:
        raise NotImplementedError(n_children)


def _deep() -> Any:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


REFUSED = {
    "function": lambda: test_freezing_function,
    "lambda": lambda: lambda: 0,
    "method": lambda: [].append,
    "built-in": lambda: len,
    "partial": lambda: functools.partial(int, 3),
    "callable": Callable,
    "lock": threading.Lock,
    "file": io.BytesIO,
    "module": lambda: math,
    "bytes": lambda: b"bytes",
    "complex": lambda: 1j,
    "slice": lambda: slice(1),
    "generator": lambda: (i for i in ()),
    "exception": lambda: ValueError("a"),
    "subclass of int": lambda: Whole(4),
    "subclass of list": lambda: Items([1]),
    "subclass of tuple with attributes": _pair_with_attribute,
    "subclass of dict": lambda: collections.OrderedDict(a=1),
    "defaultdict": lambda: collections.defaultdict(list),
    "Counter": lambda: collections.Counter("ab"),
    "deque": lambda: collections.deque([1]),
    "subclass of an array": lambda: np.zeros(2).view(Grid),
    "masked array": lambda: np.ma.masked_array([1, 2], [True, False]),
    "slots": Slotted,
    "slots beside attributes": HalfSlotted,
    "array of objects": lambda: np.array([None, []], dtype=object),
    "numpy text": lambda: np.str_("a"),
    "numpy date": lambda: np.datetime64("2020-01-01"),
    "numpy complex": lambda: np.complex128(1j),
    "flags": lambda: Switch.A | Switch.B,
    "set of objects": lambda: {Fixed("a", ())},
    "objects that are keys": lambda: {(1, Fixed("a", ())): 1},
    "seed of lists in lists": lambda: np.random.default_rng([[1, 2], [3]]),
    "seed of many bits": lambda: np.random.default_rng(1 << 4096),
    "seeds of its own": lambda: np.random.Generator(np.random.PCG64(_OwnSeeds())),
    "too many digits": lambda: 10**10_000,
    "too deep": _deep,
}


def test_freezing_function() -> None:
    """A function, for what is refused."""


class TestRefusals:
    @pytest.mark.parametrize("kind", REFUSED)
    @pytest.mark.parametrize("inside", [lambda x: x, lambda x: {"a": (1, [x])}], ids=["", "inside"])
    def test_what_cannot_come_back_as_it_was(self, kind: str, inside: Any) -> None:
        with pytest.raises(InvalidParameter, match=r"^a state to be saved must be .*\.$"):
            freeze(inside(REFUSED[kind]()))

    def test_the_sentence_names_the_culprit(self) -> None:
        with pytest.raises(InvalidParameter, match=r"plain data but has <function test_freezing"):
            freeze(Plain(hook=test_freezing_function))
        with pytest.raises(InvalidParameter, match=r"plain data but has 4 \(Whole\)\.$"):
            freeze(Whole(4))

    def test_a_class_that_could_not_be_found_again(self) -> None:
        class Local:
            pass

        for value in (Local, Local(), [Local()]):
            with pytest.raises(InvalidParameter, match=r"classes that a module defines.*Local"):
                freeze(value)


def forged(root: Any, *objects: Any, **changes: Any) -> bytes:
    """Return bytes as `freeze` writes them, with a tree of one's own."""
    tree = json.dumps({"format": 1, "root": root, "objects": objects, **changes})
    buffer, content = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array(content, np.frombuffer(tree.encode(), dtype=np.uint8))
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("tree.npy", content.getvalue())
    return buffer.getvalue()


FOREIGN = [
    "subprocess:Popen",
    "builtins:eval",
    "builtins:object",
    "os:system",
    "oddarms.executors._ray:subprocess.Popen",  # what a module of ours has imported is not ours
    "oddarms.files:Path",
    "oddarms.freezing._packing:zipfile.ZipFile",
    "oddarms.studies._database:threading.Thread",
    "oddarms.freezing:freeze",
    "oddarms.freezing._tree:freeze",
    "oddarms.freezing._tree:np",
    "oddarms:studies._study.Study",
    "oddarms:Search",  # its module is another one
    "oddarms.__main__:main",
    "oddarms.nowhere:Search",
    "oddarms.freezing:Nothing",
    "oddarms.freezing:",
    "oddarms.freezing",
    "oddarmsevil:X",
    ".oddarms:X",
    "",
    "test_freezing:Plain",
    "numpy:ndarray",
]


class TestForeignClasses:
    @pytest.mark.parametrize("name", FOREIGN)
    def test_are_not_made_in_any_way(self, name: str, tmp_path: Path) -> None:
        touched = tmp_path / "touched"
        command = ["touch", str(touched)]
        instance = {"instance": name, "dict": [["args", {"object": 1}]]}
        for data in (
            forged({"class": name}),
            forged({"enum": name, "name": "A"}),
            forged({"enum": name, "value": command}),
            forged({"named": name, "tuple": [{"tuple": command}]}),
            forged({"object": 0}, instance, {"list": command}),
        ):
            with pytest.raises(InvalidParameter, match="damaged"):
                thaw(data)
        assert not touched.exists()

    def test_a_class_must_be_of_the_kind_that_is_asked_for(self) -> None:
        for data in (
            forged({"enum": "oddarms.search._search:Search", "name": "ask"}),
            forged({"named": "oddarms.search._search:Search", "tuple": []}),
            forged({"object": 0}, {"instance": "oddarms.algorithms._base:Pulls", "dict": []}),
            forged({"object": 0}, {"instance": "oddarms.algorithms._base:Algorithm", "dict": []}),
        ):
            with pytest.raises(InvalidParameter, match="damaged"):
                thaw(data)

    def test_of_a_package_that_was_not_named(self) -> None:
        data = freeze(Plain(a=1))
        assert thaw(data, ["test_freezing"]).a == 1
        with pytest.raises(InvalidParameter, match="test_freezing is not a package whose classes"):
            thaw(data)
        with pytest.raises(InvalidParameter, match="is not a package whose classes"):
            thaw(data, ["test"])

    def test_our_own_are_always_made(self) -> None:
        assert type(thaw(freeze(Pulls(np.zeros(1), np.zeros(1))))) is Pulls

    def test_no_pickle(self) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, tree=np.array([{"a": 1}], dtype=object))
        with pytest.raises(InvalidParameter, match="damaged"):
            thaw(buffer.getvalue())
        for file in Path(freeze.__code__.co_filename).parent.glob("*.py"):
            source = file.read_text()
            assert "allow_pickle=True" not in source
            assert "import pickle" not in source


EXAMPLE = {
    "rng": np.random.default_rng(1),
    "array": np.arange(50.0),
    "items": [1, None, "text", (1.5, {2})],
    "plain": Plain(inner=Fixed("a"), colour=Colour.RED, scalar=np.float32(0.1)),
    "noise": np.random.default_rng(2).random(300),
}
FROZEN = freeze(EXAMPLE)


KEYS = ["object", "scalar", "value", "enum", "name", "class", "named", "tuple", "frozenset", "set"]
KEYS += ["list", "dict", "array", "writeable", "generator", "kind", "state", "seed", "instance"]


def refused_or_the_same(data: bytes) -> None:
    """Fail unless bytes are refused as damaged, or hold what was frozen (a date, say, is spare)."""
    with suppress(InvalidParameter):
        assert freeze(thaw(data, HERE)) == FROZEN


class TestDamage:
    @given(st.data())
    @settings(max_examples=300)
    def test_bytes_changed(self, data: st.DataObject) -> None:
        changed = bytearray(FROZEN)
        for _ in range(data.draw(st.integers(1, 3))):
            changed[data.draw(st.integers(0, len(FROZEN) - 1))] = data.draw(st.integers(0, 255))
        refused_or_the_same(bytes(changed))

    def test_any_one_bit_flipped(self) -> None:
        """Every byte of the first and last kilobyte, where the structure is, and every 7th else."""
        places = {*range(1000), *range(len(FROZEN) - 1000, len(FROZEN)), *range(0, len(FROZEN), 7)}
        for place in sorted(places):
            changed = bytearray(FROZEN)
            changed[place] ^= 1 << (place % 8)
            refused_or_the_same(bytes(changed))

    @given(st.integers(0, len(FROZEN) - 1))
    @settings(max_examples=100)
    def test_cut(self, length: int) -> None:
        with pytest.raises(InvalidParameter, match="damaged"):
            thaw(FROZEN[:length], HERE)

    @given(st.integers(0, len(FROZEN)), st.integers(1, 400))
    def test_a_piece_missing_or_doubled(self, start: int, length: int) -> None:
        refused_or_the_same(FROZEN[:start] + FROZEN[start + length :])
        refused_or_the_same(FROZEN[: start + length] + FROZEN[start:])

    @given(st.binary(max_size=200))
    def test_garbage(self, data: bytes) -> None:
        for garbage in (data, b"PK\x03\x04" + data, b"\x93NUMPY" + data):
            with pytest.raises(InvalidParameter, match="damaged"):
                thaw(garbage)

    def test_another_kind_of_file(self) -> None:
        array = io.BytesIO()
        np.save(array, np.zeros(3))
        for data in (array.getvalue(), b"SQLite format 3\x00" + b"\x00" * 100, b"{}", b""):
            with pytest.raises(InvalidParameter, match="damaged"):
                thaw(data)

    def test_a_format_of_the_future(self) -> None:
        assert thaw(forged(3)) == 3
        with pytest.raises(InvalidParameter, match="its format is 2, not 1"):
            thaw(forged(3, format=2))

    nodes = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(KEYS),
                inner,
                max_size=3,
            )
        ),
        max_leaves=6,
    )

    @given(nodes, st.lists(nodes, max_size=2))
    @settings(max_examples=80)
    def test_a_tree_of_nonsense(self, root: Any, objects: list[Any]) -> None:
        """Plain values come out, or it is refused; nothing else is raised."""
        try:
            found = thaw(forged(root, *objects))
        except InvalidParameter:
            return
        plain = (bool, str, int, float, tuple, frozenset, set, list, dict, np.generic, np.ndarray)
        assert found is None or isinstance(found, plain)

    @pytest.mark.parametrize(
        "data",
        [
            forged({"tuple": [1, {}, 2]}),
            forged({"object": 0}, {"list": [1, {}, 2]}),
            forged({"object": 0}, {}),
            forged({"object": 1}, {"list": []}),
            forged({"object": 0}, {"array": 0, "writeable": True}),
            forged({"object": 0}, {"generator": {"kind": "Generator", "state": {}, "seed": {}}}),
            forged({"object": 0}, {"set": [{"object": 0}]}),
            forged({"scalar": "O", "value": 1}),
            forged({"scalar": "i1", "value": 300}),
            forged([1]),
            forged({"object": 0}, {"list": [{"tuple": [{"object": 0}]}]}, format="1"),
        ],
    )
    def test_trees_that_do_not_hold_together(self, data: bytes) -> None:
        with pytest.raises(InvalidParameter, match="damaged"):
            thaw(data)

    def test_a_tree_without_bottom(self) -> None:
        depth = 200_000
        tree = '{"format": 1, "root": ' + '{"tuple": [' * depth + "]}" * depth + ', "objects": []}'
        buffer, content = io.BytesIO(), io.BytesIO()
        np.lib.format.write_array(content, np.frombuffer(tree.encode(), dtype=np.uint8))
        with zipfile.ZipFile(buffer, "w") as file:
            file.writestr("tree.npy", content.getvalue())
        with pytest.raises(InvalidParameter, match="damaged"):
            thaw(buffer.getvalue())


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.floats(width=32, allow_nan=False).map(np.float32),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=4)
        | st.builds(Point, st.floats(allow_nan=False), inner)
    ),
    max_leaves=8,
)


@given(values)
@settings(max_examples=50)
def test_any_tree_comes_back(value: Any) -> None:
    found = again(value)
    assert found == value
    assert repr(found) == repr(value)
    assert freeze(found) == freeze(value)


ALGORITHMS = {
    **VARIANTS,
    "spade": ("spade", {}),
    "spade in small steps": ("spade", {"max_step": 4, "indifference": 0.05}),
}


@given(
    st.sampled_from(sorted(ALGORITHMS)),
    st.sampled_from(["upper", "lower", "both"]),
    st.sampled_from([0.0, 1.5, -0.5]),
    st.integers(0, 40),
    st.integers(1, 10),
    st.integers(0, 2**32),
    st.booleans(),
)
@settings(max_examples=30)
def test_a_search_saved_at_any_step_goes_on_exactly(
    variant: str, side: Any, k: float, before: int, after: int, seed: int, asked: bool
) -> None:
    name, options = ALGORITHMS[variant]

    def fresh() -> Search:
        return Search(6, k=k, delta=0.1, algorithm=name, side=side, rng=seed, **options)

    one = fresh()
    means = [0.1, 0.9, 0.2, 0.3, 0.15, 0.5]
    drive(one, Streams(means), steps=before)
    if asked and not one.done:
        one.ask_step()
    data = one.to_bytes()
    two = Search.from_bytes(one.question, data)
    assert two.to_bytes() == data
    first, second = (drive(s, Streams(means, range(9, 15)), steps=after) for s in (one, two))
    assert first.to_dict() == second.to_dict()
    assert one.to_bytes() == two.to_bytes()


@pytest.mark.parametrize("steps", [4, pytest.param(8, marks=pytest.mark.long)])
def test_a_search_of_many_arms_saved_at_any_step_goes_on_exactly(steps: int) -> None:
    means = np.random.default_rng(1).random(300)  # the other certificate of SPADE
    one = Search(300, k=1.0, delta=0.1, side="both", rng=1)
    for _ in range(steps):
        two = Search.from_bytes(one.question, one.to_bytes())
        for search in (one, two):
            drive(search, Streams(means.tolist()), steps=1)
        assert one.to_bytes() == two.to_bytes()


def test_results_of_a_step_in_progress_are_saved_and_tickets_are_not() -> None:
    question = Question("abc", k=0.5, algorithm="rr", options={"batch": 2})
    one = Search(question, rng=1)
    tickets = one.ask(4)
    one.tell(tickets[3], 0.5)
    one.tell(tickets[0], 0.25)
    one.import_rewards({"c": [1.0]})
    two = Search.from_bytes(question, one.to_bytes())
    assert two.result().to_dict() == one.result().to_dict()
    places = [(ticket.arm, ticket.place) for ticket in two.ask(10, ahead=0.0)]
    missing = [(ticket.arm, ticket.place) for ticket in (*tickets[1:3], *one.ask(10, ahead=0.0))]
    assert sorted(places) == sorted(missing)
    with pytest.raises(InvalidParameter, match="ticket must be one that is out"):
        two.tell(f"{ticket_number(tickets[1]) + 100}", 0.5)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nothing of ours",
        freeze({}),
        freeze([1]),
        freeze({"version": 0}),
        Search(6, algorithm="rr").to_bytes(),
    ],
)
def test_what_is_no_search_of_the_question(data: bytes) -> None:
    with pytest.raises(InvalidParameter):
        Search.from_bytes(Question(6), data)


class Naive(Algorithm):
    """Pulls every arm, and never decides; a frame for faults."""

    def propose(self, limit: int) -> Pulls:  # noqa: ARG002
        return Pulls(np.arange(self.n), np.ones(self.n, dtype=np.int64))

    def absorb(self, pulls: Pulls, sums: Any, squares: Any) -> None:  # noqa: ARG002
        self._count(pulls, sums)
        self.round += 1

    def intervals(self) -> Any:
        return np.zeros(self.n), np.ones(self.n)

    def threshold(self) -> Threshold:
        return Threshold(0.5, 0.0, 1.0)


class WithFunction(Naive):
    def __init__(self, n: int, **arguments: Any) -> None:
        super().__init__(n, **arguments)
        self.hook = lambda: 0


class WithForeign(Naive):
    def __init__(self, n: int, **arguments: Any) -> None:
        super().__init__(n, **arguments)
        self.kind = io.StringIO


class WithView(Naive):
    """Counts through a view, which is no view any more once it was saved."""

    def __init__(self, n: int, **arguments: Any) -> None:
        super().__init__(n, **arguments)
        self.first = self.pulls[:1]

    def absorb(self, pulls: Pulls, sums: Any, squares: Any) -> None:
        super().absorb(pulls, sums, squares)
        self.first += 1


class WithOutsideState(Naive):
    """Keeps what it knows outside itself."""

    rounds: ClassVar[list[int]] = []

    def absorb(self, pulls: Pulls, sums: Any, squares: Any) -> None:
        super().absorb(pulls, sums, squares)
        self.rounds.append(1)
        self.sums += len(self.rounds)


class TestTheConformanceSuite:
    @pytest.fixture
    def suite(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setattr(_registry, "_registered", dict(_registry._registered))

        def suite_of(algorithm: type[Algorithm]) -> AlgorithmConformance:
            register(algorithm.__name__.lower(), algorithm)
            conformance = AlgorithmConformance()
            conformance.algorithm = algorithm.__name__.lower()  # type: ignore[misc]
            conformance.short_budget = 60  # type: ignore[misc]
            return conformance

        return suite_of

    def test_of_another_package_passes(self, suite: Any) -> None:
        suite(Naive).test_a_saved_state_goes_on_exactly()

    @pytest.mark.parametrize(
        ("faulty", "words"),
        [
            (WithFunction, r"withfunction must have a state that studies can save, but .*lambda"),
            (WithForeign, r"classes of test_freezing, but .*io is not a package whose classes"),
            (WithView, "all of its state must be in its attributes, and no array a view"),
            (WithOutsideState, "must go on as it would have"),
        ],
    )
    def test_states_that_cannot_be_saved(
        self, suite: Any, faulty: type[Algorithm], words: str
    ) -> None:
        with pytest.raises(AssertionError, match=words):
            suite(faulty).test_a_saved_state_goes_on_exactly()
