"""The whole suite."""

from __future__ import annotations

from oddarms.testing._guarantees import GuaranteeConformance
from oddarms.testing._inputs import InputConformance
from oddarms.testing._protocol import ProtocolConformance
from oddarms.testing._saving import SavingConformance


class AlgorithmConformance(
    ProtocolConformance, InputConformance, SavingConformance, GuaranteeConformance
):
    """What any algorithm must pass; subclass it and set `algorithm`.

    Attributes
    ----------
    algorithm
        The registered name; a class of your own is registered with
        `oddarms.algorithms.register` or an entry point.
    options
        Options passed to the algorithm in every test.
    delta
        The permitted probability of error.
    easy
        An `Instance` with outliers and normal arms that the algorithm settles interactively
        within `easy_budget` pulls.
    easy_budget, short_budget
        Pulls for whole searches, and pulls for a few steps.
    instances, runs, simulated_budget
        On which means, how often and with which budget per run delta-correctness is simulated.

    Notes
    -----
    Statistical checks are seeded, and an algorithm that errs with probability exactly delta fails
    one of them with probability 1e-6 at most (see `assert_error_rate`).

    Examples
    --------
    >>> class TestWRR(AlgorithmConformance):
    ...     algorithm = "wrr"
    ...     options = {"rho": 2.0, "batch": 5}
    >>> TestWRR().test_deterministic_rewards()
    """
