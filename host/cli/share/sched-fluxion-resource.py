# Stands where the graph scheduler's module of this name was, for scripts that load and remove it: keeps its arguments
# for the scheduler, which takes the place of sched-fluxion-qmanager, and passes requests on to it.
from flux.brokermod import BrokerModule, request_handler

SCHEDULER = "sched-fluxion-qmanager"


class Resource(BrokerModule):
    def pass_on(self, msg):
        future = self.handle.rpc(f"{SCHEDULER}.{msg.topic}", msg.payload_str)
        future.then(self.answer, msg)

    def answer(self, future, msg):
        try:
            self.handle.respond(msg, future.get_str())
        except OSError as error:
            self.handle.respond_error(msg, error.errno, error.strerror)

    @request_handler("arguments")
    def arguments(self, msg):
        self.handle.respond(msg, {"arguments": list(self.args)})

    # Methods that guests may call.
    stats_get = request_handler("stats-get", allow_guest=True)(lambda self, msg: self.pass_on(msg))
    stats_clear = request_handler("stats-clear", allow_guest=True)(lambda self, msg: self.pass_on(msg))


for method in (
    "set_status set_property remove_property get_property find status cancel partial-cancel info params match "
    "match_multi update next_jobid ns-info notify add_subgraph remove_subgraph"
).split():
    setattr(Resource, method, request_handler(method)(lambda self, msg: self.pass_on(msg)))


def mod_main(h, *args):
    Resource(h, *args).run()
    # Without it the others go too.
    for name in (SCHEDULER, "sched-fluxion-feasibility"):
        try:
            h.rpc("module.remove", {"name": name}).get()
        except OSError:
            pass
