"""The policy `easy` in Python; the rule is in ../README.md, the same in Rust in ../src and guest-sdk/src/backfill.rs."""

import math

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import pass_
from wit_world.imports.types import ConfigKey, ConfigKind, Description, Refusal

# No candidate is left.
NONE = 4294967295
# Heads without any start time that are passed over in one pass.
PASSED_OVER_MAX = 64
DEPTH_MAX = 1000

# Number of waiting jobs that get a reservation in one pass.
depth = 1


class Policy(exports.Policy):
    def describe(self) -> Description:
        return Description(
            name="easy-python",
            version="0.1.0",
            summary="EASY backfilling in Python: what does not delay the first waiting job may start before it",
            config=[
                ConfigKey(
                    "depth", ConfigKind.INTEGER, "1", "how many waiting jobs have a reservation, 1 to 1000"
                )
            ],
        )

    def configure(self, values: list[tuple[str, str]]) -> None:
        global depth
        depth = int(dict(values)["depth"])
        if not 1 <= depth <= DEPTH_MAX:
            raise Err(f"`depth` is {depth}, but must be between 1 and {DEPTH_MAX}")


def start(job: int) -> Refusal | None:
    """Why the host did not start the candidate, or None when it did."""
    try:
        pass_.start(job)
        return None
    except Err as refusal:
        return refusal.value


def heads() -> bool:
    """Until `depth` jobs have a reservation: start the next, else reserve its earliest start. False ends the pass."""
    reserved = passed_over = 0
    while reserved < depth and passed_over < PASSED_OVER_MAX:
        job = pass_.next()
        if job == NONE:
            return False
        refusal = start(job)
        if refusal == Refusal.LIMIT:
            return False
        if refusal in (Refusal.BUSY, Refusal.DELAYS_RESERVATION):
            try:
                finite = math.isfinite(pass_.reserve(job))
            except Err as why:
                if why.value == Refusal.LIMIT:
                    return True
                finite = False
            reserved += finite
            passed_over += not finite
    return True


class Scheduling(exports.Scheduling):
    def run(self) -> None:
        if not heads():
            return
        while (job := pass_.next_fitting()) != NONE:
            if start(job) == Refusal.LIMIT:
                return
