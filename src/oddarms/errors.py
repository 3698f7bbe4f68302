"""The exceptions of oddarms; each one is also the builtin a caller would expect.

::

    OddarmsError
    ├── InvalidParameter (ValueError)      a parameter is not valid
    ├── UnknownAlgorithm (LookupError)     no algorithm is registered under that name
    ├── UnknownOption (TypeError)          the algorithm has no such option
    ├── DuplicateAlgorithm (ValueError)    two algorithms claim one name
    ├── ProtocolError (RuntimeError)       ask() and tell() were called out of turn
    ├── TwoThresholds (AttributeError)     a search on both sides has no one threshold
    ├── MissingExtra (ImportError)         an optional dependency is not installed
    ├── WorkerLost (RuntimeError)          a worker process died
    ├── UnknownStudy (LookupError)         the storage has no study of that name
    ├── DuplicateStudy (ValueError)        the storage already has a study of that name
    ├── StorageFailed (OSError)            results could not be written or read
    └── SearchError                        a search cannot continue; `result` has what is known
        ├── RewardRejected (ValueError)    a source returned something that is not a reward
        └── PullFailed (RuntimeError)      a source raised an exception
    KeyboardInterrupt
    └── SearchInterrupted                  Ctrl-C or SIGTERM; `result` has what is known
"""

from __future__ import annotations

from signal import SIGINT
from typing import Any


class OddarmsError(Exception):
    """Base class of everything oddarms raises on purpose."""


class InvalidParameter(OddarmsError, ValueError):
    """A parameter is not valid; the message names it, what is wrong and what to do."""


class UnknownAlgorithm(OddarmsError, LookupError):
    """No algorithm is registered under the given name."""


class UnknownOption(OddarmsError, TypeError):
    """The algorithm has no option of that name."""


class DuplicateAlgorithm(OddarmsError, ValueError):
    """Two algorithms claim the same name."""


class ProtocolError(OddarmsError, RuntimeError):
    """`ask` and `tell` were called out of turn."""


class TwoThresholds(OddarmsError, AttributeError):
    """A search on both sides has two thresholds; `Result.thresholds` has them by side."""


class MissingExtra(OddarmsError, ImportError):
    """An optional dependency is not installed; the message has the command that installs it."""

    @classmethod
    def of(cls, extra: str, needed_for: str) -> MissingExtra:
        """Return the error for a missing extra, with the command that installs it."""
        return cls(f"{needed_for} needs an optional package: pip install 'oddarms[{extra}]'.")


class UnknownStudy(OddarmsError, LookupError):
    """There is no such storage, or it has no study of that name."""


class DuplicateStudy(OddarmsError, ValueError):
    """The storage has a study of that name already."""


class _KeepsSamples(BaseException):
    """Carries the samples of a search that ended early; see the attributes of `SearchError`."""

    result: Any
    unabsorbed: list[tuple[Any, float]]
    untold: list[tuple[Any, float]]

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.result = None
        self.unabsorbed = []
        self.untold = []


class StorageFailed(_KeepsSamples, OddarmsError, OSError):
    """A storage, or a file of results, could not be read or written.

    Attributes
    ----------
    passing
        Whether the same call may succeed later: the server is unavailable, another process holds a
        lock, the disk is full.
    result, unabsorbed, untold
        As for `SearchError`, if it ended a search.
    """

    passing: bool

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class WorkerLost(_KeepsSamples, OddarmsError, RuntimeError):
    """A process of an executor died: by a signal, out of memory, or in a crash of compiled code.

    A worker of a study that dies raises nothing: its leases end, and others make its pulls.

    During a search `result`, `unabsorbed` and `untold` are as for `SearchError`.
    """


class SearchError(_KeepsSamples, OddarmsError):
    """A search cannot continue.

    Attributes
    ----------
    result
        The `Result` of everything absorbed before the failure; None outside a search, or if the
        storage does not answer.
    unabsorbed
        Pairs (label, reward) of the step that failed, which are not part of `result`.
    untold
        Of a search in a storage: pairs (ticket, reward) that could not be stored. They are in
        memory only; `Study.tell_many` takes them at any later time.
    """


class RewardRejected(SearchError, ValueError):
    """A reward is missing, not a number, or outside the bounds.

    Attributes
    ----------
    outside
        Whether it is a number outside the bounds, which clipping would bring inside.
    """

    outside: bool = False


class PullFailed(SearchError, RuntimeError):
    """A source raised while it was pulled; the cause is chained.

    Attributes
    ----------
    label
        The arm that was pulled, or None if the source cannot tell.
    late
        Whether the pull exceeded its timeout.
    """

    label: Any
    late: bool = False

    def __init__(self, message: str, label: Any = None) -> None:
        super().__init__(message)
        self.label = label


class SearchInterrupted(_KeepsSamples, KeyboardInterrupt):
    """Ctrl-C, or another signal that asks a program to end, ended the search.

    It is not an `Exception`, so loops that retry failures still end.

    Attributes
    ----------
    result, unabsorbed, untold
        As for `SearchError`.
    signal
        The number of the signal; the usual exit code is 128 + this number.
    """

    signal: int

    def __init__(self, message: str, number: int = SIGINT) -> None:
        super().__init__(message)
        self.signal = int(number)
