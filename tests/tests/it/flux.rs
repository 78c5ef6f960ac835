//! The essential scenarios on a real Flux, where a `flux` command is on PATH; elsewhere they are skipped.
//!
//! Each test is a script that a fresh instance with fake nodes runs as its initial program. A script waits only for
//! events, and ends at the first command that fails; its output is then shown.

use std::path::Path;
use std::process::{Command, Stdio};

use fluxgate_testing::{Need, has, skipped};
use fluxgate_tests::fixture::{binary, folder, policies};

/// Prepended to every script: functions to load the scheduler, submit jobs, and query.
const PRELUDE: &str = r#"
set -e
load() { flux module load --loader="$FG" --name=sched-fluxgate "$FG" "$@"; }
# A scheduler outside of the broker; returns when it serves.
connect() {
    rm -f ready; mkfifo ready
    "$FG" sched --uri "$FLUX_URI" --policies "$FLUXGATE_POLICIES" "$@" > ready 2>> sched.log &
    pid=$!
    read -r line < ready
    test "$line" = ready
}
mock() { flux submit --setattr=exec.test.run_duration="$1" "${@:2}" true; }
event() { flux job wait-event -t 60 "$1" "$2" > /dev/null; }
nodes() { flux job info "$1" R | jq -r '.execution.R_lite[].rank'; }
state() { flux jobs -no '{state}' "$1"; }
stat() { flux module stats sched-fluxgate | jq -r "$1"; }
# No command may succeed that must fail; what it said is kept.
refused() { if "$@" > refused.out 2>&1; then echo "accepted: $*"; exit 1; fi; }
# Whatever scheduler this Flux begins with.
for begins in sched-fluxion-qmanager sched-fluxion-feasibility sched-fluxion-resource sched-simple; do
    if flux module list | grep -q "^$begins "; then flux module remove $begins; fi
done
"#;

/// Seconds after which a script is ended.
const LIMIT_S: &str = "240";
/// One broker for all nodes.
const ONE: &str = "-s1";
/// A broker for each node.
const FOUR: [&str; 3] = ["-s4", "--test-hosts=node[0-3]", "--conf=resource.noverify=true"];

