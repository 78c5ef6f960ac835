"""The candidates of a pass by group; `groups.wit`. The world of the policy needs `with-groups`.

The jobs of a group have one user and one priority, and come in the order of submission.
"""

from collections.abc import Iterator

from wit_world.imports import groups, pass_
from wit_world.imports.groups import Row, Wanted

from . import JOBS_MAX

__all__ = ["Kept", "Row", "after", "heads"]


def heads(*, by_cores: bool = False, fitting: bool = False) -> list[Row]:
    """The first candidate of each group that has one.

    With `by_cores` the jobs of a group have one number of fewest cores too. With `fitting`, candidates are left out that
    cannot start now, as far as the host knows.
    """
    wanted = Wanted(by_cores, fitting)
    found = some = groups.heads(wanted, None)
    while len(some) == JOBS_MAX:
        some = groups.heads(wanted, found[-1].candidate)
        found = found + some
    return found


class Kept:
    """The first candidates of the groups of each queue, so that a pass is told only of those that changed since the last one."""

    def __init__(self) -> None:
        self._queues: dict[int, list[Row | None]] = {}

    def heads(self, *, by_cores: bool = False) -> list[Row]:
        """The first candidate of each group that has one. To be called before the first start or reservation of a pass."""
        first = self._queues.setdefault(pass_.queue(), [])
        more = JOBS_MAX
        while more == JOBS_MAX:
            changes = groups.changed(by_cores)
            if changes.all:
                first.clear()
            for head in changes.heads:
                first.extend([None] * (head.group + 1 - len(first)))
                first[head.group] = head.first
            more = len(changes.heads)
        return [row for row in first if row is not None]


def after(job: int, *, fitting: bool = False) -> Iterator[Row]:
    """The candidates of the group of this one that come after it, each asked for when it is needed."""
    while (row := groups.next(job, fitting)) is not None:
        yield row
        job = row.candidate
