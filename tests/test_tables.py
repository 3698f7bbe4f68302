"""Reading tables: every layout, every way in which a file can be wrong; and writing CSV."""

from __future__ import annotations

import csv
import errno
import gzip
import hashlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import DATA
from oddarms.arms import Table
from oddarms.errors import InvalidParameter
from oddarms.tables import (
    RecordedArms,
    Transform,
    csv_text,
    neutralised,
    read_arms,
    read_counts,
    read_imports,
    read_rewards,
)
from oddarms.theory import outliers, threshold

Write = Callable[..., Path]

RESPONSES = "ann q1 yes\nbob q1 no\nann q2 no\nbob q2 no\n"
GOLD = "q1 yes\nq2 no\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file into an empty directory."""

    def write_file(content: str | bytes, name: str = "data.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


TypeIn = Callable[[bytes], None]


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> TypeIn:
    """Return a function that puts bytes into stdin."""

    def put(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    return put


def rejected(path: Path, rule: str, **options: Any) -> str:
    """Assert that a file is refused in one sentence that has the rule and names the file."""
    with pytest.raises(InvalidParameter, match=re.escape(rule)) as caught:
        read_arms(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert str(path.parent) in message
    return message


def records_of(arms: RecordedArms) -> dict[str, list[float]]:
    assert arms.records is not None
    return {label: rewards.tolist() for label, rewards in arms.records.items()}


class TestRewards:
    def test_a_row_per_pull(self, write: Write) -> None:
        arms = read_arms(write("arm,reward\nb,1\na,0\nb,0.5\n"))
        assert arms.labels == ("b", "a")
        assert arms.means.tolist() == [0.75, 0.0]
        assert arms.means.dtype == np.float64
        assert records_of(arms) == {"b": [1.0, 0.5], "a": [0.0]}
        assert (arms.left_out, arms.source, arms.layout) == (0, "data.csv", "arm,reward")
        assert not arms.binary

    def test_rewards_of_0_and_1_are_binary(self, write: Write) -> None:
        assert read_arms(write("arm,reward\na,1\nb,0.0\nb,1e0\n")).binary

    @pytest.mark.parametrize("delimiter", [",", ";", "\t"])
    def test_delimiters(self, write: Write, delimiter: str) -> None:
        text = "arm,reward,note\na,1,x\nb,0,y\n".replace(",", delimiter)
        assert records_of(read_arms(write(text))) == {"a": [1.0], "b": [0.0]}

    @pytest.mark.parametrize("header", ["Arm, REWARD", "\ufeffarm,reward", '"arm","reward"'])
    def test_headers_are_matched_loosely(self, write: Write, header: str) -> None:
        assert read_arms(write(f"{header}\n a ,1\nb, 0 \n")).labels == ("a", "b")

    def test_other_columns_are_ignored_and_reward_goes_before_mean(self, write: Write) -> None:
        arms = read_arms(write("mean,reward,when,arm\n9,1,now,a\n9,0,now,b\n9,0,then,a\n"))
        assert records_of(arms) == {"a": [1.0, 0.0], "b": [0.0]}

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_blank_lines_and_line_ends(self, write: Write, end: str) -> None:
        text = "\n  \narm,reward\n\na,1\n,\n   \nb,0\n\n".replace("\n", end)
        path = write(text)
        assert read_arms(path).labels == ("a", "b")
        path.write_text(f"{text}c,2{end}", newline="")
        rejected(path, "line 10: reward must lie within [0, 1] but is '2'")

    def test_quoted_names_keep_delimiters_and_line_ends(self, write: Write) -> None:
        path = write('arm,reward\n"Smith, ""J""",1\n"two\nlines",0\nc,x\n')
        rejected(path, "line 5: reward must be a finite number but is 'x'")
        path.write_text(path.read_text().removesuffix("c,x\n"))
        assert read_arms(path).labels == ('Smith, "J"', "two\nlines")

    @pytest.mark.parametrize("name", ["data.csv.gz", "data.txt"])
    def test_gzip_is_recognised_by_content(self, write: Write, name: str) -> None:
        arms = read_arms(write(gzip.compress(b"arm,reward\na,1\nb,0\n"), name))
        assert arms.labels == ("a", "b")
        assert arms.source == name

    def test_the_path_may_be_text(self, write: Write) -> None:
        assert read_arms(str(write("arm,reward\na,1\nb,0\n"))).labels == ("a", "b")

    def test_a_table_is_made_of_them(self, write: Write) -> None:
        arms = read_arms(write("arm,reward\nb,1\na,0\nb,0.5\n"))
        assert arms.records is not None
        table = Table(arms.records, rng=1)
        assert table.labels == arms.labels
        assert table.means.tolist() == arms.means.tolist()

    def test_named_columns(self, write: Write) -> None:
        path = write("when;Worker;wrong\n1;ann;-2\n2;bob;3\n")
        arms = read_rewards(path, arm="worker", reward="wrong", bounds=(-2, 3))
        assert records_of(arms) == {"ann": [-2.0], "bob": [3.0]}
        assert (arms.source, arms.layout) == ("data.csv", "worker,wrong")
        with pytest.raises(InvalidParameter, match=r"line 2: wrong must lie within \[0, 1\]"):
            read_rewards(path, arm="worker", reward="wrong")
        with pytest.raises(InvalidParameter, match=r"line 1: .* 'arm' and 'wrong' but .* 'when'"):
            read_rewards(path, reward="wrong")

    def test_a_file_is_known_by_its_bytes(self, write: Write, type_in: TypeIn) -> None:
        content = gzip.compress(b"arm,reward\na,1\nb,0\n")
        sha256 = hashlib.sha256(content).hexdigest()
        path = write(content)
        assert read_arms(path).sha256 == read_rewards(path).sha256 == sha256
        assert read_imports(path, (0, 1), ["a", "b"]).sha256 == sha256
        type_in(content)
        arms = read_arms("-")
        assert (arms.labels, arms.source, arms.sha256) == (("a", "b"), "stdin", sha256)


class TestHistory:
    def test_labels_are_those_that_are_known(self, write: Write) -> None:
        path = write("arm,reward\n1, 0.5\n ann ,0\n1,1\n")
        history = read_imports(path, (0, 1), [1, "ann", " ann"])
        assert history.rewards == {1: [0.5, 1.0], "ann": [0.0]}
        assert history.source == str(path)

    def test_a_text_is_taken_before_a_number(self, write: Write) -> None:
        assert read_imports(write("arm,reward\n1,0\n"), (0, 1), [1, "1"]).rewards == {"1": [0.0]}

    def test_one_arm_is_enough(self, write: Write) -> None:
        path = write("worker,label,gold\nann,1,1\nbob,1,\n")
        assert read_imports(path, (0, 1), ["ann", "bob"]).rewards == {"ann": [0.0]}

    @pytest.mark.parametrize(
        ("content", "rule"),
        [
            ("arm,reward\nann,0\nzoe,1\n", "line 3: arm must be one of the 2 known ones but is"),
            ("worker,label,gold\nzoe,1,1\n", "line 2: arm must be one of the 2 known ones but is"),
            (
                "ann q1 yes\nzoe q1 no\n",
                "data.csv: arm must be one of the 2 known ones but is 'zoe'",
            ),
            ("arm,mean\nann,0\nbob,1\n", "must have single rewards, a row each, but has the arms'"),
            ("arm,reward\n", "must have rows but has only a header"),
        ],
    )
    def test_what_is_refused(self, write: Write, content: str, rule: str) -> None:
        write(GOLD, "gold.txt")
        with pytest.raises(InvalidParameter, match=re.escape(rule)):
            read_imports(write(content), (0, 1), ["ann", "bob"])

    def test_errors_of_responses_are_0_and_1(self, write: Write) -> None:
        path = write("worker,label,gold\nann,1,1\n")
        with pytest.raises(InvalidParameter, match=r"within \[0, 0.5\] but .* are 0 and 1"):
            read_imports(path, (0, 0.5), ["ann", "bob"])


class TestMeans:
    def test_a_row_per_arm(self, write: Write) -> None:
        arms = read_arms(write("arm,pulls,mean\nb,3,0.25\na,4,1\n"))
        assert arms.labels == ("b", "a")
        assert arms.means.tolist() == [0.25, 1.0]
        assert arms.records is None
        assert arms.binary
        assert (arms.left_out, arms.source, arms.layout) == (0, "data.csv", "arm,mean")

    def test_an_arm_may_not_have_two(self, write: Write) -> None:
        path = write("arm,mean\na,0.5\nb,0.5\na,0.5\n")
        rejected(path, "line 4: an arm must have one mean but 'a' has a second one")


class TestResponsesWithGold:
    def test_a_row_per_response(self, write: Write) -> None:
        text = "worker,item,label,gold\nann,1,yes,yes\nbob,1,no,yes\nann,2,yes,no\n"
        arms = read_arms(write(text))
        assert records_of(arms) == {"ann": [0.0, 1.0], "bob": [1.0]}
        assert arms.means.tolist() == [0.5, 1.0]
        assert (arms.left_out, arms.layout) == (0, "worker,label,gold")
        assert arms.binary

    def test_items_are_not_needed(self, write: Write) -> None:
        assert read_arms(write("gold,label,worker\n1,1,a\n1,0,b\n")).means.tolist() == [0.0, 1.0]

    @pytest.mark.parametrize(
        ("label", "gold", "error"),
        [
            ("1", "1.0", 0),
            ("1", "01", 0),
            ("-1", "1", 1),
            ("1e0", "1", 0),
            ("yes", "Yes", 1),
            ("nan", "nan", 0),
            ("inf", "infinity", 1),
            ("1_0", "10", 1),
            ("9007199254740993", "9007199254740992", 1),  # one float, two numbers
            ("1", "one", 1),
        ],
    )
    def test_labels_are_compared(self, write: Write, label: str, gold: str, error: int) -> None:
        arms = read_arms(write(f"worker,label,gold\na,{label}, {gold} \nb,1,1\n"))
        assert arms.means.tolist() == [error, 0.0]

    def test_responses_without_gold_are_left_out(self, write: Write) -> None:
        arms = read_arms(write("worker,label,gold\nx,1,\na,1,1\nb,0,1\na,1, \n"))
        assert records_of(arms) == {"a": [0.0], "b": [1.0]}
        assert arms.left_out == 2

    def test_some_must_be_left(self, write: Write) -> None:
        path = write("worker,label,gold\na,1,\nb,1,\n")
        rejected(path, "with a gold label but its gold column has one for none of the 2")

    def test_a_label_must_be_there(self, write: Write) -> None:
        rejected(
            write("worker,label,gold\na,,1\nb,1,1\n"),
            "line 2: label must have a value",
        )


class TestSquare:
    def test_responses_and_gold(self, write: Write) -> None:
        gold = write(GOLD, "labels-of-experts")
        arms = read_arms(write(RESPONSES, "crowd"), gold=gold)
        assert records_of(arms) == {"ann": [0.0, 0.0], "bob": [1.0, 0.0]}
        assert (arms.left_out, arms.source, arms.layout) == (0, "crowd", "worker item label")

    @pytest.mark.parametrize("space", [" ", "\t", "   ", " \t "])
    def test_what_separates_fields(self, write: Write, space: str) -> None:
        write(GOLD.replace(" ", space), "gold.txt")
        arms = read_arms(write(f"{RESPONSES}\n".replace(" ", space), "crowd.txt"))
        assert arms.means.tolist() == [0.0, 0.5]

    def test_between_tabs_there_may_be_spaces(self, write: Write) -> None:
        write("item, 1\tnot sure\n", "gold.txt")
        responses = "ann b\titem, 1\tnot sure\nbob c\titem, 1\tsure\n"
        arms = read_arms(write(responses, "crowd.txt"))
        assert dict(zip(arms.labels, arms.means, strict=True)) == {"ann b": 0.0, "bob c": 1.0}

    @pytest.mark.parametrize(
        ("responses", "gold"),
        [
            ("responses_eval.txt", "responses_gt.txt"),
            ("crowd_eval.dat", "crowd_gt.dat"),
            ("crowd_eval.dat.gz", "crowd_gt.dat"),
            ("crowd_eval.dat", "crowd_gt.dat.gz"),
            ("responses_nFold_eval_001.txt", "gt_nFold_eval_001.txt"),
            ("responses.txt", "responses_gt.txt"),
            ("responses.txt", "gold.txt"),
            ("responses.txt", "ground_truth.txt"),
            ("responses.txt", "groundTruth.txt"),
        ],
    )
    def test_where_gold_is_looked_for(self, write: Write, responses: str, gold: str) -> None:
        def content(text: str, name: str) -> bytes:
            return gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()

        write(content(GOLD, gold), gold)
        assert read_arms(write(content(RESPONSES, responses), responses)).means.sum() == 0.5

    def test_the_first_gold_that_exists_is_taken(self, write: Write) -> None:
        write("q1 no\nq2 yes\n", "gold.txt")
        write(GOLD, "crowd_gt.txt")
        assert read_arms(write(RESPONSES, "crowd_eval.txt")).means.tolist() == [0.0, 0.5]

    def test_no_gold(self, write: Write) -> None:
        message = rejected(write(RESPONSES, "my_eval.txt"), "name it with --gold FILE")
        looked_for = "my_gt.txt, responses_gt.txt, gold.txt, ground_truth.txt, groundTruth.txt"
        assert looked_for in message
        assert "gold=" in message

    def test_a_file_is_not_its_own_gold(self, write: Write) -> None:
        rejected(write(RESPONSES, "gold.txt"), "none of responses_gt.txt, ground_truth.txt,")

    def test_the_gold_that_is_named_must_exist(self, write: Write, tmp_path: Path) -> None:
        missing = tmp_path / "experts.txt"
        rejected(write(RESPONSES), f"{missing} must be a file but does not exist", gold=missing)

    def test_a_table_needs_no_gold(self, write: Write) -> None:
        path = write("arm,mean\na,0.5\nb,0.5\n")
        rejected(path, "gold must be left out for a table with a header", gold="x.txt")

    def test_responses_without_gold_are_left_out(self, write: Write) -> None:
        gold = write(GOLD, "gold.txt")
        path = write(f"eve q3 yes\n{RESPONSES}ann q3 no\n", "crowd.txt")
        arms = read_arms(path)
        assert records_of(arms) == {"ann": [0.0, 0.0], "bob": [1.0, 0.0]}
        assert arms.left_out == 2
        gold.write_text("q7 yes\n")
        rejected(path, f"{gold} has one for none of the 6")

    def test_repeated_responses_are_kept(self, write: Write) -> None:
        write(GOLD, "gold.txt")
        arms = read_arms(write(f"{RESPONSES}bob q1 no\nbob q1 yes\n", "crowd.txt"))
        assert records_of(arms)["bob"] == [1.0, 0.0, 1.0, 0.0]

    def test_labels_may_be_numbers(self, write: Write) -> None:
        write("q1 1.0\nq1 1\nq2 0\n", "gold.txt")
        arms = read_arms(write("ann q1 1\nbob q1 0\nann q2 0.0\n", "crowd.txt"))
        assert arms.means.tolist() == [0.0, 1.0]

    def test_gold_must_be_consistent(self, write: Write) -> None:
        gold = write(f"{GOLD}q1 no\n", "gold.txt")
        rule = f"{gold}, line 3: an item must have one gold label but 'q1' has 'yes' and 'no'"
        rejected(write(RESPONSES), rule)

    @pytest.mark.parametrize(("line", "fields"), [("ann q1", 2), ("ann q1 yes no", 4)])
    def test_a_response_has_three_fields(self, write: Write, line: str, fields: int) -> None:
        write(GOLD, "gold.txt")
        rule = f"line 5: there must be 3 fields 'worker item label' but there are {fields}"
        rejected(write(f"{RESPONSES}{line}\n"), rule)

    def test_an_empty_field_between_tabs_counts_as_missing(self, write: Write) -> None:
        write(GOLD, "gold.txt")
        rejected(write("ann\tq1\tyes\nbob\t\tno\n"), "line 2: there must be 3 fields")

    @pytest.mark.parametrize(("line", "fields"), [("q3", 1), ("q3 yes no", 3)])
    def test_gold_has_two_fields(self, write: Write, line: str, fields: int) -> None:
        gold = write(f"{GOLD}\n{line}\n", "gold.txt")
        rule = f"{gold}, line 4: there must be 2 fields 'item label' but there are {fields}"
        rejected(write(RESPONSES), rule)

    @pytest.mark.parametrize("content", ["", "\n \n"])
    def test_gold_may_not_be_empty(self, write: Write, content: str) -> None:
        gold = write(content, "gold.txt")
        rejected(write(RESPONSES), f"{gold} must have rows but is empty")


class TestWhichColumnHasTheItems:
    """SQUARE reads `worker item label` and writes `item worker label`, both without a header."""

    NUMBERED = "".join(f"{item} {worker} 1\n" for item in range(1, 31) for worker in (1, 2, 3))
    ITEMS = "".join(f"{item} {item % 2}\n" for item in range(1, 31))

    @pytest.mark.parametrize("name", ["responses_eval.txt", "renamed.txt"])
    def test_written_by_square(self, write: Write, name: str) -> None:
        """Workers 1 to 3 and items 1 to 30: the gold file has 30 items of one column."""
        arms = read_arms(write(self.NUMBERED, name), gold=write(self.ITEMS, "experts.txt"))
        assert arms.labels == ("1", "2", "3")
        assert arms.means.tolist() == [0.5, 0.5, 0.5]
        assert arms.layout == "item worker label"

    @pytest.mark.parametrize("name", ["responses_eval.txt", "responses.txt"])
    def test_given_to_square(self, write: Write, name: str) -> None:
        lines = [line.split() for line in self.NUMBERED.splitlines()]
        text = "".join(f"{worker} {item} {label}\n" for item, worker, label in lines)
        arms = read_arms(write(text, name), gold=write(self.ITEMS, "experts.txt"))
        assert arms.labels == ("1", "2", "3")
        assert arms.layout == "worker item label"

    @pytest.mark.parametrize(
        ("name", "labels", "layout"),
        [
            ("responses.txt", ("1", "2"), "worker item label"),
            ("responses_eval.txt", ("2", "1"), "item worker label"),
            ("responses_nFold_tune_002.txt", ("2", "1"), "item worker label"),
        ],
    )
    def test_the_name_decides_where_the_content_cannot(
        self, write: Write, name: str, labels: tuple[str, ...], layout: str
    ) -> None:
        """Two workers and two items, 1 and 2 both."""
        arms = read_arms(write("1 2 0\n2 1 0\n", name), gold=write("1 0\n2 1\n", "experts.txt"))
        assert (arms.labels, arms.layout) == (labels, layout)


class TestFilesThatAreWrong:
    def test_missing(self, tmp_path: Path) -> None:
        rejected(tmp_path / "none.csv", "none.csv must be a file but does not exist")

    def test_a_directory(self, tmp_path: Path) -> None:
        rejected(tmp_path, "must be a file but is a directory")

    def test_a_file_in_a_file(self, write: Write) -> None:
        rejected(write("arm,mean\n") / "x.csv", "must be readable but reading failed: Not a dir")

    @pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", gzip.compress(b"", mtime=0)])
    def test_empty(self, write: Write, content: str | bytes) -> None:
        rejected(write(content), "must have rows but is empty")

    @pytest.mark.parametrize("header", ["arm,reward", "arm,mean", "worker,label,gold"])
    def test_only_a_header(self, write: Write, header: str) -> None:
        rejected(write(f"{header}\n\n"), "must have rows but has only a header")

    @pytest.mark.parametrize(
        ("content", "where"),
        [
            (b"\x89PNG\r\n\x1a\n\x00\x00", "line 1: the file must be text in UTF-8 but has the by"),
            (
                "arm,mean\n".encode("utf-16-le"),
                "line 1: the file must be text in UTF-8 but has the",
            ),
            (b"arm,mean\na,0\0\n", "line 2: the file must be text in UTF-8 but has the byte 0x00"),
            ("arm,mean\nà,0\n".encode("latin-1"), "line 2: the file must be text in UTF-8 but has"),
            (
                gzip.compress(b"arm,mean\na,1\n\xff", mtime=0),
                "line 3: the file must be text in UTF-8 but h",
            ),
            (b"arm,mean\na,1\nb,0\n\xc3", "line 4: the file must be text in UTF-8 but has the by"),
        ],
        ids=["png", "utf-16", "nul", "latin-1", "in gzip", "cut off"],
    )
    def test_not_text_in_utf_8(self, write: Write, content: bytes, where: str) -> None:
        rejected(write(content), where)

    def test_names_in_utf_8_are_fine(self, write: Write) -> None:
        assert read_arms(write("arm,mean\nZoë,0\n李,1\n")).labels == ("Zoë", "李")

    @pytest.mark.parametrize("damage", [slice(0, -12), slice(0, 11)])
    def test_a_damaged_gzip_file(self, write: Write, damage: slice) -> None:
        content = gzip.compress(b"arm,reward\na,1\nb,0\n" + b"c,1\n" * 9)
        rejected(write(content[damage]), "must be a whole gzip file but is damaged")

    def test_a_gzip_file_with_wrong_content(self, write: Write) -> None:
        content = bytearray(gzip.compress(b"arm,reward\na,1\nb,0\n"))
        content[-8] ^= 1  # the checksum
        rejected(write(bytes(content)), "must be a whole gzip file but is damaged")

    @pytest.mark.parametrize(
        ("error", "rule"),
        [
            (PermissionError(errno.EACCES, "denied"), "must be readable but permission is denied"),
            (OSError(errno.EIO, "Input/output error"), "reading failed: Input/output error"),
            (OSError("odd"), "must be readable but reading failed: odd"),
        ],
    )
    def test_the_system_refuses(
        self, write: Write, monkeypatch: pytest.MonkeyPatch, error: OSError, rule: str
    ) -> None:
        def refuse(*_: object) -> None:
            raise error

        path = write("arm,mean\na,0\nb,1\n")
        monkeypatch.setattr(Path, "open", refuse)
        rejected(path, rule)

    def test_the_system_fails_half_way(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        class Failing(io.BytesIO):
            def readinto(self, buffer: Any) -> int:
                if self.tell() == 0:
                    return super().readinto(memoryview(buffer)[:12])
                raise OSError(errno.EIO, "Input/output error")

        path = write("arm,mean\na,0\nb,1\n")
        failing = Failing(path.read_bytes())
        monkeypatch.setattr(Path, "open", lambda *_: failing)
        rejected(path, "reading failed: Input/output error")

    @pytest.mark.parametrize(
        ("header", "columns"),
        [
            ("name,value", "'name', 'value'"),
            ("arm;score", "'arm', 'score'"),
            ("a,0.5", "'a', '0.5'"),
            ("reward", "'reward'"),
            ("arm reward", "'arm reward'"),
            ("worker item label", "'worker item label'"),
            ("Worker\tItem\tLabel", "'Worker', 'Item', 'Label'"),
            ("id, first, second", "'id', 'first', 'second'"),
            ("w1 q1 yes no", "'w1 q1 yes no'"),
            (
                ",".join("abcdefghijkl"),
                "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j' and 2 more",
            ),
            ("x" * 100, f"'{'x' * 60}...'"),
        ],
    )
    def test_unknown_columns(self, write: Write, header: str, columns: str) -> None:
        message = rejected(write(f"{header}\n1,2\n"), "line 1: there must be a header with")
        assert "arm,reward or arm,mean or worker,label,gold, or a response" in message
        assert message.endswith(f"the columns are {columns}.")

    def test_a_column_twice(self, write: Write) -> None:
        path = write("arm,Reward,reward\na,1,0\n")
        rejected(path, "line 1: the column 'reward' must be there once but is there twice")

    @pytest.mark.parametrize("column", ["reward", "mean"])
    @pytest.mark.parametrize("text", ["x", "", "nan", "-inf", "1e999", "0_1", '"0,5"', "0x1"])
    def test_not_a_finite_number(self, write: Write, column: str, text: str) -> None:
        path = write(f"arm,{column}\na,1\n\nb,{text}\n")
        shown = text.strip('"')
        rule = f"line 4: {column} must be a finite number but is '{shown}'"
        absent = {"": "is empty", "nan": "is 'nan'"}
        if text in absent and (column == "reward" or not text):
            rule = f"line 4: {column} must have a value but {absent[text]}"
        rejected(path, rule)

    @pytest.mark.parametrize("column", ["reward", "mean"])
    @pytest.mark.parametrize("text", ["4", "-0.001", "1.0000001"])
    def test_outside_the_bounds(self, write: Write, column: str, text: str) -> None:
        path = write(f"arm,{column}\na,1\nb,{text}\n")
        rejected(path, f"line 3: {column} must lie within [0, 1] but is '{text}'")

    def test_an_arm_without_a_name(self, write: Write) -> None:
        rejected(write("arm,reward\na,1\n ,0\n"), "line 3: arm must have a value but is empty")

    @pytest.mark.parametrize(("row", "fields"), [("b", 1), ("Smith, J,1", 3)])
    def test_rows_are_as_long_as_the_header(self, write: Write, row: str, fields: int) -> None:
        path = write(f"arm,reward\na,1\n{row}\n")
        rejected(path, f"line 3: there must be 2 fields but there are {fields}")

    def test_a_quote_that_does_not_end(self, write: Write) -> None:
        path = write('arm,reward\na,1\n"b,0\nc,1\n')
        rejected(path, "line 4: the table must be well-formed but is not: unexpected end of data")

    def test_a_field_without_end(self, write: Write) -> None:
        rejected(write("x" * 200_000), "line 1: the table must be well-formed but is not: field")

    @pytest.mark.parametrize(
        "content", ["arm,reward\na,1\na,0\n", "arm,mean\na,1\n", "worker,label,gold\na,1,1\nb,1,\n"]
    )
    def test_one_arm(self, write: Write, content: str) -> None:
        rejected(write(content), "must have at least 2 arms but has only 'a'")

    def test_one_worker(self, write: Write) -> None:
        write(GOLD, "gold.txt")
        rejected(write("ann q1 yes\nann q2 no\n"), "must have at least 2 arms but has only 'ann'")


class TestDigest:
    def test_it_tells_data_apart(self, write: Write) -> None:
        contents = [
            "arm,reward\na,1\nb,0\n",
            "arm,reward\nb,0\na,1\n",
            "arm,reward\na,1\nb,0\nb,0\n",
            "arm,reward\na,1\na,1\nb,0\n",
            "arm,reward\na,1\nb,0.5\n",
            "arm,reward\nab,1\nc,0\n",
            "arm,reward\na,1\nbc,0\n",
            "arm,mean\na,1\nb,0\n",
            "arm,mean\na,1\nb,0.25\n",
        ]
        digests = [read_arms(write(content)).digest() for content in contents]
        assert len(set(digests)) == len(contents)
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)

    def test_it_is_of_the_data_alone(self, write: Write) -> None:
        plain = read_arms(write("arm,reward\na,1\nb,0\n", "one.csv"))
        other = read_arms(write("REWARD;x;arm\n1.0;?;a\n0;?;b\n", "two.csv"))
        assert plain.digest() == other.digest()


REWARDS = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0))
ROWS = st.lists(st.tuples(st.sampled_from("abcd"), REWARDS), min_size=2, max_size=40).filter(
    lambda rows: len({arm for arm, _ in rows}) > 1
)


class TestShuffledRows:
    @given(rows=ROWS, data=st.data())
    def test_means_stay_the_same(
        self,
        rows: list[tuple[str, float]],
        data: st.DataObject,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> None:
        path = tmp_path_factory.mktemp("rows") / "rows.csv"
        means = []
        for order in (rows, data.draw(st.permutations(rows))):
            path.write_text("arm,reward\n" + "".join(f"{arm},{x!r}\n" for arm, x in order))
            arms = read_arms(path)
            assert arms.labels == tuple(dict.fromkeys(arm for arm, _ in order))
            means.append(dict(zip(arms.labels, arms.means.tolist(), strict=True)))
        assert means[0] == means[1]

    def test_responses_too(self, write: Write) -> None:
        write(GOLD, "gold.txt")
        rng = np.random.default_rng(3)
        lines = RESPONSES.splitlines()
        for _ in range(5):
            arms = read_arms(write("\n".join(rng.permutation(lines)), "crowd.txt"))
            assert dict(zip(arms.labels, arms.means, strict=True)) == {"ann": 0.0, "bob": 0.5}


def real(name: str) -> Path:
    """Return a file of real data, or skip where it is absent."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not beside this checkout")
    return path


def assert_the_crowd_of_the_paper(arms: RecordedArms) -> None:
    assert len(arms.labels) == 722
    assert arms.left_out == 0
    assert arms.binary
    assert outliers(arms.means, k=2).size == 63
    assert threshold(arms.means, k=2) == pytest.approx(0.91257, abs=5e-6)
    assert outliers(arms.means, k=3).size == 0


class TestTheCrowdOfThePaper:
    """HyunCatherines, in every layout; copies go to a temporary directory only."""

    def test_responses_with_gold(self) -> None:
        arms = read_arms(real("hyuncatherines.csv"))
        assert_the_crowd_of_the_paper(arms)
        assert sum(map(len, records_of(arms).values())) == 19_699
        assert arms.source == "hyuncatherines.csv"

    def test_means(self) -> None:
        arms = read_arms(real("hyuncatherines_arms.csv"))
        assert_the_crowd_of_the_paper(arms)
        single = read_arms(real("hyuncatherines.csv"))
        assert arms.labels == single.labels
        np.testing.assert_allclose(arms.means, single.means, atol=1e-9)

    @pytest.mark.parametrize("space", ["\t", " "])
    def test_as_given_to_square(self, write: Write, space: str) -> None:
        rows = self.rows()
        gold = {row["item"]: row["gold"] for row in rows}
        write("".join(f"{item}{space}{label}\n" for item, label in gold.items()), "groundTruth.txt")
        text = "".join(space.join((r["worker"], r["item"], r["label"])) + "\n" for r in rows)
        arms = read_arms(write(text, "responses.txt"))
        assert_the_crowd_of_the_paper(arms)
        assert arms.digest() == read_arms(real("hyuncatherines.csv")).digest()

    def test_as_written_by_square(self, write: Write) -> None:
        """Items first, and workers numbered as items are."""
        rows = self.rows()
        gold = {row["item"]: row["gold"] for row in rows}
        write("".join(f"{item} {label}\n" for item, label in gold.items()), "responses_gt.txt")
        numbers: dict[str, int] = {}
        for row in rows:
            numbers.setdefault(row["worker"], len(numbers) + 1)
        text = "".join(f"{r['item']} {numbers[r['worker']]} {r['label']}\n" for r in rows)
        arms = read_arms(write(text, "responses_eval.txt"))
        assert_the_crowd_of_the_paper(arms)
        assert arms.layout == "item worker label"

    @staticmethod
    def rows() -> list[dict[str, str]]:
        with real("hyuncatherines.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


class TestCsv:
    def test_values(self) -> None:
        rows = [(1, 0.1 + 0.2, True, None, "a,b"), (2, 1e-300, False, 3, 'say "so"')]
        assert csv_text(("a", "b", "c", "d", "e"), rows) == (
            'a,b,c,d,e\n1,0.30000000000000004,True,,"a,b"\n2,1e-300,False,3,"say ""so"""\n'
        )

    @pytest.mark.parametrize(
        "text",
        [
            "=1+1",
            "+1+1",
            "-1+1",
            "@SUM(1)",
            "\ttext",
            " =1",
            "\u00a0=1",
            "\uff1d1",
            "\uff0b1",
            "\uff0d1",
            "\uff201",
            "'=1",
            "''@",
            "-",
            "--1",
        ],
    )
    def test_what_a_spreadsheet_would_run_is_neutralised_and_found_again(self, text: str) -> None:
        cell = neutralised(text)
        assert cell == "'" + text
        written = csv_text(("a", "b"), [(text, -1.5)], for_spreadsheets=True)
        assert next(csv.reader(io.StringIO(written.partition("\n")[2], newline=""))) == [
            cell,
            "-1.5",
        ]
        assert csv_text(("a",), [(text,)]) != csv_text(("a",), [(text,)], for_spreadsheets=True)

    @pytest.mark.parametrize("between", [";", "\t", "\r", "\n", ",", "|", "; ", ';"', ';"" '])
    @pytest.mark.parametrize("start", ["", "a", "-1", "'a"])
    def test_what_may_be_split_off_is_neutralised_where_it_begins(
        self, between: str, start: str
    ) -> None:
        cell = neutralised(f"{start}{between}=1+1")
        parts = re.split("[;,|\t\r\n]", cell)
        assert parts[-1].startswith("'")
        assert not any(part.strip('" ').startswith("=") for part in parts)
        assert cell.replace("'", "") == f"{start}{between}=1+1".replace("'", "")

    def test_texts_for_spreadsheets_are_in_quotes_and_numbers_are_not(self) -> None:
        written = csv_text(("a", "b"), [("a\t=1", 0.5), (None, 2)], for_spreadsheets=True)
        assert written == '"a","b"\n"a\t\'=1",0.5\n"",2\n'

    @pytest.mark.parametrize(
        "text",
        ["", "ann", "-1", "a;-1", "a, b", "+1", "-1.5e-3", "1-1", "a=b", "'", "'ann", "''", " ann"],
    )
    def test_what_it_shows_anyway_stays_as_it_is(self, text: str) -> None:
        assert neutralised(text) == text

    def test_no_rows(self) -> None:
        assert csv_text(("a", "b"), []) == "a,b\n"


class TestAsPeopleWriteThem:
    """Words, decimal commas, encodings, missing rewards, copies, counts."""

    def test_words_are_0_and_1(self, write: Write) -> None:
        path = write("arm,reward\na,yes\na,No\nb,TRUE\nb,false\nb,0.5\n")
        assert records_of(read_rewards(path)) == {"a": [1.0, 0.0], "b": [1.0, 0.0, 0.5]}
        with pytest.raises(InvalidParameter, match=r"line 2: reward must lie within \[2, 3\]"):
            read_rewards(path, bounds=(2, 3))
        with pytest.raises(InvalidParameter, match="line 3: reward must be a finite number"):
            read_rewards(write("arm,reward\na,1\nb,maybe\n"))

    @pytest.mark.parametrize("delimiter", [";", "\t"])
    def test_decimal_commas(self, write: Write, delimiter: str) -> None:
        text = "arm;reward\na;0,5\nb;,25\nb;1\na;1,5E-1\n".replace(";", delimiter)
        path = write(text)
        assert records_of(read_rewards(path)) == {"a": [0.5, 0.15], "b": [0.25, 1.0]}
        path.write_text(f"{text}a{delimiter}0.5\n")
        with pytest.raises(InvalidParameter, match=r"line 6: numbers must have one decimal mark"):
            read_rewards(path)
        path.write_text(f"{text}a{delimiter}1.000,5\n")
        with pytest.raises(InvalidParameter, match=r"line 6: numbers must have one decimal mark"):
            read_rewards(path)

    @pytest.mark.parametrize(
        ("codec", "encoding"),
        [
            ("latin-1", "latin-1"),
            ("cp1252", "windows-1252"),
            ("utf-16", None),
            ("utf-16", "utf-8"),
            ("utf-16-le", "utf-16"),
            ("utf-16-be", "utf-16-be"),
            ("utf-32", None),
            ("utf-8-sig", "latin-1"),
            ("utf-8", "UTF8"),
        ],
    )
    @pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
    def test_encodings(self, write: Write, codec: str, encoding: str | None, packed: bool) -> None:
        content = "arm,reward\nZoë,1\nà,0\n".encode(codec)
        path = write(gzip.compress(content) if packed else content)
        assert read_rewards(path, encoding=encoding).labels == ("Zoë", "à")

    @pytest.mark.parametrize(
        ("content", "encoding", "rule"),
        [
            (b"arm,reward\n\xe0,1\n", None, r"but has the byte 0xe0: .* \(--encoding latin-1 or"),
            ("arm,reward\na,1\n".encode("utf-16-le"), None, r"0x00: .* \(--encoding utf-16\)"),
            (
                b"PK\x03\x04",
                None,
                "whole workbook of Excel but is damaged: save it again, or as CSV",
            ),
            (b"arm,reward\na,1\nb,0\n", "martian", "encoding must be one of text, such as utf-8"),
            (b"arm,reward\na,1\nb,0\n", "rot13", "encoding must be one of text, .* got 'rot13'"),
            (b"arm,reward\na,1\nb,0\n", "a\0b", "encoding must be one of text"),
            (b"arm,reward\n\xff,1\n", "ascii", "the file must be text in ascii but is not"),
            (b"\xff\xfea\0\0\xd8a\0", None, "the file must be text in utf-16 but is not"),
            (b"\xff\xfea\0b", None, "the file must be text in utf-16 but is not"),
            ("arm,rew\0ard\n".encode("utf-16"), None, "text in utf-16 but has the byte 0x00."),
        ],
    )
    def test_what_is_not_text(
        self, write: Write, content: bytes, encoding: str | None, rule: str
    ) -> None:
        with pytest.raises(InvalidParameter, match=rule) as caught:
            read_rewards(write(content), encoding=encoding)
        assert "\n" not in str(caught.value)

    def test_missing_rewards_have_a_policy(self, write: Write) -> None:
        path = write("arm,reward\na,1\na,\nb,NA\nb, null \nc,nan\n")
        with pytest.raises(InvalidParameter, match=r"line 3: reward must have a .*: give missing"):
            read_rewards(path)
        skipped = read_rewards(path, missing="skip")
        assert records_of(skipped) == {"a": [1.0], "b": [], "c": []}
        assert (skipped.missing, skipped.labels) == (4, ("a", "b", "c"))
        worst = read_rewards(path, missing="worst")
        assert records_of(worst) == {"a": [1.0, 1.0], "b": [1.0, 1.0], "c": [1.0]}
        assert records_of(read_rewards(path, missing="worst", worst=0.0))["c"] == [0.0]
        with pytest.raises(InvalidParameter, match="missing must be 'stop', 'skip' or 'worst'"):
            read_rewards(path, missing="drop")  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter, match="must have rewards but all 2 are missing"):
            read_rewards(write("arm,reward\na,\nb,\n"), missing="skip")

    def test_a_header_that_is_there_again(self, write: Write) -> None:
        part = "when,Arm,Reward\n1,a,1\n2,b,0\n"
        with pytest.raises(InvalidParameter, match=r"line 4: the header must be there once"):
            read_rewards(write(part * 2))

    def test_copies_are_counted_where_rows_can_be_told_apart(self, write: Write) -> None:
        assert read_rewards(write("arm,reward\na,1\na,1\nb,0\n")).copies == 0
        text = "id,arm,reward\n1,a,1\n2,a,1\n1,a,1\n1,a,1\n3,b,0\n"
        recorded = read_rewards(write(text))
        assert recorded.copies == 2
        assert records_of(recorded) == {"a": [1.0] * 4, "b": [0.0]}

    def test_clipped_and_above(self, write: Write) -> None:
        path = write("arm;reward\na;0,25\na;12\nb;-1\nb;inf\n")
        clip = Transform(clip=(0, 10))
        found = records_of(read_rewards(path, bounds=clip.bounds, transform=clip))
        assert found == {"a": [0.25, 10.0], "b": [0.0, 10.0]}
        assert (clip.clipped, clip.seen) == (3, 4)
        assert records_of(read_rewards(path, transform=Transform(above=0.25))) == {
            "a": [0.0, 1.0],
            "b": [0.0, 1.0],
        }

    def test_counts(self, write: Write) -> None:
        path = write("host,errors,requests\na,10,40\nb,0,30\na,5,20\nc,0,0\n")
        columns = {"arm": "host", "successes": "errors", "trials": "requests"}
        counted = read_counts(path, **columns)
        assert counted.labels == ("a", "b", "c")
        assert counted.means[:2].tolist() == [0.25, 0.0]
        assert counted.records is not None
        assert [rewards.size for rewards in counted.records.values()] == [60, 30, 0]
        a = counted.records["a"].tolist()
        assert sorted(a) == [0.0] * 45 + [1.0] * 15
        assert a != sorted(a, reverse=True)
        assert a == records_of(read_counts(path, **columns))["a"]

    @pytest.mark.parametrize(
        ("row", "rule"),
        [
            ("b,2,1", "line 3: successes must be a whole number of at most trials but is 2 of 1"),
            ("b,0.5,1", "line 3: successes must be a whole number"),
            ("b,-1,1", "line 3: successes must lie within"),
            ("b,,1", "line 3: successes must have a value but is empty"),
            ("b,1,1e9", "trials must be at most 20,000,000 in all but are 1,000,000,001"),
            ("b,1,1e300", "line 3: trials must lie within"),
        ],
    )
    def test_counts_that_cannot_be(self, write: Write, row: str, rule: str) -> None:
        with pytest.raises(InvalidParameter, match=rule):
            read_counts(write(f"arm,successes,trials\na,0,1\n{row}\n"))

    def test_parquet_too(self, tmp_path: Path) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        path = tmp_path / "t.parquet"
        columns = {"arm": ["a", "b", "a"], "reward": [7.0, None, float("nan")], "n": [9, 3, 9]}
        parquet.write_table(pyarrow.table(columns | {"ok": [2, 3, 4]}), path)
        with pytest.raises(InvalidParameter, match=r"t\.parquet: reward must lie within \[0, 1\]"):
            read_rewards(path)
        with pytest.raises(InvalidParameter, match=r"t\.parquet: reward must have a value"):
            read_rewards(path, bounds=(0, 9))
        skipped = read_rewards(path, missing="skip", transform=Transform(above=5))
        assert (records_of(skipped), skipped.missing) == ({"a": [1.0], "b": []}, 2)
        counted = read_counts(path, successes="ok", trials="n")
        assert counted.means.tolist() == [6 / 18, 1.0]
