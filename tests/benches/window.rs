//! A window over half of the nodes of a real Flux: 12 hours that begin in 20, and 2,000 jobs of all limits, an hour being
//! some seconds of real time. The bench prints non-members inside, idle node-hours before the window, and the first starts
//! of members. In a run of its own each, the scheduler and the broker are killed while the window is planned, begins, is
//! active and ends.
//!
//! Needs `flux`, `jq` and `python3` on PATH. Arguments choose runs: `plain`, `scheduler`, `broker`. `FLUXGATE_BENCH_HOUR` is
//! the length of an hour in seconds, by default 5; a run takes 36 hours.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use fluxgate_formats::Idset;
use fluxgate_tests::fixture::{folder, note, policies, root};
use serde_json::Value;

const NODES: u32 = 128;
const KEPT: u32 = 64;
const JOBS: u32 = 2000;
const MEMBERS: u32 = 60;
/// Hours from the beginning of the run to that of the window, of the window, and after it.
const BEFORE: f64 = 20.0;
const LONG: f64 = 12.0;
const AFTER: f64 = 4.0;
/// Hours from the beginning of the window to the kills: planned, beginning, active, ending.
const KILLS: [f64; 4] = [-5.0, -0.05, 6.0, LONG - 0.05];

/// Submits the jobs of the file `jobs`: nodes, limit, run time, and whether it is a member.
const SUBMIT: &str = r#"
import flux, flux.job
handle, futures = flux.Flux(), []
for line in open("jobs"):
    nodes, limit, run, member = line.split()
    spec = flux.job.JobspecV1.from_command(["true"], num_tasks=int(nodes), num_nodes=int(nodes), exclusive=True)
    spec.duration = float(limit)
    spec.setattr("system.exec.test.run_duration", run + "s")
    if member == "1":
        spec.setattr("system.fluxgate.reservation", "dat")
    futures.append(flux.job.submit_async(handle, spec))
for future in futures:
    future.get_id()
"#;

/// Writes the records of all jobs to the file `records`.
const COLLECT: &str = r#"
import flux, json, time
handle = flux.Flux()
attributes = ["state", "ranks", "t_run", "t_inactive", "result", "name"]
jobs = handle.rpc("job-list.list", {"max_entries": 0, "attrs": attributes, "states": 0, "userid": -1 & 0xffffffff, "results": 0}).get()["jobs"]
for job in jobs:
    attr = handle.rpc("job-info.lookup", {"id": job["id"], "keys": ["jobspec"], "flags": 0}).get()
    system = json.loads(attr["jobspec"])["attributes"]["system"]
    job["member"] = "fluxgate" in system
json.dump({"now": time.time(), "jobs": jobs}, open("records", "w"))
"#;

/// The script of one life of the broker. `$UNTIL` is the time at which the broker is killed, or the run is over.
const SCRIPT: &str = r#"
set -e
connect() {
    rm -f ready; mkfifo ready
    "$FG" sched --uri "$FLUX_URI" --policies "$FLUXGATE_POLICIES" --policy easy > ready 2>> sched.log &
    pid=$!
    read -r line < ready
    test "$line" = ready
}
now() { date +%s.%N; }
sleep_until() { python3 -c 'import sys, time; time.sleep(max(0, float(sys.argv[1]) - time.time()))' "$1"; }
keeps() { "$FG" reservation show dat --json > "$1"; }
# A line for each life after the first: its name, the state of the window, whether its times and nodes are as when it was
# made, when the scheduler served again, and since when it did not.
lived() {
    at=$(now)
    keeps window.now
    same=$(jq -rs 'if .[1].start == null then "untold" else map([.start, .end, .ranks]) | .[0] == .[1] end' window window.now)
    echo "$1 $(jq -r .state window.now) $same $at $2" >> lives
}
begin=$(now)
connect
if [ ! -e window ]; then
    flux module reload -f job-ingest disable-validator
    flux queue stop --quiet
    flux python submit.py
    "$FG" reservation create dat --start "+${BEFORE_S}s" --duration "${LONG_S}s" --nodes $KEPT --users "$(id -u)" --margin 0s > made
    keeps window
    now > began
    flux queue start --quiet
else
    lived "$LIFE" "$begin"
