//! A real Flux with fake nodes and mock execution: jobs per second, CPU seconds of the scheduler, and the wait of one
//! job behind many that cannot run. Fluxgate beside the schedulers of this Flux, Fluxion where it is installed, and a
//! scheduler without decisions, which shows the cost of everything around a scheduler. The last table has one job that can
//! only be backfilled, behind jobs whose durations and widths differ, by the events of its eventlog.
//!
//! Needs `flux` on PATH. Arguments choose tables: `burst`, `behind`, `mixed`. `FLUXGATE_BENCH_PENDING` is a list of queue
//! depths, by default `1000,10000`; `FLUXGATE_BENCH_SCHEDULERS` is a list of schedulers, by default all.

use std::path::PathBuf;
use std::process::Command;

use fluxgate_tests::fixture::{folder, note, policies, root};

const NODES: u32 = 1024;
const JOBS: u32 = 5000;
const ROUNDS: usize = 3;

/// Starts every job of one node at once, on the nodes in order, and lets jobs of more nodes wait.
const NULL: &str = r#"
from flux.scheduler import Scheduler

class Null(Scheduler):
    turn = 0

    def alloc(self, request, jobid, priority, userid, t_submit, jobspec):
        if jobspec["resources"][0]["count"] != 1:
            return
        rank, self.turn = self.turn % 1024, self.turn + 1
        here = {"rank": str(rank), "children": {"core": "0-63"}}
        request.success({"version": 1, "execution": {
            "R_lite": [here], "nodelist": [f"fake{rank}"], "starttime": t_submit, "expiration": t_submit + 3600}})

    def free(self, *args, **kwargs):
        pass

    def schedule(self):
        pass

def mod_main(h, *args):
    Null(h, *args).run()
"#;

/// Loads the scheduler `$SCHED`, and prints its CPU time so far.
const PRELUDE: &str = r#"
set -e
# Whatever scheduler this Flux begins with.
for begins in sched-fluxion-qmanager sched-fluxion-feasibility sched-fluxion-resource sched-simple; do
    if flux module list | grep -q "^$begins "; then flux module remove $begins; fi
done
case $SCHED in
fluxgate-*) name=sched-fluxgate; flux module load --loader="$FG" --name=$name "$FG" policy=${SCHED#fluxgate-} ;;
fluxion)
    names="sched-fluxion-resource sched-fluxion-qmanager"
    flux module load sched-fluxion-resource
    flux module load sched-fluxion-feasibility
    flux module load sched-fluxion-qmanager queue-policy=easy
    ;;
null) name=null; flux module load $NULL ;;
*) name=${SCHED%% *}; flux module load $SCHED ;;
esac
flux module reload -f job-ingest disable-validator
used() {
    for one in ${names:-$name}; do flux module stats --rusage=self $one; done | jq -s 'map(.utime + .stime) | add'
}
"#;

/// One-node jobs that were submitted while the queue was stopped.
const BURST: &str = r#"
flux queue stop --quiet
flux submit --quiet --cc=1-$JOBS -N1 --setattr=exec.test.run_duration=0.001s true
before=$(used)
begin=$(date +%s.%N)
flux queue start --quiet
flux queue drain
after=$(used)
last=$(flux jobs -a -c 0 -no '{t_inactive}' | sort -n | tail -1)
echo "RESULT $(jq -n "$JOBS / ($last - $begin)") $(jq -n "$after - $before")"
"#;

/// One job behind many that cannot run, ten times.
const BEHIND: &str = r#"
held=$(flux submit -N1 -t 600s --setattr=exec.test.run_duration=600s true)
flux job wait-event $held alloc > /dev/null
[ $PENDING -eq 0 ] || flux submit --quiet --cc=1-$PENDING -N$NODES -t 600s true
# One that lets itself be sent a few at a time never sees them all.
[ $SCHED = sched-simple ] || [ $SCHED = fluxion ] || [ $SCHED = null ] ||
    until [ "$(flux module stats $name | jq -r '.pending // .pending_jobs')" -ge $PENDING ]; do :; done
