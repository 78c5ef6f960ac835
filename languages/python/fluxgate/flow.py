"""What flows to nodes beside their cores, such as power or bandwidth; `flow.wit`. The world of the policy needs `with-flow`."""

from collections.abc import Sequence

from wit_world.imports import flow
from wit_world.imports.flow import Kind, Span
from wit_world.imports.types import Refusal

from . import _answer, _rows

__all__ = ["Kind", "Span", "amounts", "earliest_after", "kinds", "reserve_after", "spans"]


def kinds() -> list[Kind]:
    """All kinds, none where nothing flows. Below, a kind is its place in this list."""
    return flow.kinds()


def amounts(jobs: Sequence[int]) -> list[list[int]]:
    """For each of these candidates, the least that it takes of each kind."""
    return _rows(jobs, flow.asked)


def spans(kind: int) -> list[Span]:
    """What is held and what has been reserved of a kind: first what is held, by end, then reservations by start."""
    return flow.spans(kind)


def earliest_after(job: int, time: float) -> float:
    """`pass_.earliest` for a start at this time or later. Not a number as time is a breach of the contract."""
    return flow.earliest_after(job, time)


def reserve_after(job: int, time: float) -> tuple[float | None, Refusal | None]:
    """`reserve` for a start at this time or later. Not a number as time is a breach of the contract."""
    return _answer(lambda: flow.reserve_after(job, time))
