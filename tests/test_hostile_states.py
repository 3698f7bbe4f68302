"""States that were made to do harm: one sentence, in little memory and time."""

from __future__ import annotations

import copy
import functools
import io
import itertools
import json
import math
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddarms import Question, Search
from oddarms.errors import InvalidParameter, OddarmsError
from oddarms.freezing import _packing, freeze, thaw

TREE = {"format": 1, "root": None, "objects": []}
MEGABYTE = 2**20


def array_file(array: Any) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, np.asarray(array))
    return content.getvalue()


def header_of(shape: object, kind: str = "<f8") -> bytes:
    """Return an array of the shape without what is in it."""
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def packed(tree: Any = TREE, method: int = zipfile.ZIP_DEFLATED, **files: bytes) -> bytes:
    """Return a state of files of one's own; a tree is JSON, or its text."""
    text = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method, compresslevel=9) as file:
        file.writestr("tree.npy", array_file(np.frombuffer(text, dtype=np.uint8)))
        for name, content in files.items():
            file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def one_array(content: bytes) -> bytes:
    tree = {**TREE, "root": {"object": 0}, "objects": [{"array": 0, "writeable": True}]}
    return packed(tree, a0=content)


@functools.cache
def bomb() -> bytes:
    """Return a third of a megabyte that is three hundred of zeros."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        with file.open("tree.npy", "w") as entry:
            entry.write(array_file(np.frombuffer(json.dumps(TREE).encode(), dtype=np.uint8)))
        with file.open("a0.npy", "w") as entry:
            for _ in range(300):
                entry.write(bytes(MEGABYTE))
    return buffer.getvalue()


def understated_bomb() -> bytes:
    """Return a bomb whose directory says that it is a hundred bytes long."""
    data = bytearray(bomb())
    place = data.rindex(b"a0.npy") - 46 + 24  # the size, in the central directory
    data[place : place + 4] = (100).to_bytes(4, "little")
    return bytes(data)


def nested(opening: bytes, depth: int, closing: bytes = b"") -> bytes:
    inside = opening * depth + closing * depth
    return b'{"format": 1, "root": ' + inside + b', "objects": []}'


def generator(**changes: Any) -> bytes:
    """Return a generator with parts of its state, its buffer or its seed changed."""
    seed = {"entropy": 1, "spawn_key": {"tuple": []}, "pool_size": 4, "n_children_spawned": 0}
    inner = {"key": {"object": 3}, "pos": changes.pop("pos", 0)}
    more = changes.pop("more", [])
    seed.update(changes)
    objects = [
        {
            "generator": {
                "kind": "MT19937",
                "state": {"object": 1},
                "seed": {"object": 4},
            }
        },
        {"dict": [["bit_generator", "MT19937"], ["state", {"object": 2}]]},
        {"dict": list(inner.items())},
        {"array": 0, "writeable": True},
        {"dict": list(seed.items())},
        *more,
    ]
    tree = {**TREE, "root": {"object": 0}, "objects": objects}
    return packed(tree, a0=array_file(np.arange(624, dtype=np.uint32)))


def doubling(first: int, depth: int = 40) -> list[Any]:
    """Return lists, each of the next one twice: as a tree they would be 2^40 large."""
    lists = [{"list": [{"object": i + 1}, {"object": i + 1}]} for i in range(first, first + depth)]
    return [*lists, {"list": [1]}]


def doubling_key() -> bytes:
    """Return a set of an instance whose hash is that of its parts, each of the next one twice."""
    kind = "oddarms.problem:Question"
    twice = [{"tuple": [{"object": i + 1}, {"object": i + 1}]} for i in range(1, 41)]
    others = ["delta", "bounds", "side", "budget", "rule", "algorithm"]
    rest: list[Any] = [["labels", {"tuple": []}], ["_options", {"tuple": []}]]
    rest += [[name, 0] for name in others]
    made = [{"instance": kind, "dict": [["k", k], *rest]} for k in [*twice, 1]]
    objects = [{"set": [{"object": 1}]}, *made]
    return packed({**TREE, "root": {"object": 0}, "objects": objects})


def alike(kind: str, count: int = 20_000) -> bytes:
    """Return a set or a dictionary of numbers that all have the hash 0."""
    numbers = [i * (2**61 - 1) for i in range(count)]
    objects: dict[str, Any] = {
        "set": {"set": numbers},
        "frozenset": {"list": [{"frozenset": numbers}]},
        "dict": {"dict": [[number, None] for number in numbers]},
    }
    return packed({**TREE, "root": {"object": 0}, "objects": [objects[kind]]})


def pairs_alike(count: int = 10_000) -> bytes:
    """Return a set of pairs of numbers of 64 bits that have one hash, as CPython's are made."""
    first, second, fifth = 11400714785074694791, 14029467366897019727, 2870177450012600261
    inverse, mask = pow(second, -1, 2**64), 2**64 - 1
    pairs = []
    for number in itertools.count(1):
        mixed = (fifth + number * second) & mask
        mixed = ((mixed << 31) | (mixed >> 33)) * first & mask
        other = (-mixed * inverse) & mask
        if other < 2**61 - 1:
            pairs.append({"tuple": [number, other]})
        if len(pairs) == count:
            break
    return packed({**TREE, "root": {"object": 0}, "objects": [{"set": pairs}]})


