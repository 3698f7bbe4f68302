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
from oddarms.experiments import read_crowd
from oddarms.tables import read_labels, read_results, read_rewards, read_totals

pytest.importorskip("pandas")

UNIT = (0.0, 1.0)
TICKET = "17.3.204.9f86d081884c7d65"
READERS: dict[str, Callable[[Path], Any]] = {
    "crowd": read_crowd,
    "rewards": read_rewards,
    "totals": read_totals,
    "labels": lambda path: read_labels(str(path)),
    "results": lambda path: read_results(path, UNIT),
}
LONG = 2**20 + 2**18
A_LINE = "a line has more than 1,048,576 bytes"
INFLATES = "a compressed file may unpack to 256 MiB plus 100 times its size"


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
        assert A_LINE in sentence or "'xxx" in sentence  # no column of that name

    @pytest.mark.parametrize("reader", ["crowd", "rewards", "totals"])
    @pytest.mark.parametrize("codec", ["utf-8", "utf-16", "utf-32"])
    def test_below_a_header(self, tmp_path: Path, reader: str, codec: str) -> None:
        path = tmp_path / "file"
        path.write_bytes(("arm,reward\na,1\nb," + "0" * LONG).encode(codec))
        assert A_LINE in refusal(lambda: READERS[reader](path))

    def test_a_long_line_that_is_real_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        label = "a" * 100_000
        path.write_text(f"arm,reward\n{label},1\r\nb,0\r\n")
        assert read_rewards(path).labels == [label, "b"]


SCRIPT = """
import resource, sys
from pathlib import Path
import pandas, pyarrow
from oddarms.errors import InvalidParameter
from oddarms.experiments import read_crowd
from oddarms.tables import read_labels, read_results, read_rewards, read_totals

room = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + 100 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (room, room))
for read in (read_crowd, read_rewards, read_totals, read_labels, lambda p: read_results(p, (0, 1))):
    for path in sys.argv[1:]:
        try:
            read(path)
        except InvalidParameter as error:
            print(error)
"""


