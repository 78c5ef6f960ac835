# Fall back to whoever ranks next (sched-simple, where nothing else is installed) when the scheduler's program is
# gone: an instance with another scheduler is better than none.
import os
import sys

BINARY = "@BINARY@"


def setup(context):
    if context.rank == 0 and not os.access(BINARY, os.X_OK):
        print(f"fluxgate: {BINARY} cannot be run; another scheduler is loaded", file=sys.stderr)
        context.modprobe.disable("sched-fluxgate")