/// Runs a script in a new instance: 4 fake nodes of 4 cores, with these further options.
fn flux(options: &[&str], script: &str) {
    if !has(Need::Flux, "flux") {
        return;
    }
    let dir = folder();
    let path = dir.path().join("script");
    std::fs::write(&path, format!("{PRELUDE}{script}")).expect("the script can be written");
    // A script that waits for what never comes, such as a scheduler that does not start, is ended and shown.
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", LIMIT_S, "flux"]);
    command.args(["start", "--conf=fake-resources.nnodes=4", "--conf=fake-resources.cores-per-node=4"]);
    command.args(options).arg("bash").arg(&path).current_dir(dir.path());
    command.env("FG", binary()).env("FLUXGATE_POLICIES", policies());
    command.env_remove("FLUX_URI").stdin(Stdio::null());
    let output = command.output().expect("flux can be started");
    let log = std::fs::read_to_string(dir.path().join("sched.log")).unwrap_or_default();
    assert!(
        output.status.success(),
        "{}\n--- stdout\n{}\n--- stderr\n{}\n--- scheduler\n{log}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(Path::new(&path).exists());
}

#[test]
fn a_module_runs_jobs_and_is_loaded_again_among_them() {
    flux(
        &[ONE],
        r#"
load policy=easy
flux module list | grep 'sched-fluxgate.*feasibility,sched'
test "$(flux run -n1 echo hello)" = hello
running=$(mock 1h -N4 -t 2h); event $running alloc
waiting=$(mock 0.01s -N1 -t 1m); event $waiting priority
# Module by module the jobs stay.
flux module reload --loader="$FG" --name=sched-fluxgate "$FG" policy=fcfs
test "$(stat .session.\"hello-jobs\")" = 1
test "$(state $running)" = RUN
test "$(state $waiting)" = SCHED
flux cancel $running; event $running clean
event $waiting clean
test "$(stat .running)" = 0
flux module stats --rusage=self sched-fluxgate | jq -e '.utime >= 0'
flux ping -c1 sched-fluxgate
flux module stats --clear sched-fluxgate
flux module remove sched-fluxgate
# Nothing is left of it.
refused load policy=nosuch; flux dmesg | grep 'no policy "nosuch"'
refused load queue-depth=none; flux dmesg | grep 'queue-depth'
load
test "$(flux run -n1 echo again)" = again
"#,
    );
}

#[test]
fn an_external_client_is_killed_and_its_successor_knows_all() {
    flux(
        &[ONE],
        r#"
connect --policy easy
first=$pid
running=$(mock 1h -N3 -t 2h); event $running alloc
wide=$(mock 0.01s -N4 -t 1h); event $wide priority
kill -9 $first; wait $first || true
# Without a scheduler a job ends and another comes.
late=$(mock 0.01s -N1 -t 1m); event $late priority
connect --policy easy
test "$(stat .session.\"hello-jobs\")" = 1
# The late one goes ahead of the wide one: it ends before the three nodes come back.
event $late clean
test "$(state $wide)" = SCHED
flux cancel $running; event $running clean
event $wide clean
# A second scheduler is told so, and the first goes on.
refused "$FG" sched --uri "$FLUX_URI" --policies "$FLUXGATE_POLICIES"
grep -i already refused.out
test "$(flux run -n1 echo still)" = still
# Leaving in order.
kill -TERM $pid; wait $pid
load
test "$(flux run -n1 echo module)" = module
"#,
    );
}

#[test]
fn policies_are_swapped_while_jobs_wait() {
    flux(
        &[ONE],
        r#"
load policy=fcfs
fg() { "$FG" "$@" --uri "$FLUX_URI"; }
running=$(mock 1h -N3 -t 2h); event $running alloc
wide=$(mock 0.01s -N4 -t 1h); small=$(mock 0.01s -N1 -t 1m); event $small priority
test "$(state $small)" = SCHED
flux job wait-event -t 60 -m sched.reason_pending $wide annotations 2>/dev/null || true
until test -n "$(flux jobs -no '{annotations.sched.reason_pending}' $wide)"; do :; done
fg policy swap easy
event $small clean
fg policy list | grep '^\*  *easy'
fg policy rollback
fg policy list | grep '^\*  *fcfs'
flux cancel $running; event $wide clean
test "$(stat .engine.swaps)" -ge 2
"#,
    );
}

#[test]
fn nodes_go_and_come_and_constraints_hold() {
    flux(
        &FOUR,
        r#"
load policy=easy
running=$(mock 1h -N4 -n4 -t 2h); event $running alloc
flux resource drain 1-2
test "$(state $running)" = RUN
flux cancel $running; event $running clean
wide=$(mock 0.01s -N3 -t 1m); event $wide priority
two=$(mock 0.01s -N2 -t 1m); event $two clean
nodes $two | grep -x '0,3'
test "$(state $wide)" = SCHED
flux resource undrain 1-2
event $wide clean
picked=$(mock 0.01s -N1 --requires=rank:2 -t 1m); event $picked clean
nodes $picked | grep -x 2
never=$(mock 0.01s -N1 --requires=nosuch -t 1m); event $never clean
flux job eventlog $never | grep 'exception.*alloc'
# For good.
flux python -c 'import flux; flux.Flux().rpc("resource.monitor-force-down", {"ranks": "3"}).get()'
five=$(mock 0.01s -N4 -t 1m); event $five clean
flux job eventlog $five | grep 'exception.*unsatisfiable'
"#,
    );
}

#[test]
fn limits_change_and_feasibility_is_asked() {
    flux(
        &[ONE, "--conf=ingest.validator.plugins=[\"jobspec\",\"feasibility\"]"],
        r#"
load policy=easy
flux module reload -f job-ingest
refused flux submit -N5 true; grep -i unsatisfiable refused.out
refused flux submit -n1 -c5 true
refused flux submit -n1 -g1 true; grep gpu refused.out
running=$(mock 1h -N4 -t 30m); event $running alloc
head=$(mock 0.01s -N4 -t 10m); event $head priority
until test -n "$(flux jobs -no '{annotations.sched.t_estimate}' $head)"; do :; done
before=$(flux jobs -no '{annotations.sched.t_estimate}' $head)
# The owner's extension is not refused for the reserved start of the head, which moves back (FEAT-4), and forward again.
flux update $running duration=2h
until test "$(flux jobs -no '{annotations.sched.t_estimate}' $head)" != "$before"; do :; done
later=$(flux jobs -no '{annotations.sched.t_estimate}' $head)
flux update $running duration=20m
until test "$(flux jobs -no '{annotations.sched.t_estimate}' $head)" != "$later"; do :; done
flux cancel $head; event $head clean
flux update $running duration=2h
# A pending job asks anew with other limits.
next=$(mock 0.01s -N4 -t 10m); event $next priority
flux update $next duration=5m
flux job urgency $next hold
flux job urgency $next 20
flux cancel $running; event $next clean
test "$(stat .session.malformed)" = 0
"#,
    );
}

#[test]
fn housekeeping_gives_back_in_parts() {
    flux(
        &[
            FOUR[0],
            FOUR[1],
            FOUR[2],
            "--conf=job-manager.housekeeping.command=[\"true\"]",
            "--conf=job-manager.housekeeping.release-after=0s",
        ],
        r#"
load policy=easy log-level=debug
id=$(mock 0.01s -N4 -t 1m); event $id clean
next=$(mock 0.01s -N4 -t 1m); event $next clean
until test "$(stat .running)" = 0; do :; done
test "$(stat .resources.free_nodes)" = 4
"#,
    );
}

#[test]
fn an_emulator_learns_that_nothing_is_left_to_do() {
    flux(
        &[ONE],
        r#"
load policy=easy
ask() { flux python -c 'import flux,json; print(json.dumps(flux.Flux().rpc("sched.quiescent").get()))'; }
ask | jq -e '.status == 0 and .alloc_current == 0'
id=$(mock 1h -N1 -t 2h); event $id alloc
ask | jq -e '.status == 0 and .alloc_current == 1'
status() { FLUX_RESOURCE_LIST_RPC=sched.resource-status flux resource list -s "$1" -no '{nnodes}'; }
test "$(status allocated)" = 1
test "$(status free)" = 3
flux cancel $id; event $id clean
ask | jq -e '.alloc_current == 0'
"#,
    );
}

#[test]
fn five_hundred_jobs_and_nothing_is_held_twice() {
    flux(
        &[ONE],
        r#"
load policy=easy
flux queue stop
mock 0.001s -n1 --cc=1-500 > ids
for i in $(seq 20); do mock 0.001s -N2 -n2 -t 1m; done > wide
flux queue start
flux queue drain
test "$(flux jobs -a -f failed -no '{id}' | wc -l)" = 0
test "$(flux jobs -a -c 0 -f completed -no '{id}' | wc -l)" = 520
test "$(stat .resources.free_cores)" = 16
test "$(stat .session.commits)" -lt 520
"#,
    );
}

/// M16-1: the KVS of an enclosing instance is a source of the resource graph, with the allocations of its jobs.
#[test]
fn m16_1_the_graph_of_a_flux_is_loaded_searched_and_kept() {
    flux(
        &[ONE],
        r#"
connect --policy fcfs
running=$(mock 1h -N1 -x -t 2h); event $running alloc
"$FG" graph check --from-instance | grep 'r, 21 vertices, 20 edges, 4 ranks'
find() { "$FG" graph find --from-instance "$1"; }
test "$(find 'type=node and sched-now=free' | wc -l)" = 3
test "$(find "type=core and jobid-alloc=$running" | wc -l)" = 4
"$FG" graph save --whole state.db | grep 'whole, 21 vertices'
"$FG" graph save --changed state.db | grep 'nothing has changed'
flux cancel $running; event $running clean
"$FG" graph save --changed state.db | grep 'changed, 5 vertices saved'
"$FG" graph check state.db | grep 'sqlite, 21 vertices, 20 edges, 4 ranks'
refused "$FG" graph check --from-instance --uri "$FLUX_URI-none"
"#,
    );
}

/// Relays between a scheduler and the broker, and corrupts one answer when the file `spoil` appears.
const SPOILER: &str = r#"
import os, socket, sys, threading
listener = socket.socket(socket.AF_UNIX)
listener.bind("spoiler.sock")
listener.listen(1)
open("spoiler.ready", "w").close()
near = listener.accept()[0]
far = socket.socket(socket.AF_UNIX)
far.connect(os.environ["FLUX_URI"].removeprefix("local://"))

def pump(source, sink, spoils):
    while data := source.recv(1 << 16):
        if spoils and b'"type":0' in data and os.path.exists("spoil"):
            os.remove("spoil")
            data = data.replace(b'"type":0', b'"type":9', 1)
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)

