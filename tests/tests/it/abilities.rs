//! The additions to the contract after its first release, from the languages beside Rust: the policy `abilities`
//! (languages/abilities) asks each question, and must come to the same result in every language.
//!
//! The suite builds only Rust. The others are tested after `cargo xtask policies --lang all`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use fluxgate_engine::Policy;
use fluxgate_formats::jobspec::JobAttributes;
use fluxgate_guest::{self as guest, attributes};
use fluxgate_policy::{Compiled, Limits};
use fluxgate_sim::driver::{self, Surroundings};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::schedule::Collect;
use fluxgate_sim::workload::{Options, Workload};
use fluxgate_testing::{Need, skipped};
use fluxgate_tests::drive::{made_up, schedule};
use fluxgate_tests::fixture::{cli, fluxgate, folder, loader, policies, run};
use fluxgate_tests::native_twin::NativeTwin;
use serde_json::{Value, json};

use crate::python::python;

/// Languages that have the policy.
const LANGUAGES: [&str; 6] = ["c", "cpp", "go", "js", "ts", "python"];

/// A component that was built.
struct Built {
    file: PathBuf,
    compiled: OnceLock<Compiled>,
}

impl Built {
    /// It, compiled once for all tests.
    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| compile(&self.file))
    }
}

fn compile(file: &Path) -> Compiled {
    let compiled = loader(Limits::default()).compile(&std::fs::read(file).unwrap());
    compiled.unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The components that were built. Others are skipped.
fn built() -> impl Iterator<Item = &'static Built> {
    static BUILT: [OnceLock<Option<Built>>; LANGUAGES.len()] = [const { OnceLock::new() }; LANGUAGES.len()];
    LANGUAGES.iter().zip(&BUILT).filter_map(|(language, built)| {
        let file = policies().join(format!("abilities-{language}.wasm"));
        let built = built
            .get_or_init(|| file.is_file().then(|| Built { file: file.clone(), compiled: OnceLock::new() }));
        if built.is_none() {
            skipped(
                Need::Languages,
                format!("no {}; try `cargo xtask policies --lang {language}`", file.display()),
            );
        }
        built.as_ref()
    })
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Start of each job, by job.
fn starts(args: &[&str]) -> Vec<(u64, f64)> {
    let csv = cli(&[args, &["-q", "--schedule", "-"]].concat()).ok();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        (fields[0].parse().unwrap(), fields[2].parse().unwrap())
    };
    csv.lines().skip(1).map(row).collect()
}

#[test]
fn many_candidates_at_once_make_the_schedules_of_conservative_and_easy() {
    let workload = made_up(1200);
    let machine = Machine::from_header(&workload.header).unwrap();
    let of = |compiled: &Compiled, config: &[(&str, &str)]| {
        let config = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        schedule(&workload, &machine, Box::new(compiled.instantiate(&config).unwrap()))
    };
    let uses = [("many", "conservative", &[("renew", "queue")][..]), ("backfill", "easy", &[])];
    for (rule, policy, config) in uses {
        let expected = of(&compile(&policies().join(format!("{policy}.wasm"))), config);
        assert_eq!(expected.len(), workload.jobs.len());
        for built in built() {
            let (found, file) = (of(built.compiled(), &[("use", rule)]), built.file.display());
            let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
            assert!(differs.is_none() && found.len() == expected.len(), "{file}, {rule}: {differs:?}");
        }
    }
}

#[test]
fn groups_leave_no_core_idle_that_a_waiting_job_could_use() {
    let dir = folder();
    let mut text = "; MaxProcs: 8\n; UnixStartTime: 0\n".to_owned();
    for i in 0..400u32 {
        let (run, cores, user) = (1 + i * 7919 % 100, 1 + i * 31 % 8, 1 + i % 5);
        text += &format!(
            "{} {} -1 {run} {cores} -1 -1 {cores} {run} -1 1 {user} 1 -1 1 -1 -1 -1\n",
            i + 1,
            i * 20
        );
    }
    let log = write(dir.path(), "l.swf", &text);
    for Built { file, .. } in built() {
        let uses = ["groups", "changed"].map(|rule| format!("{}:use={rule}", file.display()));
        let said = cli(&[
            "replay", &log, "-q", "--json", "--policy", &uses[0], "--policy", &uses[1], "--policy", "fcfs",
        ]);
        let said = said.json();
        let of = |run: usize, key: &str| said["runs"][run]["metrics"][key].as_f64().unwrap();
        for (run, policy) in uses.iter().enumerate() {
            assert_eq!((of(run, "jobs"), of(run, "loss_of_capacity")), (400.0, 0.0), "{policy}");
        }
        assert!(of(2, "loss_of_capacity") > 0.0, "strict order leaves some idle");
    }
}

