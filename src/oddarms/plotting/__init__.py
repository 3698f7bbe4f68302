"""Pictures of results, drawn with matplotlib (``pip install 'oddarms[plot]'``).

Every function takes the `path` of a file to write, whose ending gives the format, and the `size`,
width and height in inches. It returns the figure, which belongs to no window and to no global
state. Colours are those of Okabe and Ito, told apart by the colour-blind; markers, hatches and
dashes say it again.
"""

from oddarms.plotting._arms import plot_intervals, plot_pulls
from oddarms.plotting._overviews import plot_evidence
from oddarms.plotting._style import drawing, file_content, new_figure, save

__all__ = [
    "drawing",
    "file_content",
    "new_figure",
    "plot_evidence",
    "plot_intervals",
    "plot_pulls",
    "save",
]
