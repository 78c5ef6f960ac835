"""What is known of jobs beside what they ask for; `attributes.wit`. The world of the policy needs `with-attributes`.

Attributes are told by users and never checked, and unknown for many jobs.
"""

from collections.abc import Sequence

from wit_world.imports import attributes

from . import JOBS_MAX

# Names of attributes: memory of the whole job in bytes; the group or bank that it belongs to or is charged to; its program, or the
# number of it in a log; what its user calls it.
MEMORY = "memory"
GROUP = "group"
APPLICATION = "application"
NAME = "name"


def texts(name: str, jobs: Sequence[int]) -> list[str | None]:
    """The attribute of each of these candidates as text; None where it is unknown."""
    found: list[str | None] = []
    for at in range(0, len(jobs), JOBS_MAX):
        found += attributes.text(name, list(jobs[at : at + JOBS_MAX]))
    return found


def numbers(name: str, jobs: Sequence[int]) -> list[float]:
    """The same as numbers; nan where it is unknown, or a text that is no finite number."""
    found: list[float] = []
    for at in range(0, len(jobs), JOBS_MAX):
        found += attributes.numbers(name, list(jobs[at : at + JOBS_MAX]))
    return found