threading.Thread(target=pump, args=(near, far, True)).start()
pump(far, near, False)
"#;

/// An answer of an unknown type: the job manager takes the scheduler offline without a message, and frees are lost.
#[test]
fn the_job_manager_drops_the_scheduler_without_telling_and_it_finds_out() {
    let spoiler = format!("cat > spoiler.py <<'EOF'{SPOILER}EOF\n");
    let script = r#"
flux python spoiler.py &
until test -e spoiler.ready; do :; done
FLUX_URI=local://$PWD/spoiler.sock connect --policy easy watch-period=0.2 audit-period=1
held=$(mock 1h -N2 -t 2h); event $held alloc
ending=$(mock 1h -N1 -t 2h); event $ending alloc
# From here on the job manager does not listen to the scheduler, and a free is lost.
touch spoil
spoilt=$(mock 0.01s -N1 -t 1m)
while test -e spoil; do :; done
flux cancel $ending; event $ending clean
# It notices, shakes hands again, and both the spoilt job and those that need what was lost run.
event $spoilt clean
wide=$(mock 0.01s -N2 -t 1m); event $wide clean
test "$(state $held)" = RUN
grep -q 'shaking hands again' sched.log
test "$(flux resource list -s allocated -no '{nnodes}')" = 2
test "$(stat .running)" = 1
flux cancel $held; event $held clean
all=$(mock 0.01s -N4 -t 1m); event $all clean
kill $pid; wait $pid || true
"#;
    flux(&[ONE], &format!("{spoiler}{script}"));
}