/// An answer has 4,096 groups at most, so each language has to ask for those after it.
#[test]
fn groups_that_are_more_than_one_answer_all_start() {
    let dir = folder();
    let mut text = "; MaxProcs: 5000\n; UnixStartTime: 0\n".to_owned();
    for user in 1..=4500 {
        text += &format!("{user} 0 -1 10 1 -1 -1 1 10 -1 1 {user} 1 -1 1 -1 -1 -1\n");
    }
    let log = write(dir.path(), "l.swf", &text);
    for Built { file, .. } in built() {
        for rule in ["groups", "changed"] {
            let policy = format!("{}:use={rule}", file.display());
            let found = starts(&["replay", &log, "--policy", &policy]);
            assert_eq!(found.len(), 4500);
            let late = found.iter().find(|(_, start)| *start > 0.0);
            assert!(late.is_none(), "{policy}: {late:?}");
        }
    }
}

#[test]
fn flow_is_kept_below_half_of_what_there_is() {
    let dir = folder();
    let mut text = "; MaxProcs: 8\n; UnixStartTime: 0\n".to_owned();
    for i in 0..60u32 {
        text += &format!("{} {} -1 {} 1 -1 -1 1 100 -1 1 1 1 -1 1 -1 -1 -1\n", i + 1, i * 3, 50 + i % 7);
    }
    let log = write(dir.path(), "l.swf", &text);
    let args = ["replay", &log, "--pool", "power=1000W", "--flow", "power=100W/core"];
    // The most cores in use at one time, and the last start.
    let most = |policy: &str| {
        let starts = starts(&[&args[..], &["--policy", policy]].concat());
        let ends: Vec<(f64, f64)> = starts
            .iter()
            .map(|(job, start)| (*start, start + f64::from(50 + (*job as u32 - 1) % 7)))
            .collect();
        assert_eq!(ends.len(), 60);
        let at = |time: f64| ends.iter().filter(|(from, to)| *from <= time && time < *to).count();
        ends.iter().map(|(from, _)| at(*from)).max().unwrap()
    };
    assert_eq!(most("easy"), 8);
    for Built { file, .. } in built() {
        assert_eq!(most(&format!("{}:use=flow", file.display())), 5, "half of 1000 W at 100 W a core");
    }
}

#[test]
fn jobs_that_ask_for_memory_go_first() {
    let dir = folder();
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut add = |parent: Option<&str>, id: &str, more: Value| {
        nodes.push(json!({"id": id, "metadata": more}));
        let edge = |parent| json!({"source": parent, "target": id, "metadata": {"subsystem": "containment"}});
        edges.extend(parent.map(edge));
    };
    add(None, "c", json!({"type": "cluster", "id": 0}));
    add(Some("c"), "n", json!({"type": "node", "id": 0, "rank": 0, "name": "n"}));
    for core in 0..2 {
        add(Some("n"), &format!("c{core}"), json!({"type": "core", "id": core, "rank": 0}));
    }
    add(Some("n"), "m", json!({"type": "memory", "id": 0, "rank": 0, "size": 8, "unit": "GB"}));
    let machine =
        write(dir.path(), "m.json", &json!({"graph": {"nodes": nodes, "edges": edges}}).to_string());
    // Jobs 3 and 4 ask for 1 GB for each processor.
    let line = |id: u32, memory: i32| format!("{id} 0 -1 10 1 -1 -1 1 10 {memory} 1 1 1 1 1 1 -1 -1\n");
    let rows = [line(1, -1), line(2, -1), line(3, 1_000_000), line(4, 1_000_000)];
    let log = write(dir.path(), "l.swf", &rows.concat());
    let args = ["replay", &log, "--machine", &machine, "--map", "memory=requested", "--policy"];
    assert_eq!(starts(&[&args[..], &["fcfs"]].concat()), [(1, 0.0), (2, 0.0), (3, 10.0), (4, 10.0)]);
    for Built { file, .. } in built() {
        let policy = format!("{}:use=resources", file.display());
        let found = starts(&[&args[..], &[&policy]].concat());
        assert_eq!(found, [(3, 0.0), (4, 0.0), (1, 10.0), (2, 10.0)], "{policy}");
    }
}

