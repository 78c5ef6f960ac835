"""Do two policies decide the same? Where a Python policy and its port to a component first differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Tuple

import numpy as np

from .log import Log
from .replaying import replay, undrawn
from .table import Table


@dataclass(frozen=True)
class Difference:
    """The first instant at which two policies did not start the same jobs. Until then they decided the same."""

    #: The two policies.
    a: str
    b: str
    #: Seconds.
    time: float
    #: Jobs that started then under each.
    started_a: Tuple[int, ...]
    started_b: Tuple[int, ...]
    #: The jobs that waited then, in the order of submission: job, user, submit, cores, limit, and who started it
    #: (``a`` and ``b``).
    candidates: Table

    def __str__(self) -> str:
        def told(jobs: Tuple[int, ...]) -> str:
            return ", ".join(map(str, jobs)) or "none"

        return (
            f"at {self.time} s of {len(self.candidates)} waiting jobs {self.a} started {told(self.started_a)}; "
            f"{self.b} started {told(self.started_b)}"
        )


def same(policy_a: Any, policy_b: Any, log: Log, **options: Any) -> Optional[Difference]:
    """Replay a log under both; none if every job started at the same time, else where they first differ.

    `options` are those of :func:`replay`.
    """
    undrawn("same", options)
    a, b = replay(log, [policy_a, policy_b], **{"places": False, **options})
    submitted = log.frame()
    ids = submitted["job"]
    starts = [_starts(ids, run.jobs) for run in (a, b)]
    differ = (starts[0] != starts[1]) & ~(np.isinf(starts[0]) & np.isinf(starts[1]))
    if not differ.any():
        return None
    time = float(np.minimum(starts[0], starts[1])[differ].min())
    waiting = (submitted["submit"] <= time) & (np.minimum(starts[0], starts[1]) >= time)
    at = [waiting & (start == time) for start in starts]
    columns = {name: submitted[name][waiting] for name in ("job", "user", "submit", "cores", "limit")}
    return Difference(
        a.label,
        b.label,
        time,
        tuple(int(job) for job in ids[at[0]]),
        tuple(int(job) for job in ids[at[1]]),
        Table({**columns, "a": at[0][waiting], "b": at[1][waiting]}),
    )


def _starts(ids: Any, jobs: Table) -> Any:
    """The start of each job, infinite if it never started."""
    order = np.argsort(ids)
    found = np.full(len(ids), np.inf)
    found[order[np.searchsorted(ids, jobs["job"], sorter=order)]] = jobs["start"]
    return found
