# Stands where the graph scheduler's module of this name was, for scripts that load and remove it. Whether a job can ever
# run is answered by the scheduler, which takes the place of sched-fluxion-qmanager.
from flux.brokermod import BrokerModule


def mod_main(h, *args):
    h.rpc("sched-fluxion-resource.arguments").get()
    BrokerModule(h, *args).run()
