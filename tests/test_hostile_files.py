"""Files and texts that were made to do harm: one sentence each, in little memory."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from oddarms import Question
from oddarms.errors import InvalidParameter
from oddarms.experiments._run import CellStore
from oddarms.json_text import parsed
from oddarms.tables import (
    _lines,
    _results,
    read_arms,
    read_counts,
    read_imports,
    read_labels,
    read_rewards,
)
from oddarms.tables._results import read_results

UNIT = (0.0, 1.0)
TICKET = "17-mzxw6ytboi4dgnbt"
READERS: dict[str, Callable[[Path], Any]] = {
    "arms": read_arms,
    "rewards": read_rewards,
    "imports": lambda path: read_imports(path, UNIT, ["a", "b"]),
    "labels": lambda path: read_labels(str(path)),
    "results": lambda path: read_results(path, UNIT),
}
LONG = _lines.MOST_CHARACTERS + 1


def refusal(call: Callable[[], Any]) -> str:
    """Return the one sentence that a call is refused with."""
    with pytest.raises(InvalidParameter) as caught:
        call()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 1_000
    return sentence


class TestLongLines:
    @pytest.mark.parametrize("reader", READERS)
    @pytest.mark.parametrize("end", ["", "\n"])
    def test_a_line_without_end(self, tmp_path: Path, reader: str, end: str) -> None:
        path = tmp_path / "file"
        path.write_text("x" * LONG + end)
        sentence = refusal(lambda: READERS[reader](path))
        assert "line 1: a line must have at most 1,048,576 characters" in sentence

    @pytest.mark.parametrize("reader", ["arms", "rewards", "imports"])
    def test_below_a_header(self, tmp_path: Path, reader: str) -> None:
        path = tmp_path / "file"
        path.write_text("arm,reward\na,1\nb," + "0" * LONG)
        assert "line 3: a line must have at most" in refusal(lambda: READERS[reader](path))

    def test_a_gold_file(self, tmp_path: Path) -> None:
        (tmp_path / "responses.txt").write_text("ann q1 yes\nbob q1 no\n")
        (tmp_path / "gold.txt").write_text("q1 " + "y" * LONG)
        sentence = refusal(lambda: read_arms(tmp_path / "responses.txt"))
        assert "gold.txt, line 1: a line must have at most" in sentence

    def test_a_row_of_endless_lines(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_text('arm,reward\n"' + '\n","' * (LONG // 4))
        assert "a row must have at most 1,048,576" in refusal(lambda: read_rewards(path))

    def test_a_long_line_that_is_real_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        label = "a" * 100_000
        path.write_text(f"arm,reward\n{label},1\r\nb,0\r\n")
        assert read_rewards(path).labels == (label, "b")


SCRIPT = """
import resource, sys
from pathlib import Path
import oddarms.tables
from oddarms.errors import InvalidParameter
from oddarms.tables import read_arms, read_imports, read_labels, read_results, read_rewards

room = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + 100 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (room, room))
for read in (
    read_arms,
    read_rewards,
    lambda path: read_imports(path, (0.0, 1.0), ["a", "b"]),
    read_labels,
    lambda path: read_results(path, (0.0, 1.0)),
):
    try:
        read(sys.argv[1])
    except InvalidParameter as error:
        print(error)
