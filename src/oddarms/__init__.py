"""Find the abnormal items among many that can only be sampled, at a cost.

>>> import oddarms
>>> hosts = oddarms.arms.Bernoulli([0.1, 0.2, 0.1, 0.95, 0.15], labels=["a", "b", "c", "d", "e"])
>>> oddarms.find(hosts, k=1.5, delta=0.05, rng=0).outliers
['d']

Names are imported when they are first used: pytest loads a plugin of this package in every run,
which must not wait for numpy and scipy.
"""

import importlib.util
import typing

if typing.TYPE_CHECKING:
    from oddarms import algorithms, arms, errors, plotting, theory
    from oddarms.analysis import analyze
    from oddarms.errors import OddarmsError, SearchError, SearchInterrupted
    from oddarms.finding import afind, find
    from oddarms.problem import Question
    from oddarms.search import Progress, Result, Search, Status, Ticket
    from oddarms.simulation import Simulation, simulate
    from oddarms.studies import Study, create_study, delete_study, list_studies, load_study
    from oddarms.tables import read_junit

__version__ = "0.1.0"

__all__ = [
    "OddarmsError",
    "Progress",
    "Question",
    "Result",
    "Search",
    "SearchError",
    "SearchInterrupted",
    "Simulation",
    "Status",
    "Study",
    "Ticket",
    "afind",
    "algorithms",
    "analyze",
    "arms",
    "create_study",
    "delete_study",
    "errors",
    "find",
    "list_studies",
    "load_study",
    "plotting",
    "read_junit",
    "simulate",
    "theory",
]

_HOMES = {
    "analysis": ["analyze"],
    "errors": ["OddarmsError", "SearchError", "SearchInterrupted"],
    "finding": ["afind", "find"],
    "problem": ["Question"],
    "search": ["Progress", "Result", "Search", "Status", "Ticket"],
    "simulation": ["Simulation", "simulate"],
    "studies": ["Study", "create_study", "delete_study", "list_studies", "load_study"],
    "tables": ["read_junit"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if not typing.TYPE_CHECKING:

    def __getattr__(name: str) -> typing.Any:
        """Import a name of `__all__`, or a module, when it is first used."""
        if name in _HOME_OF:
            value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        elif (
            not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None
        ):
            value = importlib.import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
