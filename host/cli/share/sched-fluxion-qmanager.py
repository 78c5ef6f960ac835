# Start Fluxgate under the name of the graph scheduler's module for queues, with the arguments of that one and of
# sched-fluxion-resource, which must be loaded.
import json
import os

from _flux._core import ffi, lib

BINARY = "@BINARY@"
CONF_BYTES_MAX = 65536


def mod_main(h, *args):
    def told(key):
        return ffi.string(ffi.cast("char *", lib.flux_aux_get(h.handle, key))).decode()

    resource = h.rpc("sched-fluxion-resource.arguments").get()["arguments"]
    os.environ["FLUXGATE_MODULE_NAME"] = told(b"flux::name")
    os.environ["FLUXGATE_MODULE_UUID"] = told(b"flux::uuid")
    os.environ["FLUXGATE_MODULE_ARGS"] = json.dumps(resource + list(args))
    conf = json.dumps(h.conf_get())
    # Without it the scheduler asks the broker itself: the environment has little room.
    if len(conf) <= CONF_BYTES_MAX:
        os.environ["FLUXGATE_MODULE_CONF"] = conf
    os.execv(BINARY, [BINARY])