def without_tree() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a0.npy", array_file(np.zeros(1)))
    return buffer.getvalue()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "megabytes of zeros": bomb,
    "megabytes of zeros that say they are less": understated_bomb,
    "a header of terabytes": lambda: one_array(header_of((10**12,))),
    "a header whose product overflows": lambda: one_array(header_of((2**32, 2**32))),
    "a header with sizes below 0": lambda: one_array(header_of((-1, -1)) + bytes(8)),
    "a header of nothing, often": lambda: one_array(header_of((10**15,), "|S0")),
    "a header of brackets": lambda: one_array(header_of("(" * 4000)),
    "a header of a large kind": lambda: one_array(header_of((1,), f"|S{2**31 - 1}")),
    "an array with bytes left over": lambda: one_array(array_file(np.zeros(3)) + b"more"),
    "megabytes of brackets": lambda: packed(b"[" * (20 * MEGABYTE)),
    "megabytes of empty objects": lambda: packed(
        b'{"format": 1, "root": null, "objects": [' + b"{}," * (10 * MEGABYTE) + b"{}]}"
    ),
    "brackets to any depth": lambda: packed(nested(b"[", 100_000, b"]")),
    "tuples to any depth": lambda: packed(nested(b'{"tuple": [', 100_000, b"]}")),
    "a number of a million digits": lambda: packed(b'{"format": ' + b"1" * 10**6 + b"}"),
    "a class whose name is a megabyte": lambda: packed({**TREE, "root": {"class": "a" * 10**6}}),
    "a pool of seeds of gigabytes": lambda: generator(pool_size=2**30),
    "a generator behind its buffer": lambda: generator(pos=10**6),
    "a generator before its buffer": lambda: generator(pos=-1),
    "entropy that doubles": lambda: generator(entropy={"object": 5}, more=doubling(5)),
    "a key of a seed that doubles": lambda: generator(
        spawn_key={"tuple": [{"object": 5}]}, more=doubling(5)
    ),
    "a place in a buffer that doubles": lambda: generator(pos={"object": 5}, more=doubling(5)),
    "entropy of too many bits": lambda: generator(entropy=1 << 4096),
    "entropy of too many numbers": lambda: generator(
        entropy={"object": 5}, more=[{"list": [1] * 4097}]
    ),
    "a member of a set whose hash doubles": doubling_key,
    "a set of numbers of one hash": lambda: alike("set"),
    "a frozen set of numbers of one hash": lambda: alike("frozenset"),
    "keys of one hash": lambda: alike("dict"),
    "pairs of one hash": pairs_alike,
    "a number that is a list": lambda: packed({**TREE, "root": {"scalar": "f8", "value": [1, 2]}}),
    "lzma, whose header says how much memory it takes": lambda: packed(method=zipfile.ZIP_LZMA),
    "bzip2": lambda: packed(method=zipfile.ZIP_BZIP2),
    "no tree": without_tree,
}