# One that is not counted waits for what such a submission leaves behind.
first=$(flux submit -N1 -t 60s --urgency=31 --setattr=exec.test.run_duration=0.001s true)
flux job wait-event $first clean > /dev/null
flux job stats > /dev/null
before=$(used)
for i in 1 2 3 4 5 6 7 8 9 10; do
    id=$(flux submit -N1 -t 60s --urgency=$URGENCY --setattr=exec.test.run_duration=0.001s true)
    timeout 300 flux job wait-event $id clean > /dev/null
    flux job eventlog --format=json $id | jq -s 'map({(.name): .timestamp}) | add | .alloc - .submit'
done > latencies
after=$(used)
sort -n latencies | sed -n '5p;10p' | tr '\n' ' ' > figures
echo "RESULT $(cat figures) $(jq -n "$after - $before")"
# Cancelling so many jobs in order takes longer than all of this.
kill -9 $(flux getattr broker.pid)
"#;

/// One job that can only be backfilled, twenty times, behind jobs of 2 to 1,024 nodes whose durations all differ: one node is
/// free until the first of them has its reserved start.
const MIXED: &str = r#"
# The one that makes no decision starts jobs of one node alone, so nothing needs to be held.
if [ $SCHED != null ]; then
    held=$(flux submit -N$((NODES - 1)) -x -t 2h --setattr=exec.test.run_duration=2h true)
    flux job wait-event $held alloc > /dev/null
fi
flux python - <<'EOF'
import os, flux, flux.job
handle, futures = flux.Flux(), []
nodes, pending = int(os.environ["NODES"]), int(os.environ["PENDING"])
for number in range(pending):
    # 367 and 1,023 have no factor in common: all widths are there equally often.
    wide = 2 + number * 367 % (nodes - 1)
    spec = flux.job.JobspecV1.from_command(["true"], num_tasks=wide, num_nodes=wide, exclusive=True)
    spec.duration = 600.0 + number
    futures.append(flux.job.submit_async(handle, spec))
    if len(futures) == 1000:
        for future in futures:
            future.get_id()
        futures = []
for future in futures:
    future.get_id()
EOF
[ $SCHED = null ] || until [ "$(flux module stats $name | jq -r .pending)" -ge $PENDING ]; do :; done
first=$(flux submit -N1 -t 60s --setattr=exec.test.run_duration=0.001s true)
flux job wait-event $first clean > /dev/null
flux job stats > /dev/null
before=$(used)
for i in $(seq 20); do
    id=$(flux submit -N1 -t 60s --setattr=exec.test.run_duration=0.001s true)
    timeout 300 flux job wait-event $id clean > /dev/null
    flux job eventlog --format=json $id | jq -sr 'map({(.name): .timestamp}) | add |
        [.priority - .submit, .alloc - .priority, .free - .alloc, .alloc - .submit] | map(tostring) | join(" ")'
done > latencies
after=$(used)
middle() { cut -d' ' -f$1 latencies | sort -g | sed -n 10p; }
echo "RESULT $(middle 1) $(middle 2) $(middle 3) $(middle 4) $(cut -d' ' -f4 latencies | sort -g | tail -1) $(jq -n "$after - $before")"
kill -9 $(flux getattr broker.pid)
"#;