/// A log of five jobs that each take the whole machine: groups are 7 for the fifth, memory is known of the third and fourth.
fn five(dir: &Path) -> String {
    let line = |id: u32, memory: i32, group: i32| {
        format!("{id} 0 -1 10 2 -1 -1 2 10 {memory} 1 1 {group} 3 1 1 -1 -1\n")
    };
    let rows = [line(1, -1, -1), line(2, -1, 6), line(3, 1000, 6), line(4, 2000, -1), line(5, -1, 7)];
    write(dir, "l.swf", &format!("; MaxProcs: 2\n; UnixStartTime: 0\n{}", rows.concat()))
}

#[test]
fn res_15_groups_and_memory_of_a_log_decide() {
    let dir = folder();
    let log = five(dir.path());
    let order = |policy: &str| {
        let mut found = starts(&["replay", &log, "--policy", policy]);
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        found.into_iter().map(|(job, _)| job).collect::<Vec<u64>>()
    };
    assert_eq!(order("fcfs"), [1, 2, 3, 4, 5]);
    for Built { file, .. } in built() {
        assert_eq!(order(&format!("{}:use=attributes", file.display())), [5, 3, 4, 1, 2]);
    }
}

/// A sweep tells a component what a replay tells it.
#[test]
fn res_15_groups_and_memory_of_a_log_decide_in_a_sweep() {
    let dir = folder();
    let log = five(dir.path());
    let text = std::fs::read_to_string(&log).unwrap().replace("\n5 0 -1 10 ", "\n5 0 -1 1 ");
    std::fs::write(&log, text).unwrap();
    for (number, Built { file, .. }) in built().enumerate() {
        let policy = json!(format!("{}:use=attributes", file.display()));
        let text = format!("policies = [\"fcfs\", {policy}]\n[[part]]\nname = \"a\"\nlog = \"l.swf\"\n");
        let experiment = write(dir.path(), &format!("{number}.toml"), &text);
        let rows = cli(&["sweep", &experiment, "--quiet", "--json"]).json();
        let wait = |row: usize| rows[row]["wait_mean_s"].as_f64();
        // The fifth job, of one second, starts last or first.
        assert_eq!((wait(0), wait(1)), (Some(20.0), Some(12.8)), "{policy}: {rows}");
    }
}

/// A replay of the Python package tells a component what a replay of the command line tells it.
#[test]
fn res_15_groups_and_memory_of_a_log_decide_in_python() {
    let Some((python, package)) = python() else { return };
    let dir = folder();
    let log = five(dir.path());
    let program = "import sys, fluxgate as fg\n\
        print(*fg.replay(fg.Log.read(sys.argv[1]), sys.argv[2])[0].jobs['job'])";
    for Built { file, .. } in built() {
        let policy = format!("{}:use=attributes", file.display());
        let mut command = Command::new(&python);
        command.args(["-c", program, &log, &policy]).env("PYTHONPATH", &package);
        assert_eq!(run(command).ok().trim(), "5 3 4 1 2", "{policy}");
    }
}

/// Of all that wait, the job with the most memory starts first, then those of the greatest group.
#[derive(Debug, Default)]
struct Greedy;

impl guest::Policy for Greedy {
    fn info() -> guest::Info {
        guest::Info::new("greedy", "memory first, for tests")
    }
}

impl guest::Scheduling for Greedy {
    fn run(&mut self, pass: &mut dyn guest::Pass) {
        let mut all = Vec::new();
        guest::each_job(pass, usize::MAX, |candidate, job| all.push((candidate, job.id)));
        let candidates: Vec<_> = all.iter().map(|(candidate, _)| *candidate).collect();
        let memory = attributes::numbers(pass, attributes::MEMORY, &candidates);
        let groups = attributes::numbers(pass, attributes::GROUP, &candidates);
        let programs = attributes::text(pass, attributes::APPLICATION, &candidates);
        let names = attributes::text(pass, attributes::NAME, &candidates);
        assert!(programs.iter().all(|program| program.as_deref() == Some("3")), "{programs:?}");
        assert!(names.iter().all(Option::is_none), "a log has no names: {names:?}");
        let known = |value: f64| if value.is_nan() { -1.0 } else { value };
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by(|a, b| {
            let key = |at: usize| (known(memory[at]), known(groups[at]));
            key(*b).partial_cmp(&key(*a)).unwrap().then(all[*a].1.cmp(&all[*b].1))
        });
        for at in order {
            if pass.start(candidates[at]).is_err() {
                return;
            }
        }
    }
}