fi
start=$(jq -r .start window)
for kill in $SCHEDULER_KILLS; do
    sleep_until "$(jq -n "$start + $kill")"
    kill -9 $pid
    killed=$(now)
    wait $pid || true
    connect
    lived "$kill" "$killed"
done
sleep_until "$(jq -n "$start + $UNTIL")"
if [ "$LAST" = 1 ]; then
    flux python collect.py
fi
# Cancelling the jobs that are left in order takes longer than all of this.
kill -9 $(flux getattr broker.pid)
"#;

/// Numbers in [0, 1), the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }
}

/// Jobs of 10 minutes to 24 hours, of which three quarters ask for one node; members of 1 to 6 hours.
fn jobs(hour: f64) -> String {
    let (mut numbers, mut lines) = (Numbers(20), String::new());
    for number in 0..JOBS {
        let member = number % (JOBS / MEMBERS) == 7 && number / (JOBS / MEMBERS) < MEMBERS;
        let wide = [1u32, 1, 1, 1, 1, 1, 2, 4][(numbers.next() * 8.0) as usize];
        let wide = if member {
            wide * 4
        } else if numbers.next() < 0.02 {
            32
        } else {
            wide
        };
        let limit = if member {
            1.0 + (numbers.next() * 5.0).floor()
        } else {
            (144f64.powf(numbers.next()) * 6.0).round() / 36.0
        };
        let run = limit * (0.2 + 0.75 * numbers.next());
        let _ = writeln!(lines, "{wide} {:.3} {:.3} {}", limit * hour, run * hour, u8::from(member));
    }
    lines
}

/// A job that held nodes: from, to, ranks, member.
struct Held {
    from: f64,
    to: f64,
    ranks: Idset,
    member: bool,
}

fn held(records: &Value) -> Vec<Held> {
    let now = records["now"].as_f64().expect("the time of the records");
    let jobs = records["jobs"].as_array().expect("jobs").iter();
    jobs.filter_map(|job| {
        let ranks = job["ranks"].as_str().filter(|ranks| !ranks.is_empty())?;
        let from = job["t_run"].as_f64()?;
        let to = job["t_inactive"].as_f64().unwrap_or(now);
        Some(Held { from, to, ranks: ranks.parse().expect("ranks"), member: job["member"] == true })
    })
    .collect()
}

/// Node-seconds of these nodes in this time that no job held.
fn idle(held: &[Held], nodes: &Idset, (from, to): (f64, f64)) -> f64 {
    let used = held.iter().map(|job| {
        let long = job.to.min(to) - job.from.max(from);
        let on = job.ranks.iter().filter(|rank| nodes.contains(*rank)).count();
        if long > 0.0 { long * on as f64 } else { 0.0 }
    });
    nodes.len() as f64 * (to - from) - used.sum::<f64>()
}

fn read(path: PathBuf) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// One life of the broker.
fn life(dir: &Path, hour: f64, life: usize, until: f64, last: bool, kills: &[f64]) {
    let binary = std::env::var_os("FLUXGATE_BIN")
        .map_or_else(|| root().join("target/release/fluxgate"), PathBuf::from);
    let kills: Vec<String> = kills.iter().map(|kill| format!("{:.3}", kill * hour)).collect();
    let mut command = Command::new("flux");
    command.args(["start", "-s1", "--conf=kvs.checkpoint-period=1s"]);
    command.arg(format!("--setattr=statedir={}", dir.join("state").display()));
    command.arg(format!("--conf=fake-resources.nnodes={NODES}"));
    command.args(["--conf=fake-resources.cores-per-node=4", "bash"]).arg(dir.join("script")).current_dir(dir);
    command.env("FG", binary).env("FLUXGATE_POLICIES", policies()).env("KEPT", KEPT.to_string());
    command.env("BEFORE_S", format!("{:.3}", BEFORE * hour)).env("LONG_S", format!("{:.3}", LONG * hour));
    command.env("UNTIL", format!("{:.3}", until * hour)).env("LAST", u8::from(last).to_string());
    command.env("SCHEDULER_KILLS", kills.join(" ")).env("LIFE", life.to_string());
    command.env("FLUX_SCHED_MODULE", "none").env_remove("FLUX_URI");
    let output = command.output().expect("flux can be started");
    if last && !dir.join("records").exists() {
        let log = std::fs::read_to_string(dir.join("sched.log")).unwrap_or_default();
        note(&format!("{}{log}", String::from_utf8_lossy(&output.stderr)));
    }
}

