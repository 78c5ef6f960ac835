"""One replay by AccaSim: LOG fcfs|easy NODES CORES prints jobs, processor seconds with reading, mean wait, version."""

import collections
import collections.abc
import importlib.metadata
import json
import os
import sys
import tempfile
import time

# AccaSim 1.1.3 was written for Python 3.5 and imports these from where they were then.
for name in ("Mapping", "MutableMapping", "Iterable"):
    if not hasattr(collections, name):
        setattr(collections, name, getattr(collections.abc, name))

from accasim.base.allocator_class import FirstFit
from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut
from accasim.base.simulator_class import Simulator

log, policy, nodes, cores = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
dispatcher = {"fcfs": FirstInFirstOut, "easy": EASYBackfilling}[policy](FirstFit())
# It writes beside the log and into the folder that it runs in.
os.chdir(tempfile.mkdtemp())
machine = {
    "groups": {"all": {"core": cores}},
    "resources": {"all": nodes},
    "equivalence": {"processor": {"core": 1}},
    "system_name": "log",
    "start_time": 0,
}
with open("machine.json", "w") as file:
    json.dump(machine, file)
simulator = Simulator(
    log, "machine.json", dispatcher, scheduling_output=False, statistics_output=False, show_statistics=False
)
waits = []
dispatch = simulator.mapper.dispatch_event


def watched(job, now, *rest):
    waits.append(now - job.queued_time)
    return dispatch(job, now, *rest)


simulator.mapper.dispatch_event = watched
begin = time.process_time()
simulator.start_simulation()
seconds = time.process_time() - begin
mean = sum(waits) / max(len(waits), 1)
print("result", simulator.dispatched_jobs, seconds, mean, importlib.metadata.version("accasim"))