"""


class TestGzipBombs:
    @pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc")
    def test_a_line_of_many_megabytes_needs_little_memory(self, tmp_path: Path) -> None:
        path = tmp_path / "bomb.gz"
        with gzip.open(path, "wb", compresslevel=1) as file:
            for _ in range(200):
                file.write(b"0" * 2**20)
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, timeout=120
        )
        assert done.stderr == ""
        said = done.stdout.splitlines()
        assert len(said) == 5
        assert all("line 1: a line must have at most" in sentence for sentence in said)

    @pytest.mark.parametrize("reader", READERS)
    def test_endless_lines(
        self, tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_lines, "FREE_BYTES", 2**18)
        first = {"labels": "", "results": ""}.get(reader, "arm,reward\n")
        row = {"labels": "\n", "results": f"{TICKET} 1\n"}.get(reader, "a,1\n")
        path = tmp_path / "file.gz"
        path.write_bytes(gzip.compress((first + row * 400_000).encode()))
        sentence = refusal(lambda: READERS[reader](path))
        assert "must not inflate to over 100 times its size and 256 KiB but does" in sentence
        assert sentence.endswith("gunzip it first.")

    def test_in_many_members(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_lines, "FREE_BYTES", 2**18)
        path = tmp_path / "file.gz"
        path.write_bytes(gzip.compress(b"arm,reward\n") + gzip.compress(b"a,1\n" * 60_000) * 5)
        assert "must not inflate" in refusal(lambda: read_arms(path))

    def test_a_real_table_of_equal_rows_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "file.gz"
        path.write_bytes(gzip.compress(b"arm,reward\nb,0\n" + b"a,1\n" * 200_000))
        assert read_arms(path).labels == ("b", "a")


def test_labels_that_repeat_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_text("ann\nbob\nann\n\x00")
    sentence = refusal(lambda: read_labels(str(path)))
    assert sentence.endswith("line 3: labels must be unique but 'ann' appears twice.")


def test_results_beyond_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_results, "MOST_RESULTS", 3)
    path = tmp_path / "results"
    path.write_text(f"{TICKET} 1\n" * 3)
    assert len(read_results(path, UNIT)) == 3
    path.write_text(f"{TICKET} 1\n" * 4)
    assert "must have at most 3 results but has more" in refusal(lambda: read_results(path, UNIT))


BAD_JSON = {
    "deep lists": ("[" * 100_000, "it is nested too deeply"),
    "deep objects": ('{"a":' * 100_000, "it is nested too deeply"),
    "many digits": ('{"k": ' + "1" * 10**6 + "}", "limit"),
    "a name twice": ('{"k": 1, "k": 2}', "'k' is there twice"),
    "a long name twice": ("{" + f'"{"k" * 10**5}": 1,' * 2 + '"a": 1}', "is there twice"),
    "NaN": ('{"k": NaN}', "NaN is no number in JSON"),
    "infinity": ('{"k": -Infinity}', "-Infinity is no number in JSON"),
    "a text without end": ('{"' + "k" * 10**6, "Unterminated string"),
    "nothing": ("", "Expecting value"),
}


class TestJson:
    @pytest.mark.parametrize("kind", BAD_JSON)
    def test_a_question(self, kind: str) -> None:
        text, why = BAD_JSON[kind]
        sentence = refusal(lambda: Question.from_json(text))
        assert sentence.startswith("a question must be JSON but is not: ")
        assert why in sentence

    @pytest.mark.parametrize("kind", [k for k, (text, _) in BAD_JSON.items() if text[:1] == "{"])
    def test_a_result(self, kind: str, tmp_path: Path) -> None:
        text, why = BAD_JSON[kind]
        path = tmp_path / "results"
        path.write_text(f'{{"ticket": "{TICKET}", "reward": 1}}\n' + text[: 2**20] + "\n")
        sentence = refusal(lambda: read_results(path, UNIT))
        assert "line 2: the line must be a JSON object but is not: " in sentence
        assert why in sentence

    @pytest.mark.parametrize("value", ["[1]", "{}", "null", "[" * 500 + "]" * 500])
    def test_a_result_that_is_no_number(self, value: str, tmp_path: Path) -> None:
        path = tmp_path / "results"
        path.write_text(f'{{"ticket": 1, "reward": {value}}}\n')
        assert "must have a ticket and a reward but is" in refusal(lambda: read_results(path, UNIT))

    @pytest.mark.parametrize("n", [10**9, 10**18, 10**30, 10**4000], ids=lambda n: len(str(n)))
    def test_a_number_of_arms_that_fits_nowhere(self, n: int) -> None:
        text = Question(3).to_json().replace('"n": 3', f'"n": {n}')
        assert "arms must be at most 100,000,000 but got 1.00e+" in refusal(
            lambda: Question.from_json(text)
        )

    def test_a_cell_of_brackets_counts_as_not_run(self, tmp_path: Path) -> None:
        (tmp_path / "cells.jsonl").write_text("[" * 100_000 + "\n")
        store = CellStore(tmp_path)
        assert store.load() == {}
        store.close()

    def test_what_is_json_is_read(self) -> None:
        assert parsed('[{"a": {"a": 1}}, "a", -1e5, true, null]') == [
            {"a": {"a": 1}},
            "a",
            -1e5,
            True,
            None,
        ]


class TestParquet:
    @pytest.fixture
    def content(self) -> bytes:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        buffer = io.BytesIO()
        table = pyarrow.table({"arm": ["a", "b"] * 50, "reward": [0.0, 1.0] * 50})
        parquet.write_table(table, buffer)
        return buffer.getvalue()

    def test_damage_is_told_in_a_sentence(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "file.parquet"
        for place in range(0, len(content), 3):
            damaged = bytearray(content)
            damaged[place] ^= 1 << (place % 8)
            path.write_bytes(damaged)
            with suppress(InvalidParameter):
                read_rewards(path)

    def test_columns_of_one_name(self, tmp_path: Path) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        path = tmp_path / "file.parquet"
        columns = [pyarrow.array(["a", "b"]), pyarrow.array(["c", "d"]), pyarrow.array([0.0, 1.0])]
        parquet.write_table(pyarrow.table(columns, names=["arm", "arm", "reward"]), path)
        refusal(lambda: read_rewards(path))

    def test_rows_beyond_number(
        self, tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "file.parquet"
        path.write_bytes(content)
        monkeypatch.setattr("oddarms.tables._rewards._FREE_ROWS", 0)
        monkeypatch.setattr("oddarms.tables._rewards.RATIO", 0)
        assert "rows for its size but does: split it" in refusal(lambda: read_rewards(path))

    def test_a_long_label_is_kept_once(self, tmp_path: Path) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        path = tmp_path / "file.parquet"
        names = ["a" * 10**6, "b" * 10**6]
        labels = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1] * 50), names)
        table = pyarrow.table({"arm": labels, "reward": [0.0, 1.0] * 50})
        parquet.write_table(table, path, compression="zstd")
        tracemalloc.start()
        try:
            assert read_rewards(path).labels == tuple(names)
            assert tracemalloc.get_traced_memory()[1] < 20 * 10**6
        finally:
            tracemalloc.stop()

    def test_what_inflates_is_refused_before_it_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("oddarms.tables._rewards.FREE_BYTES", 2**18)
        sentence = refusal(lambda: read_rewards(written(tmp_path, ["a" * 10**6, "b"] * 10)))
        assert "must not inflate to over 100 times its size and 256 KiB but does" in sentence

    def test_a_label_that_is_longer_than_a_line(self, tmp_path: Path) -> None:
        sentence = refusal(lambda: read_rewards(written(tmp_path, ["a" * LONG, "b"])))
        assert "must have labels of at most 1,048,576 characters but one has 1,048,577" in sentence

    @pytest.mark.parametrize("arms", [[["a"], ["b"]], [{"a": 1}, {"a": 2}]], ids=str)
    def test_labels_that_are_neither_texts_nor_numbers(self, tmp_path: Path, arms: Any) -> None:
        sentence = refusal(lambda: read_rewards(written(tmp_path, arms)))
        assert "must have texts or numbers in the column 'arm' but has" in sentence

    def test_rewards_that_are_texts(self, tmp_path: Path) -> None:
        sentence = refusal(lambda: read_rewards(written(tmp_path, [0.0, 1.0], ["a", "b"])))
        assert sentence.endswith("must have numbers in the column 'reward' but has 'string'.")

    @pytest.mark.parametrize("arms", [[1, 2], [True, False], [0.5, 1.5], [b"a", b"b"]], ids=str)
    def test_labels_of_other_kinds_are_read(self, tmp_path: Path, arms: Any) -> None:
        assert read_rewards(written(tmp_path, arms)).labels == tuple(map(str, arms))

    def test_a_row_without_a_label(self, tmp_path: Path) -> None:
        sentence = refusal(lambda: read_rewards(written(tmp_path, ["a", "b", None])))
        assert sentence.endswith("must name an arm in every row but one is empty.")


def written(folder: Path, arms: list[Any], rewards: list[Any] | None = None) -> Path:
    """Return a Parquet file of arms and their rewards."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = folder / "file.parquet"
    table = pyarrow.table({"arm": arms, "reward": rewards or [1.0] * len(arms)})
    parquet.write_table(table, path, compression="zstd")
    return path


