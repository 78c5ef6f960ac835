//! Replays that are interrupted, go on, and are forked under other policies, through the real binary.

use std::path::{Path, PathBuf};

use fluxgate_tests::fixture::{cli, folder};
use serde_json::Value;

/// A log of jobs of several users for 16 cores, so that jobs always wait.
fn log(dir: &Path, jobs: u32) -> String {
    let mut text = "; MaxProcs: 16\n; MaxNodes: 4\n; UnixStartTime: 1000000\n".to_owned();
    for i in 0..jobs {
        let (run, cores, user) = (1 + i * 7919 % 300, 1 + i * 31 % 13, 1 + i * i % 7);
        let (id, submit, limit, queue) = (i + 1, i * 20, run + i * 977 % 400, 1 + i % 2);
        text += &format!(
            "{id} {submit} -1 {run} {cores} -1 -1 {cores} {limit} -1 1 {user} 1 -1 {queue} -1 -1 -1\n"
        );
    }
    write(dir, "l.swf", &text)
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Names of the files in a folder, the shortest first.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut all: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    all.sort_by_key(|name| (name.len(), name.clone()));
    all
}

/// The JSON without the figures that are measured: real time, and the fuel of policies, which also save and restore.
fn figures(mut said: Value) -> Vec<Value> {
    for run in said["runs"].as_array_mut().unwrap() {
        for measured in ["seconds", "policy_seconds", "fuel"] {
            run.as_object_mut().unwrap().remove(measured);
        }
    }
    said["runs"].as_array().unwrap().clone()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// A log, and a folder of checkpoints of a run of it with its schedule and figures.
struct Whole {
    dir: tempfile::TempDir,
    log: String,
    schedule: String,
    figures: Vec<Value>,
}

impl Whole {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A run without interruption, and one that writes checkpoints, which ends alike.
    fn run(policy: &[&str], jobs: u32, every: &str) -> Whole {
        let dir = folder();
        let log = log(dir.path(), jobs);
        let [plain, kept] = ["plain.csv", "kept.csv"].map(|name| dir.path().join(name));
        let run = |schedule: &Path, more: &[&str]| {
            let mut args = vec!["replay", &log, "-q", "--json", "--schedule", schedule.to_str().unwrap()];
            args.extend(policy);
            args.extend(more);
            figures(cli(&args).json())
        };
        let figures = run(&plain, &[]);
        let to = dir.path().join("c");
        let more = ["--checkpoint-every", every, "--checkpoint-to", to.to_str().unwrap()];
        assert_eq!(run(&kept, &more), figures, "{policy:?} with checkpoints");
        // Of several policies or parts each has a schedule of its own.
        let schedules: Vec<String> =
            names(dir.path()).into_iter().filter(|name| name.starts_with("plain")).collect();
        for name in &schedules {
            let other = name.replace("plain", "kept");
            assert_eq!(text(&dir.path().join(other)), text(&dir.path().join(name)), "{policy:?}: {name}");
        }
        let schedule = text(&dir.path().join(&schedules[0]));
        Whole { dir, log, schedule, figures }
    }

    fn checkpoints(&self) -> Vec<PathBuf> {
        names(&self.path("c")).iter().map(|name| self.path("c").join(name)).collect()
    }
}

#[test]
fn res_18_every_policy_goes_on_to_the_same_end() {
    let policies: [&[&str]; 6] = [
        &["--policy", "easy"],
        &["--policy", "sjf"],
        &["--policy", "conservative"],
        &["--policy", "easy-plus-plus"],
        &["--policy", "multifactor"],
        &["--policy", "easy-plus-plus", "--queue-policy", "q1=multifactor", "--map", "queue=queue"],
    ];
    for policy in policies {
        let whole = Whole::run(policy, 400, "1900s");
        let files = whole.checkpoints();
        assert!(files.len() >= 4, "{files:?}");
        let map: &[&str] = if policy.len() > 2 { &["--map", "queue=queue"] } else { &[] };
        for file in [&files[0], &files[files.len() - 2]] {
            let (file, schedule) = (file.to_str().unwrap(), whole.path("resumed.csv"));
            let mut args =
                vec!["replay", &whole.log, "-q", "--json", "--schedule", schedule.to_str().unwrap()];
            args.extend(["--resume", file]);
            args.extend(map);
            // The policies are those of the checkpoint.
            assert_eq!(figures(cli(&args).json()), whole.figures, "{file}");
            assert_eq!(text(&schedule), whole.schedule, "{file}");
        }
    }
}

#[test]
fn res_18_a_run_is_forked_under_other_policies() {
    let whole = Whole::run(&["--policy", "easy", "--policy", "fcfs"], 200, "50jobs");
    let names = names(&whole.path("c"));
    let expected = [50, 100, 150, 200].map(|jobs| [format!("easy.{jobs}jobs"), format!("fcfs.{jobs}jobs")]);
    let mut expected: Vec<String> =
        expected.concat().iter().map(|name| format!("{name}.checkpoint")).collect();
    expected.sort_by_key(|name| (name.len(), name.clone()));
    assert_eq!(names, expected);

    let file = whole.path("c/easy.100jobs.checkpoint");
    let schedule = whole.path("f.csv");
    let said = cli(&[
        "replay",
        &whole.log,
        "--json",
        "--resume",
        file.to_str().unwrap(),
        "--policy",
        "easy",
        "--policy",
        "sjf",
        "--schedule",
        schedule.to_str().unwrap(),
    ]);
    assert!(said.err.contains("after 100 jobs, from a run under easy"), "{}", said.err);
    let runs = figures(said.json());
    assert_eq!(runs[0], whole.figures[0], "the same policy");
    assert_ne!(runs[1]["metrics"], whole.figures[0]["metrics"], "another one");
    assert_eq!((&runs[1]["policy"], &runs[1]["violations"]), (&"sjf".into(), &Value::Array(vec![])));
    let easy = text(&whole.path("f.easy.csv"));
    assert_eq!(easy, text(&whole.path("plain.easy.csv")));
    // The starts up to the checkpoint are the same, and the rest is decided by the other policy.
    let (sjf, before) = (text(&whole.path("f.sjf.csv")), |row: &&str| {
        row.split(',').nth(2).unwrap().parse::<f64>().is_ok_and(|start| start <= 1_000_000.0 + 99.0 * 20.0)
    });
    let past = |rows: &str| rows.lines().skip(1).filter(before).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(past(&sjf), past(&easy));
    assert!(past(&sjf).len() > 20 && sjf != easy);
}

#[test]
fn res_18_a_part_of_a_log_and_more_checkpoints() {
    let whole = Whole::run(&["--jobs", "0+60,100+60"], 200, "20jobs");
    let names = names(&whole.path("c"));
    assert!(names.contains(&"easy.100+60.40jobs.checkpoint".to_owned()), "{names:?}");
    let file = whole.path("c/easy.100+60.40jobs.checkpoint");
    let to = whole.path("more");
    let mut args = vec!["replay", &whole.log, "-q", "--json", "--resume", file.to_str().unwrap()];
    args.extend(["--jobs", "0+60,100+60", "--checkpoint-every", "10jobs"]);
    args.extend(["--checkpoint-to", to.to_str().unwrap()]);
    assert_eq!(figures(cli(&args).json()), [whole.figures[1].clone()], "only the part of the checkpoint");
    assert_eq!(self::names(&to), ["easy.100+60.50jobs.checkpoint", "easy.100+60.60jobs.checkpoint"]);
    let said = cli(&["replay", &whole.log, "-q", "--resume", file.to_str().unwrap()]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("found 100+60, accepted is the whole log"), "{}", said.err);
}

#[test]
fn res_18_what_does_not_fit_is_refused_in_words() {
    let whole = Whole::run(&["--policy", "sjf"], 100, "10m");
    let file = whole.path("c/sjf.600s.checkpoint");
    let file = file.to_str().unwrap();
    let refused = |log: &str, more: &[&str]| {
        let mut args = vec!["replay", log, "-q", "--resume", file];
        args.extend(more);
        let said = cli(&args);
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{}", said.err);
        assert!(said.err.contains(file), "{}", said.err);
        said.err
    };
    let other = write(whole.dir.path(), "other.swf", &text(Path::new(&whole.log)).replace(" 13 ", " 12 "));
    let said = refused(&other, &[]);
    assert!(said.contains("the checkpoint is of another run: the log (SHA-256): found"), "{said}");
    let said = refused(&whole.log, &["--machine", "16"]);
    assert!(said.contains("--machine: found \"\" in the checkpoint and \"16\" here"), "{said}");
    let said = refused(&whole.log, &["--limit", "50"]);
    assert!(said.contains("--limit: found \"None\" in the checkpoint and \"Some(50)\" here"), "{said}");

    // A run without places has none to go on with.
    let to = whole.path("bare");
    let mut args = vec!["replay", &whole.log, "-q", "--policy", "sjf", "--checkpoint-every", "600"];
    args.extend(["--checkpoint-to", to.to_str().unwrap()]);
    cli(&args).ok();
    let bare = to.join("sjf.600s.checkpoint");
    let schedule = whole.path("none.csv");
    let mut args = vec!["replay", &whole.log, "-q", "--resume", bare.to_str().unwrap()];
    let said = figures(cli(&[args.as_slice(), &["--json"]].concat()).json());
    assert_eq!(said, whole.figures);
    args.extend(["--schedule", schedule.to_str().unwrap()]);
    let said = cli(&args);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("the checkpoint has no places of jobs"), "{}", said.err);

    // Damage.
    let mut bytes = std::fs::read(file).unwrap();
    let half = bytes.len() / 2;
    bytes[half] ^= 1;
    let damaged = whole.path("d.checkpoint");
    std::fs::write(&damaged, &bytes).unwrap();
    let said = cli(&["replay", &whole.log, "-q", "--resume", damaged.to_str().unwrap()]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("the checkpoint is damaged"), "{}", said.err);
    let said = cli(&["replay", &whole.log, "-q", "--resume", &whole.log]);
    assert!(said.code == 1 && said.err.contains("found no checkpoint of a replay"), "{}", said.err);
    for wrong in [&["--checkpoint-every", "1h"][..], &["--checkpoint-to", "c"], &["--checkpoint-every", "0"]]
    {
        let said = cli(&[&["replay", &whole.log][..], wrong].concat());
        assert_eq!(said.code, 2, "{}", said.err);
    }
}