def states() -> dict[str, tuple[Question, bytes]]:
    """Return real states of every algorithm: new, under way, with what waits, and at the end."""
    rng = np.random.default_rng(0)
    found: dict[str, tuple[Question, bytes]] = {}
    for algorithm, side in itertools.product(("spade", "ade", "rr", "wrr"), ("upper", "both")):
        question = Question(6, k=1.0, delta=0.1, algorithm=algorithm, side=side, budget=5_000)
        search = Search(question, rng=1)
        for moment in range(4):
            found[f"{algorithm} {side} {moment}"] = (question, search.to_bytes())
            search.import_rewards({2: [0.5, 1.0], 4: [0.25]})
            for ticket in search.ask(9, ahead=1.0)[1:]:
                search.tell(ticket, rng.random())
            search.skip_many(list(search._out))
            for _ in range(3):
                if not search.done:
                    search.tell_step(rng.random(search.ask_step().total))
    return found


ODD_VALUES: list[Any] = [
    None, True, -1, 0, 7, 10**6, 2**62, -(2**70), 10**100, 0.5, -1.5, 1e308, math.nan, math.inf,
    "", "text", "a0", [], {}, {"tuple": []}, {"object": 0}, {"object": 1}, {"object": 10**6},
    {"class": "oddarms.search._search:Search"}, {"scalar": "<f8", "value": -3.0},
]  # fmt: skip
ODD_NUMBERS = [-1, 0, 1, 5, 6, 7, 100, 2**31, 2**62, -(2**63), math.nan, math.inf, -0.5, 1e300]


def places_in(node: Any) -> list[tuple[Any, Any]]:
    """Return each place in a tree: what holds it, and where in it."""
    found: list[tuple[Any, Any]] = []
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        found.append((node, key))
        found += places_in(node[key])
    return found


def changed_array(array: Any, rng: random.Random) -> Any:
    kind = rng.randrange(5)
    if kind == 0:
        return array[: rng.randrange(array.size + 1)] if array.ndim == 1 else array.ravel()
    if kind == 1:
        return np.concatenate([array.ravel(), array.ravel()])
    if kind == 2:
        return array.astype(rng.choice(["f8", "i8", "i1", "?", "S3", "c16", "U2", "f2"]))
    if kind == 3:
        return array.reshape((1, *array.shape))
    copy = array.copy()
    if copy.size:
        with suppress(OverflowError, ValueError):
            copy.flat[rng.randrange(copy.size)] = rng.choice(ODD_NUMBERS)
    return copy


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return a state with one to three values of its tree or arrays changed."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        arrays = {
            name.removesuffix(".npy"): np.load(io.BytesIO(file.read(name)))
            for name in file.namelist()
        }
    tree = json.loads(arrays.pop("tree").tobytes())
    for _ in range(rng.randrange(1, 4)):
        if rng.random() < 0.4:
            name = rng.choice(sorted(arrays))
            arrays[name] = changed_array(arrays[name], rng)
            continue
        places = places_in(tree["objects"])
        inside, key = rng.choice(places)
        other, other_key = rng.choice(places)
        value = rng.choice([rng.choice(ODD_VALUES), copy.deepcopy(other[other_key])])
        if isinstance(inside, list) and rng.random() < 0.2:
            del inside[key]
        else:
            inside[key] = value
    return packed(tree, **{name: array_file(array) for name, array in arrays.items()})


def use(search: Search) -> None:
    """Do with a search what one does."""
    search.result()
    search.progress()
    tickets = search.ask(5)
    for ticket in tickets[:3]:
        search.tell(ticket, 0.5)
    search.skip_many(tickets[3:])
    search.import_rewards({1: [0.5]})
    for _ in range(3):
        if not search.done:
            total = search.ask_step().total
            if not 0 < total < 10**6:  # a figure that is wrong, and says so
                return
            search.tell_step(np.full(total, 0.5))
    search.result().to_dict()
    search.to_bytes()


def fuzz(seed: int, known: dict[str, tuple[Question, bytes]]) -> bool:
    """Return whether a mutated state was read; fail if anything but a sentence comes of it."""
    rng = random.Random(seed)
    question, data = known[rng.choice(sorted(known))]
    sentence = None
    try:
        use(Search.from_bytes(question, mutated(data, rng)))
    except OddarmsError as error:
        sentence = str(error)
    assert sentence is None or len(sentence.splitlines()) == 1, seed
    return sentence is None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # figures that are wrong may overflow