/// A machine of two chassis, each with four vertices of storage and two nodes, in place of the fake one; and
/// functions that load and remove the graph scheduler.
const SITE: &str = r#"
flux python - <<'EOF'
import json
nodes, edges, rank = [], [], 0
def vertex(above, path, **data):
    nodes.append({"id": str(len(nodes)), "metadata": dict(data, paths={"containment": path})})
    if above is not None:
        edges.append({"source": str(above), "target": str(len(nodes) - 1)})
    return len(nodes) - 1
root = vertex(None, "/site", type="cluster", name="site")
for c in range(2):
    chassis = vertex(root, f"/site/chassis{c}", type="chassis", id=c, properties={"rabbit": f"r{c}", "ssdcount": "4"})
    for s in range(4):
        vertex(chassis, f"/site/chassis{c}/ssd{s}", type="ssd", unit="GiB", size=100, status=1)
    for _ in range(2):
        path = f"/site/chassis{c}/n{rank}"
        node = vertex(chassis, path, type="node", name=f"n{rank}", rank=rank)
        for core in range(4):
            vertex(node, f"{path}/core{core}", type="core", id=core, rank=rank)
        rank += 1
json.dump({"graph": {"nodes": nodes, "edges": edges}}, open("site.jgf", "w"))
lite = [{"rank": "0-3", "children": {"core": "0-3"}}]
json.dump({"version": 1, "execution": {"R_lite": lite, "nodelist": ["n[0-3]"], "starttime": 0, "expiration": 0}}, open("R", "w"))
EOF
printf '[resource]\npath = "%s/R"\nscheduling = "%s/site.jgf"\nnoverify = true\nnorestrict = true\n' "$PWD" "$PWD" > site.toml
flux module remove resource
flux config load site.toml
flux module load resource monitor-force-up
flux module reload -f job-ingest disable-validator
theirs() {
    flux module load sched-fluxion-resource match-format="$1"
    flux module load sched-fluxion-qmanager queue-policy=easy
    flux module stats sched-fluxion-qmanager > /dev/null
}
no_theirs() { flux module remove sched-fluxion-qmanager; flux module remove sched-fluxion-resource; }
# All storage is marked up, as the service of the site does it.
up() { flux python -c '
import flux
h, path = flux.Flux(), "/site/chassis{}/ssd{}"
marks = [{"resource_path": path.format(c, s), "status": "up"} for c in range(2) for s in range(4)]
for answer in [h.rpc("sched-fluxion-resource.set_status", mark) for mark in marks]:
    answer.get()'; }
# Slots of a node and storage beside it.
beside() {
    jq -nc --argjson n "$1" '{version: 1, tasks: [{command: ["true"], slot: "task", count: {per_slot: 1}}],
        attributes: {system: {duration: 3600, exec: {test: {run_duration: "1h"}}}},
        resources: [{type: "slot", count: $n, label: "rabbit", with: [
            {type: "node", count: 1, exclusive: true, with: [
                {type: "slot", count: 1, label: "task", with: [{type: "core", count: 1}]}]},
            {type: "ssd", count: 10, exclusive: true}]}]}' | flux job submit
}
held() {
    for id in "$@"; do
        flux kvs get "$(flux job id --to=kvs $id).R" |
            jq -r '.scheduling.graph.nodes[].metadata | select(.exclusive) | .paths.containment'
    done
}
"#;

