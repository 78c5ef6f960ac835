"""my-policy: orders the queue so that short jobs overtake, but not for ever.

The key of a job is its time of submission plus `weight` times its requested duration. A job that has waited that much
longer comes first again.
"""

import math

# Seconds of waiting that one second of duration is worth.
weight = 1.0


def configure(values: dict[str, str]) -> None:
    """A ValueError refuses the settings."""
    global weight
    weight = float(values["weight"])
    if not (math.isfinite(weight) and weight >= 0.0):
        raise ValueError(f"`weight` is {weight}, but must be 0 or more")


def key(t_submit: float, duration: float) -> float:
    # A job without limit has an infinite duration, and 0 times that is not a number.
    return t_submit if weight == 0.0 else t_submit + weight * duration
