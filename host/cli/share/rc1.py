# Fall back to the scheduler of the next lower priority (sched-simple, where nothing else is installed) when the program
# of this one is gone: an instance with another scheduler is better than none.
import os
import sys

BINARY = "@BINARY@"


def setup(context):
    if context.rank == 0 and not os.access(BINARY, os.X_OK):
        print(f"fluxgate: {BINARY} cannot be run; another scheduler is loaded", file=sys.stderr)
        context.modprobe.disable("sched-fluxgate")
        # The modules that the other scheduler requires are not among those of this one: ask for both services again.
        if os.environ.get("FLUX_SCHED_MODULE") != "none":
            context.load_modules(["sched", "feasibility"])