#[test]
fn site_48_49_jobs_live_on_when_one_scheduler_takes_the_place_of_the_other() {
    let script = r#"
for format in rv1 rv1_shorthand; do
    load policy=easy record-format=$format; up
    first=$(beside 2); event $first start
    flux module remove sched-fluxgate; theirs $format; up
    test "$(state $first)" = RUN
    second=$(beside 1); event $second start
    no_theirs; load policy=easy record-format=$format; up
    test "$(state $first)$(state $second)" = RUNRUN
    third=$(beside 1); event $third start
    # Nodes and storage of one chassis each, and nothing is held by two jobs.
    test -z "$(held $first $second $third | sort | uniq -d)"
    test "$(held $first $second $third | grep -c /ssd)" = 4
    fourth=$(beside 1); event $fourth priority
    flux cancel $second; event $second clean
    event $fourth start
    flux cancel $first $third $fourth
    for id in $first $third $fourth; do event $id clean; done
    test "$(stat .resources.free_nodes)" = 4
    flux module remove sched-fluxgate
done
"#;
    if has_graph_scheduler() {
        flux(&[ONE], &format!("{SITE}{script}"));
    }
}

#[test]
fn site_35_36_rules_about_resources_hold_on_a_real_flux_and_over_a_restart() {
    let script = r##"
printf '[sched-fluxgate.resources]\nby-unit = ["ssd"]\nnodes-below = { dw = "rabbit", lib = "tape" }\n' >> site.toml
flux config load site.toml
load policy=easy; up
# A node and this many GiB beside it, with an attribute of the system.
some() {
    jq -nc --argjson gib "$1" --arg key "$2" '{version: 1, tasks: [{command: ["true"], slot: "task", count: {per_slot: 1}}],
        attributes: {system: {duration: 3600, exec: {test: {run_duration: "1h"}}, ($key): "#DW"}},
        resources: [{type: "slot", count: 1, label: "rabbit", with: [
            {type: "node", count: 1, exclusive: true, with: [
                {type: "slot", count: 1, label: "task", with: [{type: "core", count: 1}]}]},
            {type: "ssd", count: $gib, exclusive: true}]}]}' | flux job submit
}
# 60, 340 and 400 of twice 400 GiB: only if units are taken, and not vertices of 100.
first=$(some 60 dw); event $first start
sizes() { flux job info "$1" R | jq -c '[.scheduling.graph.nodes[].metadata | select(.type == "ssd") | .size]'; }
test "$(sizes $first)" = '[60]'
flux module remove sched-fluxgate
load policy=easy; up
second=$(some 340 dw); event $second start
third=$(some 400 dw); event $third start
fourth=$(some 1 dw); event $fourth priority
# No node is below a vertex with the property that this attribute asks for.
fifth=$(some 1 lib); event $fifth exception; event $fifth clean
test "$(state $fourth)" = SCHED
flux cancel $first; event $fourth start
test "$(state $second)$(state $third)" = RUNRUN
flux cancel $second $third $fourth
for id in $second $third $fourth; do event $id clean; done
test "$(stat .resources.free_nodes)" = 4
"##;
    flux(&[ONE], &format!("{SITE}{script}"));
}

