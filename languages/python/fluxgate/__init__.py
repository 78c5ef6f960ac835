"""For scheduling policies in Python: the questions of a pass in convenient form.

A refusal is a value and not an exception, and candidates come from iterators. `policy.wit` says what each question means; the
same without this package is in `wit_world.imports`. Only inside of a component: what any Python shall test must not import it.

What the contract gained after the release of 0.1.0 is in modules of their own: `many`, `groups`, `flow`, `resources` and
`attributes`. Each needs its line in the policy's world, such as `include fluxgate:policy/with-flow@0.1.0;`. A policy without
that line runs on hosts that lack it.

SPDX-License-Identifier: Apache-2.0
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from componentize_py_types import Err
from wit_world.imports import pass_
from wit_world.imports.types import Refusal

T = TypeVar("T")

# Candidates of one question, at most.
JOBS_MAX = 4096

_NONE = 4294967295


def candidates() -> Iterator[int]:
    """The candidates of the pass in their order, from the cursor on."""
    while (job := pass_.next()) != _NONE:
        yield job


def fitting() -> Iterator[int]:
    """The same without candidates that cannot start now, as far as the host knows."""
    while (job := pass_.next_fitting()) != _NONE:
        yield job


def start(job: int) -> Refusal | None:
    """Start it. None after a start, else the refusal."""
    return _answer(lambda: pass_.start(job))[1]


def start_placed(job: int, placement: int) -> Refusal | None:
    """Start it with a preference from `pass_.placement`."""
    return _answer(lambda: pass_.start_placed(job, placement))[1]


def reserve(job: int) -> tuple[float | None, Refusal | None]:
    """Reserve its earliest start: the start or the refusal, the other is None."""
    return _answer(lambda: pass_.reserve(job))


def _answer(question: Callable[[], T]) -> tuple[T | None, Refusal | None]:
    try:
        return question(), None
    except Err as why:
        return None, why.value


def _rows(jobs: Sequence[int], ask: Callable[[list[int]], list[int]]) -> list[list[int]]:
    """Columns of rows, which come one row after another, as a list for each row."""
    split: list[list[int]] = []
    for at in range(0, len(jobs), JOBS_MAX):
        some = list(jobs[at : at + JOBS_MAX])
        answers = ask(some)
        columns = len(answers) // len(some)
        split += [answers[i * columns : (i + 1) * columns] for i in range(len(some))]
    return split
