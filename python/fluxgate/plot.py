"""Pictures of a replay by matplotlib, in the colours of the reports. Each is drawn from tables that can be had alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

import numpy as np

from .errors import MissingExtra, OptionError

if TYPE_CHECKING:  # pragma: no cover
    from .result import Result, Run

#: The colours of reports (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6000", "#333333")
#: Seconds of a day.
DAY = 86_400.0


class Plots:
    """The pictures of a result."""

    def __init__(self, result: "Result") -> None:
        self._result = result

    def _axes(self, axes: Any, title: str, across: str, up: str) -> Any:
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtra("matplotlib", "plot") from None
        if axes is None:
            axes = Figure(figsize=(9.6, 4.2), layout="constrained").add_subplot()
        axes.set(title=title, xlabel=across, ylabel=up)
        axes.spines[["top", "right"]].set_visible(False)
        return axes

    def _runs(self, labels: Optional[Sequence[str]]) -> List[Tuple[int, "Run"]]:
        wanted = self._result.labels if labels is None else list(labels)
        return [(self._result.labels.index(label), self._result[label]) for label in wanted]

    def _first(self, runs: Sequence[Tuple[int, "Run"]]) -> float:
        submits = [run.jobs["submit"].min() for _, run in runs if len(run.jobs)]
        return float(min(submits, default=0.0))

    def ecdf(
        self, metric: str = "wait", labels: Optional[Sequence[str]] = None, *, tau: float = 10.0, axes: Any = None
    ) -> Any:
        """The share of jobs with at most that wait, response or bounded slowdown; logarithmic. Returns the figure."""
        unit = "" if metric == "bsld" else " (s)"
        axes = self._axes(axes, f"{metric}{unit}", f"{metric}{unit}", "jobs with at most that")
        for number, run in self._runs(labels):
            values = np.sort(run.values(metric, tau=tau))
            share = np.arange(1, len(values) + 1) / max(len(values), 1)
            axes.step(np.maximum(values, 1.0), share, where="post", label=run.label, color=COLOURS[number % 8])
        axes.set_xscale("log")
        axes.set_ylim(0, 1)
        axes.legend(frameon=False)
        return axes.figure

    def _steps(self, column: str, labels: Optional[Sequence[str]], axes: Any) -> Any:
        runs = self._runs(labels)
        first = self._first(runs)
        for number, run in runs:
            timeline = run.timeline
            days = (timeline["time"] - first) / DAY
            axes.step(days, timeline[column], where="post", label=run.label, color=COLOURS[number % 8], linewidth=0.8)
        axes.legend(frameon=False)
        return axes.figure

    def queue(self, labels: Optional[Sequence[str]] = None, *, axes: Any = None) -> Any:
        """Waiting jobs over time; needs ``replay(..., timeline=True)``. Returns the figure."""
        return self._steps("queued", labels, self._axes(axes, "waiting jobs", "days", "jobs"))

    def used(self, labels: Optional[Sequence[str]] = None, *, axes: Any = None) -> Any:
        """Cores in use over time; needs ``replay(..., timeline=True)``. Returns the figure."""
        return self._steps("used", labels, self._axes(axes, "cores in use", "days", "cores"))

    def gantt(self, label: str, *, start: float = 0.0, days: Optional[float] = None, axes: Any = None) -> Any:
        """When and where jobs ran, for `days` from the day `start` on. Returns the figure."""
        run: "Run" = self._result[label]
        if not run._run.has_places:
            raise OptionError("places were not kept: replay(..., places=True)")
        axes = self._axes(axes, f"{label}: jobs", "days", "core")
        from matplotlib.collections import PolyCollection

        jobs = run.jobs
        origin = self._first([(0, run)])
        begins, ends = (jobs["start"] - origin) / DAY, (jobs["end"] - origin) / DAY
        last = float("inf") if days is None else start + days
        shown = np.flatnonzero((begins < last) & (ends > start))
        boxes, colours = [], []
        top = 0
        for index in shown:
            for low, high in run._run.places(int(index)):
                left, right, high = begins[index], ends[index], high + 1
                boxes.append(((left, low), (left, high), (right, high), (right, low)))
                colours.append(COLOURS[int(jobs["job"][index]) % 7])
                top = max(top, high)
        axes.add_collection(PolyCollection(boxes, facecolors=colours, edgecolors="white", linewidths=0.2))
        right = float(ends[shown].max()) if len(shown) else start + 1.0
        axes.set_xlim(start, min(right, last))
        axes.set_ylim(0, max(top, 1))
        return axes.figure