guest::export_policy!(Greedy: scheduling);

#[test]
fn res_15_a_policy_of_the_sdk_is_told_what_the_log_knows() {
    let dir = folder();
    let log = five(dir.path());
    let options = Options { attributes: true, ..Options::default() };
    let workload = Workload::load(log.as_ref(), &options).unwrap();
    let machine = Machine::from_header(&workload.header).unwrap();
    let run = |attributes: Vec<JobAttributes>| {
        let surroundings = Surroundings { attributes: attributes.into(), ..Surroundings::default() };
        let policy: Box<dyn Policy> = Box::new(NativeTwin::<Greedy>::new(&[]).unwrap());
        let mut rows = Collect::default();
        let ran = driver::run_with(
            workload.jobs.iter().copied(),
            &surroundings,
            machine.resources.clone(),
            driver::replay_config(),
            Some(policy),
            &mut [&mut rows],
        );
        ran.map(|_| rows.rows.iter().map(|row| row.job.0).collect::<Vec<u64>>()).map_err(|e| e.to_string())
    };
    let known: Vec<_> = workload.jobs.iter().map(|job| job.attributes).collect();
    assert_eq!((known.len(), workload.attributes.len()), (5, 5), "{known:?}");
    assert_eq!(workload.attributes[2].memory, Some(1000 * 1000 * 2));
    assert_eq!(run(workload.attributes.clone()).unwrap(), [4, 3, 5, 2, 1]);
    // Without them nothing is known, not even the program of the jobspec that stands for a job.
    assert!(run(Vec::new()).unwrap_err().contains("None"), "the policy says what it saw");
    // A workload that is read without the option has none.
    let plain = Workload::load(log.as_ref(), &Options::default()).unwrap();
    assert!(plain.attributes.is_empty() && plain.jobs.iter().all(|job| job.attributes == 0));
}

#[test]
fn nodes_are_taken_in_the_order_of_the_scores() {
    let dir = folder();
    let r = json!({"version": 1, "execution": {
        "R_lite": [{"rank": "0-1", "children": {"core": "0-1"}}, {"rank": "2-3", "children": {"core": "0-3"}}],
        "nodelist": ["n[0-3]"], "properties": {"last": "2"}, "starttime": 0, "expiration": 0,
    }});
    let machine = write(dir.path(), "m.json", &r.to_string());
    let node =
        "{type: node, count: 1, with: [{type: slot, count: 1, label: s, with: [{type: core, count: 2}]}]}";
    let job = format!(
        "version: 9999\nresources: [{node}]\ntasks: [{{command: [app], slot: s, count: {{per_slot: 1}}}}]\nattributes: {{}}\n"
    );
    let job = write(dir.path(), "job.yaml", &job);
    let lines = write(dir.path(), "lines", &format!("match allocate {job}\n").repeat(4));
    for Built { file, .. } in built() {
        let file = file.to_str().unwrap();
        let args = ["resource-query", "-L", &machine, "-f", "rv1exec", "-F", "pretty_simple", "-P", file];
        let mut command = fluxgate(args);
        command.stdin(std::fs::File::open(&lines).unwrap());
        let out = run(command).ok();
        let names = out.split(|c: char| !c.is_ascii_alphanumeric());
        let hosts: Vec<&str> = names.filter(|name| matches!(*name, "n0" | "n1" | "n2" | "n3")).collect();
        // The node with four cores twice, as long as it has two; then those with two; n2 comes last.
        assert_eq!(hosts, ["n3", "n3", "n0", "n1"], "{file}: {out}");
    }
}

#[test]
fn what_is_no_setting_is_refused() {
    for built in built() {
        let config = [("use".to_owned(), "all".to_owned())].into_iter().collect();
        let why =
            built.compiled().instantiate(&config).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(
            why.contains("`use` must be many, backfill, groups, changed, flow, resources or attributes"),
            "{}: {why}",
            built.file.display()
        );
    }
}
