"""The exceptions of oddarms; each one is also the builtin a caller would expect.

::

    OddarmsError
    ├── InvalidParameter (ValueError)      a parameter breaks a stated rule
    ├── UnknownAlgorithm (LookupError)     no algorithm is registered under that name
    ├── UnknownOption (TypeError)          the algorithm has no such option
    ├── DuplicateAlgorithm (ValueError)    two algorithms claim one name
    ├── ProtocolError (RuntimeError)       ask() and tell() were called out of turn
    ├── TwoThresholds (AttributeError)     a search on both sides has no one threshold
    ├── MissingExtra (ImportError)         an optional dependency is not installed
    ├── WorkerLost (RuntimeError)          a worker process died
    ├── UnknownStudy (LookupError)         the storage has no study of that name
    ├── DuplicateStudy (ValueError)        the storage has a study of that name already
    ├── StorageFailed (OSError)            results could not be written or read
    └── SearchError                        a search could not go on; `result` has what was paid for
        ├── RewardRejected (ValueError)    a source returned what is not a reward
        └── PullFailed (RuntimeError)      a source raised an exception
    KeyboardInterrupt
    └── SearchInterrupted                  Ctrl-C or SIGTERM; `result` has what was paid for
"""

from __future__ import annotations

from signal import SIGINT
from typing import Any


class OddarmsError(Exception):
    """Base class of everything oddarms raises on purpose."""


class InvalidParameter(OddarmsError, ValueError):
    """A parameter breaks a rule; the message names the parameter, the rule and the value."""


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
        True if the same call may succeed a while later: a server that is unavailable or starting,
        a lock that another process holds, a full disk.
    result, unabsorbed, untold
        As for `SearchError`, where it ended a search.
    """

    passing: bool

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class WorkerLost(_KeepsSamples, OddarmsError, RuntimeError):
    """A worker process died, by a signal, for its memory or in a crash of compiled code.

    Where it dies during a search, `result`, `unabsorbed` and `untold` are as for `SearchError`.
    """


class SearchError(_KeepsSamples, OddarmsError):
    """A search could not go on.

    Attributes
    ----------
    result
        The `Result` of everything absorbed before the failure, or None outside a search and where
        the storage that has it does not answer.
    unabsorbed
        Pairs (label, reward) already drawn in the step that failed and not part of `result`.
    untold
        Of a search in a storage: pairs (ticket, reward) that could not be stored. They are in
        memory only; `Study.tell_many` takes them as they are, at any later time.
    """


class RewardRejected(SearchError, ValueError):
    """A reward is missing, not a number, or outside the bounds.

    Attributes
    ----------
    outside
        Whether it is a number outside the bounds, which clipping would make a reward.
    """

    outside: bool = False


class PullFailed(SearchError, RuntimeError):
    """A source raised while it was pulled; the cause is chained.

    Attributes
    ----------
    label
        The arm that was being pulled, or None where the source cannot tell.
    late
        Whether the pull took longer than it was allowed to.
    """

    label: Any
    late: bool = False

    def __init__(self, message: str, label: Any = None) -> None:
        super().__init__(message)
        self.label = label


class SearchInterrupted(_KeepsSamples, KeyboardInterrupt):
    """Ctrl-C, or another signal that asks a program to end, ended the search.

    Not an `Exception`, so that a loop which retries failures still ends.

    Attributes
    ----------
    result, unabsorbed, untold
        As for `SearchError`.
    signal
        The number of the signal; a shell expects the exit code 128 + that.
    """

    signal: int

    def __init__(self, message: str, number: int = SIGINT) -> None:
        super().__init__(message)
        self.signal = int(number)
