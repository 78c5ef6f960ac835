# Start Fluxgate as a broker module. The broker loads .py files through its Python loader, which has taken the
# module's welcome from the connection by now: hand on what was in it, and become the scheduler.
import json
import os

from _flux._core import ffi, lib

BINARY = "@BINARY@"
CONF_BYTES_MAX = 65536


def mod_main(h, *args):
    def told(key):
        return ffi.string(ffi.cast("char *", lib.flux_aux_get(h.handle, key))).decode()

    os.environ["FLUXGATE_MODULE_NAME"] = told(b"flux::name")
    os.environ["FLUXGATE_MODULE_UUID"] = told(b"flux::uuid")
    os.environ["FLUXGATE_MODULE_ARGS"] = json.dumps(args)
    conf = json.dumps(h.conf_get())
    # Without it the scheduler asks the broker itself: the environment has little room.
    if len(conf) <= CONF_BYTES_MAX:
        os.environ["FLUXGATE_MODULE_CONF"] = conf
    os.execv(BINARY, [BINARY])
