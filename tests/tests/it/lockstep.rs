//! Runs that are followed and driven from outside, through the real binary: `--hook` and `--serve`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use fluxgate_tests::fixture::{cli, fluxgate, folder};
use serde_json::Value;

/// A log of 120 jobs for 8 cores, and one that is too wide.
fn log(dir: &Path) -> String {
    let mut text = "; MaxProcs: 8\n; UnixStartTime: 0\n".to_owned();
    for i in 0..120u32 {
        let (run, cores) = (1 + i * 7919 % 100, if i == 60 { 9 } else { 1 + i * 31 % 8 });
        let (id, submit, limit) = (i + 1, i * 5, run * 2);
        text += &format!("{id} {submit} -1 {run} {cores} -1 -1 {cores} {limit} -1 1 1 1 -1 1 -1 -1 -1\n");
    }
    let path = dir.join("l.swf");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn schedule(log: &str) -> String {
    cli(&["replay", log, "-q", "--policy", "easy", "--schedule", "-"]).ok()
}

/// Starts and ends of jobs in a schedule.
fn spans(csv: &str) -> BTreeMap<u64, (f64, f64)> {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        (fields[0].parse().unwrap(), (fields[2].parse().unwrap(), fields[3].parse().unwrap()))
    };
    csv.lines().skip(1).map(row).collect()
}

/// Checks events against a schedule: each start and end, the length of the queue, and the cores in use.
fn check(events: &[Value], csv: &str) {
    let (mut waiting, mut busy, mut now) = (0_u64, 0_u64, 0.0);
    let mut found: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    let mut denied = 0;
    let mut started_in_pass = 0;
    for event in events {
        let number = |key: &str| event[key].as_u64().unwrap_or_else(|| panic!("{key}: {event}"));
        let time = event["time"].as_f64().unwrap();
        assert!(time >= now, "{event}");
        now = time;
        match event["event"].as_str().unwrap() {
            "submit" => waiting += 1,
            "deny" => (waiting, denied) = (waiting - 1, denied + 1),
            "pass" => {
                assert_eq!(number("waiting"), waiting - started_in_pass, "{event}");
                started_in_pass += number("started");
            }
            "start" => {
                (waiting, busy) = (waiting - 1, busy + number("cores"));
                started_in_pass -= 1;
                assert!(found.insert(number("job"), (time, f64::NAN)).is_none(), "{event}");
            }
            "end" => {
                busy -= number("cores");
                found.get_mut(&number("job")).unwrap().1 = time;
            }
            "instant" => {
                assert_eq!((number("waiting"), number("busy")), (waiting, busy), "{event}");
                assert_eq!(started_in_pass, 0, "{event}");
            }
            "over" => {}
            other => panic!("{other}: {event}"),
        }
    }
    assert_eq!((found, denied, waiting, busy), (spans(csv), 1, 0, 0));
    assert_eq!(events.last().unwrap()["event"], "over");
}

fn parsed(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn res_19_a_hook_is_told_everything_and_changes_nothing() {
    let dir = folder();
    let log = log(dir.path());
    let csv = schedule(&log);
    let file = dir.path().join("events.jsonl");
    let hooked = dir.path().join("s.csv");
    let args = ["replay", &log, "-q", "--policy", "easy"];
    let more = ["--hook", file.to_str().unwrap(), "--schedule", hooked.to_str().unwrap()];
    cli(&[&args[..], &more].concat()).ok();
    assert_eq!(std::fs::read_to_string(&hooked).unwrap(), csv);
    let text = std::fs::read_to_string(&file).unwrap();
    check(&parsed(&text), &csv);
    assert_eq!(
        cli(&[&args[..], &["--hook", "-"]].concat()).ok(),
        text,
        "standard output has the lines alone"
    );

    // Of several runs each has a file, and standard output takes one run.
    let two = ["--policy", "fcfs", "--hook"];
    cli(&[&args[..], &two, &[file.to_str().unwrap()]].concat()).ok();
    assert_eq!(std::fs::read_to_string(dir.path().join("events.easy.jsonl")).unwrap(), text);
    cli(&[&args[..], &two, &["-"]].concat()).fails(2, &["--hook - takes one --policy"]);
    cli(&[&args[..], &["--hook", "-", "--json"]].concat()).fails(2, &["can take only one of"]);
}

#[test]
fn res_19_a_reader_of_a_fifo_gets_each_instant_when_it_is_over() {
    let dir = folder();
    let log = log(dir.path());
    let (fifo, socket) = (dir.path().join("fifo"), dir.path().join("s"));
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut run = Driven::start(&log, &socket, &["--hook", fifo.to_str().unwrap()]);
    let mut lines = BufReader::new(std::fs::File::open(&fifo).unwrap()).lines();
    // The run waits after its first instant; the lines up to then are there.
    let held = run.until_it_waits();
    for event in &held {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!((&line["event"], &line["time"]), (&event["event"], &event["time"]));
    }
    run.say("end");
    let rest = lines.collect::<Result<Vec<_>, _>>().unwrap().len();
    assert_eq!(rest, run.rest().len());
    run.over(0);
}

/// A replay whose client is the test.
struct Driven {
    child: Child,
    lines: BufReader<UnixStream>,
}

impl Driven {
    fn start(log: &str, socket: &Path, more: &[&str]) -> Driven {
        let args = ["replay", log, "--policy", "easy", "--serve", socket.to_str().unwrap()];
        let mut command = fluxgate([&args[..], more].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It says when it listens.
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("the run waits for its client") {
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended before it listened");
        }
        // The rest is not read, and its writer does not mind.
        child.stderr = Some(said.into_inner());
        let lines = BufReader::new(UnixStream::connect(socket).unwrap());
        Driven { child, lines }
    }

    fn say(&mut self, command: &str) {
        // At once: a run that has read too much goes away.
        self.lines.get_mut().write_all(format!("{command}\n").as_bytes()).unwrap();
    }

    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).unwrap();
        (read > 0).then(|| serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}")))
    }

    /// The events up to the line at which it waits.
    fn until_it_waits(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.next().expect("it waits");
            let over = event["waits"] == true;
            events.push(event);
            if over {
                return events;
            }
        }
    }

    /// The events up to its end.
    fn rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Its standard output and standard error, when it has ended.
    fn over(mut self, code: i32) -> (String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(code), "{err}");
        (out, err)
    }
}

