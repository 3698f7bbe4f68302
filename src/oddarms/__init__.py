"""Find the abnormal ones among many things that can only be sampled at a cost.

>>> import oddarms
>>> workers = oddarms.arms.Bernoulli([0.1, 0.2, 0.1, 0.95, 0.15], labels=["a", "b", "c", "d", "e"])
>>> oddarms.find(workers, k=1.5, delta=0.05, rng=0).outliers
['d']
"""

from oddarms import algorithms, arms, errors, plotting
from oddarms.errors import OddarmsError, SearchError, SearchInterrupted
from oddarms.limit import Limit, lower_bound
from oddarms.problem import Hardness, Problem, gaps, hardness, outliers, threshold
from oddarms.search import Progress, Result, Search, find
from oddarms.simulation import Simulation, simulate
from oddarms.statistics.complexity import ade_pulls_bound, rr_pulls_bound, wrr_pulls_bound
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
    "Hardness",
    "Limit",
    "OddarmsError",
    "Problem",
    "Progress",
    "Result",
    "Search",
    "SearchError",
    "SearchInterrupted",
    "Simulation",
    "Study",
    "ade_pulls_bound",
    "algorithms",
    "arms",
    "create_study",
    "delete_study",
    "errors",
    "find",
    "gaps",
    "hardness",
    "list_studies",
    "load_study",
    "lower_bound",
    "outliers",
    "plotting",
    "rr_pulls_bound",
    "simulate",
    "threshold",
    "upgrade_storage",
    "wrr_pulls_bound",
]
