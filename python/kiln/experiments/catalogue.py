"""The experiments there are."""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kiln.experiments.report import Report


class Experiment(Protocol):
    """What the module of an experiment has."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Those that are its own; --device, --json and --plot are everyone's."""

    def run(self, options: argparse.Namespace) -> Report:
        """Measures. ``options.device`` is "cpu" or "cuda:N", which is there.

        Raises
        ------
        kiln.Error
            For options that make no sense together (UsageError), and work that failed.
        """

    def draw(self, report: Report, figure: Figure) -> None:
        """The picture of a report, in an empty figure."""


#: By name: what each one shows, in a line.
SUMMARIES = {
    "adaptive": "block sizes by element count: fixed, adaptive and tuned, with what was chosen when",
    "gather": "short rows from the host to a GPU: from byte by byte to a warp per row, and Kiln beside them",
    "decode": "a paged decode loop: tokens a second by slices and cats, and with one launch for each",
    "graphs": "what a graph saves of the cost of launches, by how long a kernel takes",
    "offload": "pinned memory, copies that are waited for or not, and layers that are loaded beside compute",
}


def find(name: str) -> Experiment:
    """The module of an experiment that SUMMARIES has."""
    return cast(Experiment, importlib.import_module(f"kiln.experiments.{name}"))