@pytest.mark.parametrize(
    "seeds", [range(80), pytest.param(range(80, 3_000), marks=pytest.mark.long)], ids=len
)
def test_mutated_states_are_refused_or_go_on(seeds: range) -> None:
    known = states()
    read = [fuzz(seed, known) for seed in seeds]
    assert 0.02 < sum(read) / len(read) < 0.98


def test_real_states_are_read() -> None:
    for question, data in states().values():
        search = Search.from_bytes(question, data)
        assert search.to_bytes() == data
        use(search)


@pytest.mark.parametrize("name", ["version", "asked", "told", "status", "n", "rule", "pulls", "S"])
@pytest.mark.parametrize("value", [np.zeros(3), None, -1, math.nan, "text", [[]]], ids=str)
def test_a_part_that_is_of_another_kind(name: str, value: Any) -> None:
    question = Question(6, k=1.0, algorithm="ade")
    state = thaw(Search(question).to_bytes())
    parts = state if name in state else vars(state["algorithm"])
    parts[name] = value
    with pytest.raises(InvalidParameter, match=r"^a saved search must be"):
        Search.from_bytes(question, freeze(state))


def test_an_attribute_must_not_hide_a_method() -> None:
    kind = "oddarms.algorithms._round_robin:RR"
    for name in ("propose", "absorb", "_next_arm", "__init__"):
        node = {"instance": kind, "dict": [[name, {"class": kind}]]}
        with pytest.raises(InvalidParameter, match=f"an attribute is called '{name}'"):
            thaw(packed({**TREE, "root": {"object": 0}, "objects": [node]}))


SCRIPT = """
import resource, sys
from pathlib import Path
from oddarms import Question, Search
from oddarms.errors import InvalidParameter
from oddarms.freezing import thaw

room = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + 250 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (room, room))
for path in sorted(Path(sys.argv[1]).iterdir()):
    for read in (thaw, lambda data: Search.from_bytes(Question(3), data)):
        try:
            read(path.read_bytes())
        except InvalidParameter as error:
            lines = str(error).splitlines()
            assert len(lines) == 1 and len(lines[0]) < 400, (path.name, error)
            assert not isinstance(error.__cause__, MemoryError), path.name
            print(path.name)
        else:
            raise AssertionError(path.name)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc")
def test_hostile_states_get_one_sentence_in_little_memory(tmp_path: Path) -> None:
    for name, made in HOSTILE.items():
        (tmp_path / name).write_bytes(made())
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )
    assert done.stderr == ""
    assert sorted(done.stdout.splitlines()) == sorted([*HOSTILE, *HOSTILE])


@pytest.fixture
def little_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_packing, "FREE_BYTES", MEGABYTE)


@pytest.mark.usefixtures("little_is_free")
def test_a_state_that_is_mostly_zeros_is_read_again() -> None:
    """Where deflating would make it look like a bomb, it is kept as it is."""
    zeros = np.zeros(MEGABYTE)
    data = freeze(zeros)
    assert len(data) > zeros.nbytes
    assert thaw(data).nbytes == zeros.nbytes
    expected = zeros.nbytes
    small = freeze(zeros, expected=expected)
    assert len(small) < zeros.nbytes / 100
    assert thaw(small, expected=expected).nbytes == zeros.nbytes
    with pytest.raises(InvalidParameter, match=r"bytes would become 8,"):
        thaw(small)


@pytest.mark.usefixtures("little_is_free")
def test_a_tree_of_many_equal_rewards_is_read_again() -> None:
    rewards = [0.0] * (_packing.FREE_BYTES // _packing.TREE_SHARE // 4)
    assert thaw(freeze({"waiting": rewards})) == {"waiting": rewards}


@pytest.mark.parametrize("algorithm", ["spade", "rr", "ade"])
def test_the_state_of_many_arms_is_read_again_and_small(algorithm: str) -> None:
    question = Question(100_000, algorithm=algorithm, side="both")
    search = Search(question, rng=1)
    data = search.to_bytes()
    assert len(data) < 10 * question.n
    assert Search.from_bytes(question, data).to_bytes() == data