/// Runs a script; returns the figures after RESULT, if it printed them.
fn measure(scheduler: &str, script: &str, env: &[(&str, String)]) -> Option<Vec<f64>> {
    let dir = folder();
    let null = dir.path().join("null.py");
    std::fs::write(&null, NULL).expect("the scheduler can be written");
    let path = dir.path().join("script");
    std::fs::write(&path, format!("{PRELUDE}{script}")).expect("the script can be written");
    let binary = std::env::var_os("FLUXGATE_BIN")
        .map_or_else(|| root().join("target/release/fluxgate"), PathBuf::from);
    let mut command = Command::new("flux");
    command.args(["start", "-s1"]);
    command.arg(format!("--conf=fake-resources.nnodes={NODES}"));
    command.args(["--conf=fake-resources.cores-per-node=64", "bash"]).arg(&path);
    command.current_dir(dir.path()).env("SCHED", scheduler).env("NULL", null).env("NODES", NODES.to_string());
    command.env("JOBS", JOBS.to_string()).env("FG", binary).env("FLUXGATE_POLICIES", policies());
    command.env_remove("FLUX_URI").envs(env.iter().map(|(key, value)| (key, value)));
    let output = command.output().ok()?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let Some(line) = out.lines().find_map(|line| line.strip_prefix("RESULT ")) else {
        note(&format!("{scheduler}: {out}{}", String::from_utf8_lossy(&output.stderr)));
        return None;
    };
    Some(line.split_whitespace().filter_map(|word| word.parse().ok()).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    if Command::new("flux").arg("--version").output().is_err() {
        return note("skipped: no flux");
    }
    let arguments: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let asked = |table: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == table);
    let only = std::env::var("FLUXGATE_BENCH_SCHEDULERS").ok();
    let chosen = |of: &[&'static str]| -> Vec<&'static str> {
        let named = |name: &&&str| only.as_ref().is_none_or(|only| only.split(',').any(|one| one == **name));
        of.iter().filter(named).copied().collect()
    };
    let schedulers = chosen(&["fluxgate-easy", "fluxion", "sched-simple", "sched-backfill", "null"]);
    let depths = std::env::var("FLUXGATE_BENCH_PENDING").unwrap_or_else(|_| "1000,10000".to_owned());
    if asked("burst") {
        burst(&schedulers);
    }
    if asked("behind") {
        behind(&schedulers, &depths);
    }
    if asked("mixed") {
        mixed(&chosen(&["null", "fluxgate-easy", "fluxgate-multifactor"]), &depths);
    }
}

#[allow(clippy::print_stdout)]
fn burst(schedulers: &[&str]) {
    println!("| scheduler | jobs/s | CPU s of the scheduler |\n|--|--:|--:|");
    let mut rounds = vec![Vec::new(); schedulers.len()];
    // In turns, so that a busy moment of the machine does not affect only one of them.
    for _ in 0..ROUNDS {
        for (index, scheduler) in schedulers.iter().enumerate() {
            rounds[index].extend(measure(scheduler, BURST, &[]).filter(|figures| figures.len() == 2));
        }
    }
    for (scheduler, rounds) in schedulers.iter().zip(rounds) {
        let of = |index: usize| median(rounds.iter().map(|figures| figures[index]).collect());
        println!("| {scheduler} | {:.0} | {:.2} |", of(0), of(1));
    }
}

#[allow(clippy::print_stdout)]
fn behind(schedulers: &[&str], depths: &str) {
    println!(
        "\n| scheduler | job | pending | median ms | largest ms | CPU s for 10 |\n|--|--|--:|--:|--:|--:|"
    );
    for depth in std::iter::once("0").chain(depths.split(',')) {
        for (job, urgency) in [("urgent", "31"), ("backfill", "16")] {
            for &scheduler in schedulers {
                // Schedulers that start no job out of order, or that need seconds to minutes for a job behind
                // this many pending jobs.
                let hopeless = match scheduler {
                    "fluxgate-easy" | "null" => false,
                    "sched-simple" => job == "backfill" || depth.len() > 4,
                    _ => depth.len() > 4,
                };
                if hopeless && depth != "0" {
                    continue;
                }
                let env = [("PENDING", depth.to_owned()), ("URGENCY", urgency.to_owned())];
                if let Some([middle, most, cpu]) = measure(scheduler, BEHIND, &env).as_deref() {
                    let (middle, most) = (middle * 1e3, most * 1e3);
                    println!("| {scheduler} | {job} | {depth} | {middle:.1} | {most:.1} | {cpu:.2} |");
                }
            }
        }
    }
}

/// Medians in ms, the largest of all, and seconds of the scheduler's processor time.
#[allow(clippy::print_stdout)]
fn mixed(schedulers: &[&str], depths: &str) {
    println!(
        "\n| scheduler | pending | submit to priority | priority to alloc | alloc to free | submit to alloc | largest | CPU s for 20 |"
    );
    println!("|--|--:|--:|--:|--:|--:|--:|--:|");
    for depth in depths.split(',') {
        for scheduler in schedulers {
            let found = measure(scheduler, MIXED, &[("PENDING", depth.to_owned())]);
            if let Some([times @ .., cpu]) = found.as_deref() {
                let times: Vec<String> = times.iter().map(|time| format!("{:.1}", time * 1e3)).collect();
                println!("| {scheduler} | {depth} | {} | {cpu:.2} |", times.join(" | "));
            }
        }
    }
}
