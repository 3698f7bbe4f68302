"""A conformance suite that every algorithm must pass, ours or a third party's.

Subclass `AlgorithmConformance` in a test module and name the algorithm; pytest, or any runner that
collects methods called ``test_...``, does the rest. Nothing here needs pytest.

>>> from oddarms.testing import AlgorithmConformance
>>> class TestRR(AlgorithmConformance):
...     algorithm = "rr"
...     options = {"batch": 10}
>>> TestRR().test_proposals_are_well_formed_and_counted()
"""

from oddarms.testing._conformance import AlgorithmConformance
from oddarms.testing._tools import (
    Instance,
    Streams,
    assert_consistent,
    assert_error_rate,
    assert_same,
    drive,
)

__all__ = [
    "AlgorithmConformance",
    "Instance",
    "Streams",
    "assert_consistent",
    "assert_error_rate",
    "assert_same",
    "drive",
]
