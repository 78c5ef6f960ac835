"""Resources beside nodes, cores and gpus; `resources.wit`. The world of the policy needs `with-resources`."""

from collections.abc import Sequence

from wit_world.imports import resources
from wit_world.imports.resources import Kind

from . import _rows

__all__ = ["Kind", "amounts", "kinds"]


def kinds() -> list[Kind]:
    """All kinds, none on a machine without such resources."""
    return resources.kinds()


def amounts(jobs: Sequence[int]) -> list[list[int]]:
    """For each of these candidates, the least that it takes of each kind, in the order of `kinds`."""
    return _rows(jobs, resources.asked)