#[allow(clippy::print_stdout)]
fn measure(name: &str, hour: f64) {
    let dir = folder();
    let dir = dir.path();
    for (file, text) in
        [("script", SCRIPT), ("submit.py", SUBMIT), ("collect.py", COLLECT), ("jobs", &jobs(hour))]
    {
        std::fs::write(dir.join(file), text).expect("a file can be written");
    }
    std::fs::create_dir(dir.join("state")).expect("a folder can be made");
    let end = LONG + AFTER;
    match name {
        "broker" => {
            let ends = KILLS.iter().copied().chain([end]);
            for (index, until) in ends.enumerate() {
                life(dir, hour, index, until, index == KILLS.len(), &[]);
            }
        }
        "scheduler" => life(dir, hour, 0, end, true, &KILLS),
        _ => life(dir, hour, 0, end, true, &[]),
    }
    // As when it was made: of a window that is over no times are told.
    let told = (read(dir.join("records")), read(dir.join("window")));
    let (Some(records), Some(window)) = told else { return note(&format!("{name}: no records")) };
    let held = held(&records);
    let (from, to) = (window["start"].as_f64().expect("start"), window["end"].as_f64().expect("end"));
    let kept: Idset = window["ranks"].as_str().expect("ranks").parse().expect("ranks");
    let others: Idset = (0..NODES).filter(|rank| !kept.contains(*rank)).collect();
    let touches = |job: &&Held| !job.member && job.ranks.iter().any(|rank| kept.contains(rank));
    let started = held.iter().filter(touches).filter(|job| job.from >= from && job.from < to).count();
    let late = held.iter().filter(touches).filter(|job| job.from < from).map(|job| job.to - from);
    let late: Vec<f64> = late.filter(|late| *late > 0.0).collect();
    let most = late.iter().copied().fold(0.0, f64::max);
    let mut members: Vec<f64> = held.iter().filter(|job| job.member).map(|job| job.from - from).collect();
    members.sort_by(f64::total_cmp);
    let out = held.iter().filter(|job| job.member && (job.from < from || job.to > to)).count();
    let began = held.iter().map(|job| job.from).fold(f64::INFINITY, f64::min);
    let spans = [(began, from), (from - 4.0 * hour, from), (from - hour, from)];
    let idles = spans.map(|span| [&kept, &others].map(|nodes| idle(&held, nodes, span) / hour));
    println!("{name}: {} jobs held nodes, {} of them members", held.len(), members.len());
    println!(
        "- non-members that started inside: {started}; that held a node when it began: {}, for up to {most:.3} s",
        late.len()
    );
    println!(
        "- idle node-hours of the {KEPT} nodes and of the others, in the {:.1} hours before it: {:.1}, {:.1}; in the last four: {:.1}, {:.1}; in the last: {:.1}, {:.1}",
        (from - began) / hour,
        idles[0][0],
        idles[0][1],
        idles[1][0],
        idles[1][1],
        idles[2][0],
        idles[2][1]
    );
    let at = |index: usize| members.get(index).map_or_else(|| "-".to_owned(), |late| format!("{:.3}", late));
    println!(
        "- starts of members, seconds after its beginning: first {}, fifth {}, tenth {}; outside of it: {out}",
        at(0),
        at(4),
        at(9)
    );
    for line in std::fs::read_to_string(dir.join("lives")).unwrap_or_default().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let time =
            |index: usize| words.get(index).and_then(|word| word.parse::<f64>().ok()).unwrap_or(f64::NAN);
        println!(
            "- {}: serves {:.2} s after the kill or the start, {:.2} h from the beginning of the window, which is {}; times and \
             nodes as made: {}",
            words[0],
            time(3) - time(4),
            (time(3) - from) / hour,
            words[1],
            words[2]
        );
    }
}

fn main() {
    if Command::new("flux").arg("--version").output().is_err() {
        return note("skipped: no flux");
    }
    let arguments: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let hour = std::env::var("FLUXGATE_BENCH_HOUR").ok().and_then(|hour| hour.parse().ok()).unwrap_or(5.0);
    for name in ["plain", "scheduler", "broker"] {
        if arguments.is_empty() || arguments.iter().any(|argument| argument == name) {
            measure(name, hour);
        }
    }
}