/// True if the graph scheduler of the Flux project is installed with this flux.
fn has_graph_scheduler() -> bool {
    if !has(Need::Flux, "flux") {
        return false;
    }
    let mut command = Command::new("flux");
    command.args(["start", "-s1", "--conf=fake-resources.nnodes=1", "bash", "-c"]);
    command.arg(
        "flux module list | grep -q '^sched-fluxion-resource ' || flux module load sched-fluxion-resource",
    );
    command.env_remove("FLUX_URI").env_remove("FLUX_SCHED_MODULE").stdin(Stdio::null());
    let found = command.output().is_ok_and(|output| output.status.success());
    if !found {
        skipped(Need::Program, "no sched-fluxion-resource beside flux");
    }
    found
}

#[test]
fn feat_26_reservations_outlive_a_scheduler_that_is_killed() {
    flux(
        &[ONE],
        r#"
connect --policy easy
first=$pid
reservation() { "$FG" reservation "$@"; }
keeps() { reservation list --json | jq -r '.reservations[] | .name + " " + .state'; }
reservation create dst --maintenance --start +1h --duration 2h --hosts all | grep 'keeps 4 nodes'
reservation create dat --start now --duration 30m --nodes 2 --users "$(id -u)"
test "$(keeps | sort | tr '\n' ',')" = "dat active,dst planned,"
# A job that would meet the maintenance waits and says so; one that ends before it runs.
long=$(mock 1h -N4 -x -t 90m); event $long priority
short=$(mock 0.01s -N1 -x -t 10m); event $short clean
# Nobody but a member is on the two nodes.
wide=$(mock 0.01s -N3 -x -t 10m); event $wide priority
member=$(mock 1h -N2 -x -t 10m --setattr=fluxgate.reservation=dat); event $member alloc
flux kvs get sched-fluxgate.reservations > /dev/null
kill -9 $first; wait $first || true
connect --policy easy
test "$(keeps | sort | tr '\n' ',')" = "dat active,dst planned,"
test "$(state $member)" = RUN
test "$(state $long)" = SCHED
test "$(state $wide)" = SCHED
"$FG" job $long | grep 'maintenance dst'
# Ended early, its nodes are for all.
flux cancel $member; event $member clean
reservation end dat
event $wide clean
reservation cancel dst
event $long alloc
if keeps | grep 'dst\|active\|planned'; then exit 1; fi
flux cancel $long; event $long clean
kill $pid; wait $pid
"#,
    );
}

/// FEAT-29: a stopped queue is started and stopped with its reservation, whatever ends in between.
#[test]
fn feat_29_a_queue_of_a_flux_is_open_while_its_reservation_is_on() {
    flux(
        &[ONE],
        r#"
printf '[queues.batch]\n[queues.dat]\n[sched-fluxgate.reservations]\nstart-queues = true\n' | flux config load
connect --policy easy
first=$pid
opened() { flux queue status dat | grep -q 'Scheduling is started'; }
if opened; then flux queue stop dat; fi
inside=$(mock 0.01s -q dat -n1 -t 10m); event $inside priority
long=$(mock 1h -q dat -n1 -t 2h); event $long priority
"$FG" reservation create dat --start now --duration 1h --hosts all --queues dat | grep 'keeps 4 nodes'
event $inside clean
opened
kill -9 $first; wait $first || true
# The next scheduler knows that it is to stop the queue.
flux kvs get sched-fluxgate.reservations | jq -e '.started_queues == ["dat"]'
connect --policy easy
opened
"$FG" reservation end dat
until flux queue status dat | grep 'no reservation of this queue is on'; do :; done
test "$(state $long)" = SCHED
until flux kvs get sched-fluxgate.reservations | jq -e '.started_queues == null'; do :; done
kill $pid; wait $pid
"#,
    );
}