class TestGzipBombs:
    @pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc")
    def test_a_line_of_many_megabytes_needs_little_memory(self, tmp_path: Path) -> None:
        zeros = gzip.compress(b"0" * 2**20, 1)  # members that follow each other are one file
        paths = [tmp_path / name for name in ("line.gz", "rows.gz")]
        for path, header in zip(paths, (b"", b"arm,reward\n"), strict=True):
            path.write_bytes(gzip.compress(header) + zeros * 200)
        command = [sys.executable, "-c", SCRIPT, *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.stderr == ""
        said = done.stdout.splitlines()
        assert len(said) == 10
        early = (A_LINE, "columns are '000", "one of '000", "a ticket is an id")
        assert all(any(rule in sentence for rule in early) for sentence in said)

    @pytest.mark.parametrize("reader", READERS)
    def test_endless_lines(
        self, tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("oddarms.tables._files.MAX_INFLATED", 2**18)
        first = {"labels": "", "results": ""}.get(reader, "arm,reward\n")
        row = {"labels": "\n", "results": f"{TICKET} 1\n"}.get(reader, "a,1\n")
        path = tmp_path / "file.gz"
        path.write_bytes(gzip.compress((first + row * 300_000).encode()))
        assert INFLATES in refusal(lambda: READERS[reader](path))

    def test_a_real_table_of_equal_rows_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "file.gz"
        path.write_bytes(gzip.compress(b"arm,reward\nb,0\n") + gzip.compress(b"a,1\n" * 200_000))
        assert read_totals(path).counts.tolist() == [1, 200_000]


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("reader", READERS)
def test_a_mark_with_noise_behind_it(tmp_path: Path, mark: bytes, reader: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(mark + bytes(range(256)) * 3)
    assert refusal(lambda: READERS[reader](path))


def test_labels_that_repeat_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_text("ann\nbob\nann\n")
    sentence = refusal(lambda: read_labels(str(path)))
    assert sentence.endswith("line 3: the label 'ann' appears twice.")


def test_results_beyond_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oddarms.tables._files.MAX_RESULTS", 3)
    path = tmp_path / "results"
    path.write_text(f"{TICKET} 1\n" * 3)
    assert len(read_results(path, UNIT)) == 3
    path.write_text(f"{TICKET} 1\n" * 4)
    assert "the file has more than 3 results" in refusal(lambda: read_results(path, UNIT))


@pytest.mark.parametrize("trials", ["1e17", "1e300", "inf", "nan", "-1", "9" * 400])
def test_counts_beyond_number_take_no_memory(tmp_path: Path, trials: str) -> None:
    path = tmp_path / "file"
    path.write_text(f"arm,events,trials\na,0,1\nb,1,{trials}\n")
    assert "events must be a whole number from 0 to trials" in refusal(lambda: read_totals(path))
    path.write_text("arm,events,trials\na,0,1\nb,1,1e15\n")
    assert "At most 20,000,000" in refusal(lambda: read_rewards(path))


BAD_JSON = {
    "deep lists": ("[" * 100_000, "it is nested too deeply"),
    "deep objects": ('{"a":' * 100_000, "it is nested too deeply"),
    "many digits": ('{"k": ' + "1" * 10**6 + "}", "limit"),
    "a name twice": ('{"k": 1, "k": 2}', "'k' appears twice"),
    "a long name twice": ("{" + f'"{"k" * 10**5}": 1,' * 2 + '"a": 1}', "appears twice"),
    "NaN": ('{"k": NaN}', "NaN is not valid in JSON"),
    "infinity": ('{"k": -Infinity}', "-Infinity is not valid in JSON"),
    "a text without end": ('{"' + "k" * 10**6, "Unterminated string"),
    "nothing": ("", "Expecting value"),
}


class TestJson:
    @pytest.mark.parametrize("kind", BAD_JSON)
    def test_a_question(self, kind: str) -> None:
        text, why = BAD_JSON[kind]
        sentence = refusal(lambda: Question.from_json(text))
        assert sentence.startswith("This question is not valid JSON: ")
        assert why in sentence

    @pytest.mark.parametrize("value", ["[1]", "{}", "null", "[" * 500 + "]" * 500])
    def test_a_result_that_is_no_number(self, value: str, tmp_path: Path) -> None:
        path = tmp_path / "results"
        path.write_text(f'{{"ticket": 1, "reward": {value}}}\n')
        assert "expected a ticket and a reward, but" in refusal(lambda: read_results(path, UNIT))

    @pytest.mark.parametrize("n", [10**9, 10**18, 10**30, 10**4000], ids=lambda n: len(str(n)))
    def test_a_number_of_arms_that_fits_nowhere(self, n: int) -> None:
        text = Question(3).to_json().replace('"n": 3', f'"n": {n}')
        assert "At most 100,000,000 arms are possible, but got 1.00e+" in refusal(
            lambda: Question.from_json(text)
        )


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
                read_totals(path)

    def test_columns_of_one_name(self, tmp_path: Path) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        path = tmp_path / "file.parquet"
        columns = [pyarrow.array(["a", "b"]), pyarrow.array(["c", "d"]), pyarrow.array([0.0, 1.0])]
        parquet.write_table(pyarrow.table(columns, names=["arm", "arm", "reward"]), path)
        refusal(lambda: read_totals(path))

    def test_a_long_label_is_kept_once(self, tmp_path: Path) -> None:
        pyarrow = pytest.importorskip("pyarrow")

        names = ["a" * 10**6, "b" * 10**6]
        labels = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1] * 50), names)
        path = written(tmp_path, labels, [0.0, 1.0] * 50)
        tracemalloc.start()
        try:
            assert read_totals(path).labels == names
            assert tracemalloc.get_traced_memory()[1] < 20 * 10**6
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize("most", [0, 2**18])
    def test_what_inflates_is_refused_before_it_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
    ) -> None:
        monkeypatch.setattr("oddarms.tables._files.MAX_INFLATED", most)
        path = written(tmp_path, ["a" * 10**6, "b"] * 10)
        assert INFLATES in refusal(lambda: read_totals(path))

    def test_a_label_that_is_longer_than_a_line(self, tmp_path: Path) -> None:
        path = written(tmp_path, ["a" * LONG, "b"])
        assert "label of the arm has more than 1,048,576 characters" in refusal(
            lambda: read_totals(path)
        )

    @pytest.mark.parametrize("arms", [[["a"], ["b"]], [{"a": 1}, {"a": 2}]], ids=str)
    def test_labels_that_are_neither_texts_nor_numbers(self, tmp_path: Path, arms: Any) -> None:
        sentence = refusal(lambda: read_totals(written(tmp_path, arms)))
        assert "the column 'arm' must have texts or numbers, but its type" in sentence

    @pytest.mark.parametrize("arms", [[1, 2], [True, False], [0.5, 1.5]], ids=str)
    def test_labels_of_other_kinds_are_read(self, tmp_path: Path, arms: Any) -> None:
        assert read_totals(written(tmp_path, arms)).labels == list(map(str, arms))

    def test_a_row_without_a_label(self, tmp_path: Path) -> None:
        sentence = refusal(lambda: read_totals(written(tmp_path, ["a", "b", None])))
        assert sentence.endswith("row 3: the label of the arm is missing.")


def written(folder: Path, arms: Any, rewards: list[Any] | None = None) -> Path:
    """Return a Parquet file of arms and their rewards."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = folder / "file.parquet"
    table = pyarrow.table({"arm": arms, "reward": rewards or [1.0] * len(arms)})
    parquet.write_table(table, path, compression="zstd")
    return path
