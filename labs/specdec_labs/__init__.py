"""The lab around `specdec_core`: experiments, plots, widgets, grading and the command line.

Importing this package imports nothing heavy; widgets, plots and models are loaded by the module that shows them.
"""

from specdec_core import __version__

__all__ = ["__version__"]
