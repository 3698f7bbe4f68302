"""Pictures of results, drawn with matplotlib (``pip install 'oddarms[plot]'``).

Every function returns the figure, which belongs to no window and to no global state. Colours are
those of Okabe and Ito, told apart by the colour-blind; markers, hatches and dashes say it again.
"""

from oddarms.plotting._comparison import plot_comparison
from oddarms.plotting._evidence import plot_evidence
from oddarms.plotting._intervals import plot_intervals
from oddarms.plotting._pulls import plot_pulls
from oddarms.plotting._rules import plot_rules
from oddarms.plotting._style import file_content, new_figure, save

__all__ = [
    "file_content",
    "new_figure",
    "plot_comparison",
    "plot_evidence",
    "plot_intervals",
    "plot_pulls",
    "plot_rules",
    "save",
]
