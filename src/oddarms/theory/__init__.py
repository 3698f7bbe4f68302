"""What is known of known means: outliers, hardness, what no algorithm can beat, the theorems.

The threshold is that of the ADE paper, mean + k standard deviations: without a margin (margin=0).
"""

from oddarms.theory._bound import Limit, lower_bound
from oddarms.theory._first_order import first_order_program
from oddarms.theory._known_means import Hardness, gaps, hardness, outliers, threshold
from oddarms.theory._spade_bound import spade_pulls_bound
from oddarms.theory._theorems import ade_pulls_bound, rr_pulls_bound, wrr_pulls_bound

__all__ = [
    "Hardness",
    "Limit",
    "ade_pulls_bound",
    "first_order_program",
    "gaps",
    "hardness",
    "lower_bound",
    "outliers",
    "rr_pulls_bound",
    "spade_pulls_bound",
    "threshold",
    "wrr_pulls_bound",
]