class TestOtherEncodings:
    """What a byte order mark or --encoding says changes no limit."""

    @pytest.mark.parametrize("codec", ["utf-16", "utf-32", "latin-1"])
    def test_a_line_without_end(self, tmp_path: Path, codec: str) -> None:
        path = tmp_path / "file"
        path.write_bytes(("x" * LONG).encode(codec))
        sentence = refusal(lambda: read_rewards(path, encoding="latin-1"))
        assert "line 1: a line must have at most 1,048,576 characters" in sentence

    @pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\xef\xbb\xbf"])
    @pytest.mark.parametrize("reader", READERS)
    def test_a_mark_with_noise_behind_it(self, tmp_path: Path, mark: bytes, reader: str) -> None:
        path = tmp_path / "file"
        path.write_bytes(mark + bytes(range(256)) * 3)
        assert "must" in refusal(lambda: READERS[reader](path))

    def test_an_endless_gzip_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_lines, "FREE_BYTES", 2**16)
        path = tmp_path / "file.gz"
        path.write_bytes(gzip.compress(("arm,reward\n" + "a,1\n" * 400_000).encode("utf-16")))
        assert "must not inflate to over 100 times" in refusal(lambda: read_rewards(path))


@pytest.mark.parametrize("trials", ["1e15", "9007199254740992", "1e300", "inf", "nan"])
def test_counts_beyond_number_take_no_memory(tmp_path: Path, trials: str) -> None:
    path = tmp_path / "file"
    path.write_text(f"arm,successes,trials\na,0,1\nb,1,{trials}\n")
    assert "trials must" in refusal(lambda: read_counts(path))


def test_many_counts_add_up_before_they_become_rewards(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("arm,successes,trials\n" + "a,0,10000000\nb,1,10000000\n" * 10)
    assert "trials must be at most 20,000,000 in all but are 200,000,000" in refusal(
        lambda: read_counts(path)
    )
