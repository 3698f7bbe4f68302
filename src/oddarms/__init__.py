"""Find the abnormal ones among many things that can only be sampled at a cost.

>>> import oddarms
>>> workers = oddarms.arms.Bernoulli([0.1, 0.2, 0.1, 0.95, 0.15], labels=["a", "b", "c", "d", "e"])
>>> oddarms.find(workers, k=1.5, delta=0.05, rng=0).outliers
['d']
"""

from oddarms import algorithms, arms, errors, plotting, theory
from oddarms.errors import OddarmsError, SearchError, SearchInterrupted
from oddarms.finding import find
from oddarms.problem import Question
from oddarms.search import Progress, Result, Search, Status, Ticket
from oddarms.simulation import Simulation, simulate
from oddarms.studies import (
    Study,
    create_study,
    delete_study,
    list_studies,
    load_study,
    upgrade_storage,
)

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
    "algorithms",
    "arms",
    "create_study",
    "delete_study",
    "errors",
    "find",
    "list_studies",
    "load_study",
    "plotting",
    "simulate",
    "theory",
    "upgrade_storage",
]
