"""Many candidates at once; `many.wit`. The world of the policy needs `with-many`."""

from collections.abc import Iterator, Sequence

from wit_world.imports import many
from wit_world.imports.many import Renewed, Row

from . import JOBS_MAX

__all__ = ["Renewed", "Row", "backfill", "next_rows", "renew", "rows", "start_or_reserve", "start_or_reserve_next"]


def next_rows(most: int) -> list[Row]:
    """The next candidates, each with what it asks for. Fewer than `most`, or than 4096, only when none is left."""
    return many.next(most)


def rows(most: int = JOBS_MAX) -> Iterator[Row]:
    """All candidates from the cursor on, each with what it asks for; asked for in portions of `most`."""
    while True:
        some = many.next(most)
        yield from some
        if len(some) < min(most, JOBS_MAX):
            return


def start_or_reserve(jobs: Sequence[int]) -> list[float]:
    """Each in turn started, or else reserved: -inf, the reserved start, or nan if neither was possible.

    Ends before the first that is refused with `Refusal.LIMIT`, and at 4096.
    """
    return many.start_or_reserve(list(jobs))


def start_or_reserve_next(reservations: int, unknown: int) -> bool:
    """:func:`start_or_reserve` of what ``pass_.next()`` gives, until `reservations` of them have been given a reservation.

    It ends, too, when no start is known for `unknown` of them; with no reservations, at the first that has to wait. False if the
    pass is over: no candidate is left, a bound of the host is reached, or one has to wait where none gets a reservation.
    """
    return many.start_or_reserve_next(reservations, unknown)


def backfill(reservations: int, unknown: int, *, holds: bool) -> bool:
    """A whole pass in the order of the queue: :func:`start_or_reserve_next`, then each job starts that ``pass_.next_fitting()`` gives.

    False, with reservations, if a bound of the host is reached or no candidate is left for one. With `holds`, this policy
    asks nothing but the same in each later pass of this queue, whatever has happened: the host may ask it in place of a call, and leaves
    out a pass that only submissions require, if all decisions are the same without it.
    """
    return many.backfill(reservations, unknown, holds)


def renew(count: int) -> list[Renewed] | None:
    """Makes the reservations of the last pass of this queue anew, and returns those that have another start than before.

    Each is made as by :func:`start_or_reserve`, in the order of their starts, and of equal starts in the order of the queue.
    ``None``, and nothing is done, if this instance did not make them in that pass, if there are not `count` of them any more,
    after a question of this pass that depends on reservations, and wherever the host cannot tell.
    """
    return many.renew(count)
