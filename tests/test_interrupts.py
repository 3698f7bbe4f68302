"""Signals that end a run."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from oddarms import interrupts
from oddarms.errors import SearchInterrupted
from oddarms.interrupts import (
    Interrupted,
    _Block,
    ending_signals,
    pause,
    signal_of,
    uninterrupted,
)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    survived.clear()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        assert signal.getsignal(number) is handler


def _send(*numbers: int) -> None:
    """Send signals, with a moment between two; say that the last one was survived."""
    for i, number in enumerate(numbers):
        time.sleep(0.3 if i else 0.0)
        os.kill(os.getpid(), number)
        time.sleep(0.001)  # Python looks between two instructions
    survived.append(numbers[-1])


survived: list[int] = []


def _send_and_pause(number: int) -> None:
    _send(number)
    pause(60.0)


def _send_soon_and_pause(number: int) -> None:
    threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
    pause(60.0)


def _pause_and_send(number: int) -> None:
    pause(0.0)
    _send(number)


def test_a_signal_waits_for_the_end_of_a_block() -> None:
    with pytest.raises(KeyboardInterrupt), uninterrupted(), uninterrupted():
        _send(signal.SIGINT)
    assert survived


def test_a_termination_is_an_interruption_with_its_number() -> None:
    with pytest.raises(Interrupted) as caught, ending_signals(), uninterrupted():
        _send(signal.SIGTERM)
    assert survived
    assert signal_of(caught.value) == signal.SIGTERM
    assert signal_of(KeyboardInterrupt()) == signal.SIGINT


def test_a_pause_obeys_at_once_what_came_before_it_and_what_comes_during_it() -> None:
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), uninterrupted(), uninterrupted():
        _send_and_pause(signal.SIGINT)
    with pytest.raises(Interrupted), ending_signals(), uninterrupted(), uninterrupted():
        _send_soon_and_pause(signal.SIGTERM)
    assert time.monotonic() - started < 50.0


def test_after_a_pause_signals_wait_again() -> None:
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        _pause_and_send(signal.SIGINT)
    assert survived


def test_who_insists_is_not_made_to_wait() -> None:
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        _send(signal.SIGINT, signal.SIGINT)
    assert not survived


def test_who_insists_is_not_made_to_wait_by_a_block_in_a_block() -> None:
    with pytest.raises(KeyboardInterrupt), uninterrupted(), uninterrupted():
        _send(signal.SIGINT, signal.SIGINT)
    assert not survived


def test_a_signal_at_the_end_of_a_block_leaves_no_other_one_put_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may come when only the first handler is back."""

    def interrupted(number: int, handler: Any) -> Any:
        if number == signal.SIGTERM and number in began:
            monkeypatch.undo()
            raise KeyboardInterrupt
        began.add(number)
        return set_handler(number, handler)

    began: set[int] = set()
    set_handler = signal.signal
    with ending_signals():
        monkeypatch.setattr(signal, "signal", interrupted)
        with pytest.raises(KeyboardInterrupt), uninterrupted():
            pass
        with pytest.raises(Interrupted):
            _send(signal.SIGTERM)
    assert not survived


def test_a_signal_while_handlers_are_put_back_leaves_none_of_ours() -> None:
    before = signal.getsignal(signal.SIGINT)
    block = _Block()
    block.begin()
    block.restored = True  # as in `restore`, before it has put back any
    with pytest.raises(KeyboardInterrupt):
        _send(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_two_signals_in_one_moment_are_one_and_a_later_one_ends_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(interrupts, "SAME_SECONDS", 60.0)
    with ending_signals(at_once=ended.append):
        with pytest.raises(Interrupted):
            _send(signal.SIGTERM)
        _send(signal.SIGTERM)  # as `timeout` does
        assert not ended
        monkeypatch.undo()
        time.sleep(0.3)
        with pytest.raises(Interrupted):
            _send(signal.SIGINT)
    assert ended == [signal.SIGINT]


def test_who_insists_is_not_made_to_wait_by_blocks_in_blocks() -> None:
    with pytest.raises(KeyboardInterrupt), uninterrupted(), uninterrupted():
        _send(signal.SIGINT, signal.SIGINT)
    assert not survived


def test_a_second_signal_ends_at_once_while_the_first_is_put_off() -> None:
    ended: list[int] = []
    with (
        pytest.raises(Interrupted),
        ending_signals(at_once=ended.append),
        uninterrupted(),
        uninterrupted(),
    ):
        _send(signal.SIGTERM, signal.SIGINT)
    assert ended == [signal.SIGINT]
    assert not survived


def _interrupted_and_then_protected() -> None:
    try:
        _send(signal.SIGINT)
    finally:
        time.sleep(0.3)
        with uninterrupted():
            _send(signal.SIGTERM)


def test_a_second_signal_ends_at_once_in_a_block_that_the_first_has_led_to() -> None:
    ended: list[int] = []
    with pytest.raises(Interrupted), ending_signals(at_once=ended.append):
        _interrupted_and_then_protected()
    assert ended == [signal.SIGTERM]
    assert not survived


def _wait_and_send(number: int) -> None:
    _send(number)
    time.sleep(0.3)


def test_a_signal_that_was_put_off_for_long_is_one_signal() -> None:
    ended: list[int] = []
    with (
        pytest.raises(Interrupted) as caught,
        ending_signals(at_once=ended.append),
        uninterrupted(),
        uninterrupted(),
    ):
        _wait_and_send(signal.SIGTERM)
    assert not ended
    assert signal_of(caught.value) == signal.SIGTERM


def test_the_signal_is_known_after_the_exception_became_another() -> None:
    def interrupted() -> None:
        try:
            raise Interrupted("", signal.SIGHUP)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("as it happens") from None

    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted()
    assert signal_of(caught.value) == signal.SIGHUP
    assert signal_of(SearchInterrupted("", signal.SIGTERM)) == signal.SIGTERM


def test_a_block_that_could_not_be_left_properly_hides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_handler, came = signal.signal, []

    def interrupted(number: int, handler: Any) -> Any:
        if not came:
            came.append(number)
            signal.raise_signal(signal.SIGINT)
        return set_handler(number, handler)

    block = _Block()
    block.begin()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(signal, "signal", interrupted)
            with pytest.raises(KeyboardInterrupt):
                block.end()
        with pytest.raises(KeyboardInterrupt):
            _send(signal.SIGINT)
    finally:
        block.restore()


def test_a_signal_that_is_ignored_or_handled_stays_so() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with ending_signals():
            _send(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_have_nothing_to_put_off() -> None:
    seen: list[bool] = []

    def work() -> None:
        with uninterrupted(), ending_signals():
            pause(0.0)
            seen.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True]