fn place(dir: &Path) -> PathBuf {
    dir.join("lockstep")
}

#[test]
fn res_59_a_driven_run_has_the_schedule_of_any_other() {
    let dir = folder();
    let log = log(dir.path());
    let csv = schedule(&log);
    let mut run = Driven::start(&log, &place(dir.path()), &["--schedule", "-"]);
    let mode = std::fs::metadata(place(dir.path())).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Instant by instant to 100, then in steps of 50 seconds, then to the end.
    let mut events = Vec::new();
    let mut instants = 0;
    loop {
        events.extend(run.until_it_waits());
        instants += 1;
        if events.last().unwrap()["time"].as_f64().unwrap() >= 100.0 {
            break;
        }
        run.say("next");
    }
    assert!(instants > 20, "it waits at each instant: {instants}");
    for step in 0..5 {
        let until = 150.0 + 50.0 * f64::from(step);
        run.say(&format!("until {until}"));
        let more = run.until_it_waits();
        let last = more.last().unwrap();
        assert!(last["time"].as_f64().unwrap() <= until && last["next"].as_f64().unwrap() > until, "{last}");
        events.extend(more);
    }
    // A time before the next instant: nothing happens, and it waits where it did.
    let last = events.last().unwrap().clone();
    run.say(&format!("until {}", last["next"].as_f64().unwrap() - 0.5));
    assert_eq!(run.until_it_waits(), [last]);
    run.say("end");
    let rest = run.rest();
    assert!(rest.iter().all(|event| event["waits"].is_null()));
    events.extend(rest);
    let (out, _) = run.over(0);
    assert_eq!(out, csv);
    check(&events, &csv);
    assert!(!place(dir.path()).exists(), "the socket is removed");
}

#[test]
fn res_59_commands_that_are_none_are_answered_in_words() {
    let dir = folder();
    let log = log(dir.path());
    let mut run = Driven::start(&log, &place(dir.path()), &[]);
    let held = run.until_it_waits().pop().unwrap();
    for wrong in ["go", "until", "until noon", "until inf", ""] {
        run.say(wrong);
        let answer = run.next().unwrap();
        let text = answer["error"].as_str().unwrap();
        let expected = format!("found {wrong:?}, accepted are `next`, `until TIME`, `end` and `stop`");
        assert_eq!((answer["event"].as_str(), text), (Some("error"), expected.as_str()));
    }
    run.say("next");
    assert!(run.until_it_waits().pop().unwrap()["time"].as_f64() > held["time"].as_f64());
    // It stops when it is told to, without figures.
    run.say("stop");
    assert_eq!(run.rest(), Vec::<Value>::new());
    assert_eq!(run.over(0).0, "");

    // A command that is too long, and a client that goes away, end the run in words.
    let mut run = Driven::start(&log, &place(dir.path()), &[]);
    run.until_it_waits();
    run.say(&"x".repeat(1000));
    assert!(run.next().unwrap()["error"].as_str().unwrap().contains("accepted are 256 bytes"));
    let (_, err) = run.over(1);
    assert!(err.contains("found a longer command, accepted are 256 bytes"), "{err}");
    let mut run = Driven::start(&log, &place(dir.path()), &[]);
    run.until_it_waits();
    run.lines.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
    let (_, err) = run.over(1);
    assert!(err.contains("the client went away while the run waited for it"), "{err}");
}

#[test]
fn res_59_a_client_that_leaves_after_end_lets_the_run_finish() {
    let dir = folder();
    let log = log(dir.path());
    let mut run = Driven::start(&log, &place(dir.path()), &["--schedule", "-"]);
    run.until_it_waits();
    run.say("end");
    run.lines.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(run.over(0).0, schedule(&log));
}

#[test]
fn res_59_a_socket_is_for_one_run_and_one_user() {
    let dir = folder();
    let log = log(dir.path());
    let socket = place(dir.path());
    let path = socket.to_str().unwrap();
    cli(&["replay", &log, "-q", "--policy", "easy", "--policy", "fcfs", "--serve", path])
        .fails(2, &["--serve takes one --policy"]);
    let open = dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let inside = open.join("s");
    cli(&["replay", &log, "-q", "--serve", inside.to_str().unwrap()])
        .fails(1, &["nobody but the owner may write to it"]);
    std::fs::write(&socket, "a file").unwrap();
    cli(&["replay", &log, "-q", "--serve", path]).fails(1, &["there is already a file of this name"]);
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "a file");
}
