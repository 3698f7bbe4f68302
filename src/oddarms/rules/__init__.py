"""Rules: how the threshold follows from the means of all arms.

============  ==========================================  ============
name          plain threshold                             centre
============  ==========================================  ============
``sigma``     mean + k standard deviations, the default   mean
``mad``       median + k MAD                              median
``tukey``     Q3 + k (Q3 - Q1)                            median
``quantile``  the means' quantile                         median
``control``   the mean of a named arm                     that arm
``absolute``  the floor                                   none
============  ==========================================  ============
"""

from oddarms.rules._base import Ends, Rule
from oddarms.rules._order import Mad, Quantile, Tukey, middle, separate_bounds
from oddarms.rules._questions import (
    Absolute,
    Control,
    Sigma,
    gaps_to_thresholds,
    rule_of,
    true_outliers,
)

__all__ = [
    "Absolute",
    "Control",
    "Ends",
    "Mad",
    "Quantile",
    "Rule",
    "Sigma",
    "Tukey",
    "gaps_to_thresholds",
    "middle",
    "rule_of",
    "separate_bounds",
    "true_outliers",
]
