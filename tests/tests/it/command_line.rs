//! The command line is consistent: every command that says something says it as JSON too, a spelling of an earlier release goes
//! on with a hint, and a job that is waited for gives its exit code.

use std::collections::BTreeSet;
use std::process::Stdio;

use fluxgate_tests::fixture::{World, cli, fluxgate, folder, policies, root, run};
use fluxgate_tests::patience::{self, Lines};
use serde_json::Value;

/// How a command of the table below is run.
#[derive(Debug, Clone, Copy)]
enum Run {
    /// With these words and `--json` it succeeds with one JSON value. `{x}` is a path in a folder of its own, `{easy}` a component.
    Says(&'static str),
    /// It does not say anything that a program would read, for this reason.
    Not(&'static str),
    /// It is run by another test of this name.
    In(&'static str),
}
use Run::{In, Not, Says};

/// Every command, in the order in which they are run.
const COMMANDS: &[(&str, Run)] = &[
    ("up", In("up_and_down_tell_programs_what_they_did")),
    ("down", In("up_and_down_tell_programs_what_they_did")),
    ("sched", Not("serves until it is stopped; the service manager and `status` tell about it")),
    ("web", Not("serves until it is stopped; pages have a JSON form")),
    ("top", Not("draws on a terminal until it is quit; `status`, `queue` and `policy watch` print the same")),
    ("metrics", Not("a text form of monitoring systems; `status --json` has the figures")),
    ("completions", Not("a script for a shell")),
    ("man", Not("writes files that it is told to write")),
    ("resource-query", Not("speaks the language of the graph scheduler's tool; -F jgf is JSON")),
    ("submit", Says("submit --simulate 1h -n2 --urgency 0")),
    ("jobs", Says("jobs")),
    ("job", Says("job {job}")),
    ("urgency", Says("urgency {job} 17")),
    ("cancel", Says("cancel {job}")),
    ("drain", Says("drain 1 a reason")),
    ("undrain", Says("undrain 1")),
    ("resource list", Says("resource list")),
    ("queue list", Says("queue list")),
    ("queue stop", Says("queue stop")),
    ("queue start", Says("queue start")),
    ("when", Says("when -n1 -t 1m")),
    ("gaps", Says("gaps")),
    ("node", Says("node 0")),
    ("status", Says("status")),
    ("doctor", Says("doctor")),
    ("drain-for", Says("drain-for restart")),
    (
        "reservation create",
        Says("reservation create a --maintenance --start +1h --duration 1h --hosts all --repeat daily"),
    ),
    ("reservation alter", Says("reservation alter a --note x")),
    ("reservation skip", Says("reservation skip a")),
    ("reservation list", Says("reservation list")),
    ("reservation show", Says("reservation show a")),
    ("reservation end", Says("reservation end a")),
    ("reservation cancel", Says("reservation cancel a")),
    ("reservation accept-loss", Says("reservation accept-loss")),
    ("policy list", Says("policy list")),
    ("policy show", Says("policy show easy")),
    ("policy load", Says("policy load {fcfs}")),
    ("policy shadow", Says("policy shadow fcfs")),
    ("policy diff", Says("policy diff fcfs")),
    ("policy promote", Says("policy promote fcfs --force")),
    ("policy swap", Says("policy swap easy")),
    ("policy rollback", Says("policy rollback")),
    ("policy swap", Says("policy swap easy --queue b")),
    ("policy unset", Says("policy unset --queue b")),
    ("policy unload", Says("policy unload easy")),
    ("policy watch", Says("policy watch --once")),
    ("policy check", Says("policy check {easy}")),
    ("policy bench", In("artefacts")),
    ("policy install", Says("policy install {easy} --unchecked --policies {policies}")),
    ("policy publish", In("published_and_installed_over_tls_with_the_certificate_and_the_login_of_the_site")),
    ("policy remove", Says("policy remove easy --policies {policies}")),
    ("policy seal", Says("policy seal {easy} --manifest {manifest} --out {sealed}")),
    ("policy generate-key", Says("policy generate-key {key}")),
    ("policy sign", Says("policy sign {sealed} --key {key}.key")),
    ("policy verify", Says("policy verify {sealed} --key {key}.pub")),
    ("policy audit", Says("policy audit")),
    ("policy new", Says("policy new mine --path {mine}")),
    ("policy build", In("artefacts")),
    ("policy test", Says("policy test {easy}")),
    ("config show", Says("config show")),
    ("config check", Says("config check queue-depth=8")),
    ("config schema", Says("config schema")),
    ("config reload", Says("config reload --file {config}")),
    ("config migrate", Says("config migrate --args queue-policy=easy")),
    ("replay", Says("replay {log} --policy fcfs --quiet")),
    ("sweep", In("experiments")),
    ("bench list", Says("bench list")),
    ("bench run", In("bench")),
    ("bench table", Not("another form of results that are JSON")),
    ("bench verify", In("bench")),
    ("journal show", In("journal")),
    ("journal check", Says("journal check {journal}")),
    ("journal reasons", Says("journal reasons {job} {journal}")),
    ("workload make", Not("a log, in the format of logs")),
    ("workload info", Says("workload info {log}")),
    ("workload cut", Not("a log, in the format of logs")),
    ("workload convert", Not("a log, in the format that is asked for")),
    ("graph check", Says("graph check {graph}")),
    ("graph show", Says("graph show {graph}")),
    ("graph find", Says("graph find {graph} type=node")),
    ("graph convert", Says("graph convert {graph} {jgf}")),
    ("graph save", Says("graph save {state} --whole --from {graph}")),
    ("graph set-status", Says("graph set-status {node} down")),
    ("graph set-property", Says("graph set-property {node} fast=1")),
    ("graph remove-property", Says("graph remove-property {node} fast")),
    ("graph remove", Says("graph remove {state}")),
    ("demo", In("demo")),
    ("install", Says("install --prefix {prefix} --dry-run")),
];

/// Commands with commands of their own below them.
const GROUPS: [&str; 9] =
    ["policy", "config", "bench", "journal", "workload", "graph", "queue", "resource", "reservation"];

/// The commands that have man pages and no commands of their own below them.
fn commands() -> BTreeSet<String> {
    let dir = folder();
    cli(&["man", dir.path().to_str().unwrap()]).ok();
    let pages: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().trim_end_matches(".1").to_owned())
        .collect();
    let words = |page: &String| {
        let page = page.trim_start_matches("fluxgate-");
        let below = |group: &&&str| page.strip_prefix(**group).is_some_and(|rest| rest.starts_with('-'));
        match GROUPS.iter().find(|group| below(group) && page != "resource-query") {
            Some(group) => format!("{group} {}", &page[group.len() + 1..]),
            None => page.to_owned(),
        }
    };
    // The first page is about the program.
    let pages = pages.iter().filter(|page| *page != "fluxgate").map(words);
    pages.filter(|page| !GROUPS.contains(&page.as_str())).collect()
}

#[test]
fn every_command_that_says_something_says_it_as_json() {
    let known: BTreeSet<String> = COMMANDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(known, commands(), "each command stands in the table");

    let dir = folder();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let component = |name: &str| policies().join(name).to_str().unwrap().to_owned();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("config", "[sched-fluxgate]\nqueue-depth = 8\n");
    write("log", "; MaxProcs: 4\n1 0 -1 10 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 -1 -1\n");
    write("graph", "[[resource.config]]\nhosts = \"n[0-1]\"\ncores = \"0-3\"\n");
    write("manifest", "name = \"easy\"\nauthor = \"A\"\nlicense = \"MIT\"\n");
    std::fs::create_dir(dir.path().join("policies")).unwrap();
    let journal = at("journal");
    let world =
        World::up(&["--nodes", "2", "--cores", "2", "--queue", "a", "--queue", "b", "--journal", &journal]);
    let node =
        world.cli(&["graph", "find", "type=node", "--json"]).json()[0]["path"].as_str().unwrap().to_owned();
    let mut job = String::new();
    for (name, run) in COMMANDS {
        let flag = |text: &str| text.lines().any(|line| line.trim_start().starts_with("--json"));
        let help = cli(&[&name.split(' ').collect::<Vec<_>>()[..], &["--help"]].concat()).ok();
        let line = match run {
            Says(line) => line,
            In(test) => {
                assert!(flag(&help), "{name}");
                assert!(exists(test), "{name}: no test {test}");
                continue;
            }
            Not(why) => {
                assert!(!flag(&help) && !why.is_empty(), "{name} has --json");
                continue;
            }
        };
        assert!(flag(&help), "{name}");
        let line = line.replace("{job}", &job).replace("{node}", &node);
        let line = line.replace("{easy}", &component("easy.wasm")).replace("{fcfs}", &component("fcfs.wasm"));
        let place = |word: &str| match word.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((name, rest)) => at(name) + rest,
            None => word.to_owned(),
        };
        let mut words: Vec<String> = line.split(' ').map(place).collect();
        // The words of a command come last.
        words.insert(name.split(' ').count(), "--json".to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = world.cli(&words);
        assert!(said.code == 0, "{words:?}: {said:?}");
        let value = said.json();
        assert!(value.is_object() || value.is_array(), "{words:?}: {value}");
        if *name == "submit" {
            job = value["jobs"][0]["f58"].as_str().unwrap().to_owned();
        }
    }
}

/// Is there a test of this name?
fn exists(name: &str) -> bool {
    let tests = root().join("tests/tests/it");
    let has = |path: &std::path::Path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.contains(&format!("fn {name}(")) || path.file_stem().is_some_and(|stem| stem == name)
    };
    std::fs::read_dir(tests).unwrap().any(|entry| has(&entry.unwrap().path()))
}

#[test]
fn up_and_down_tell_programs_what_they_did() {
    let dir = folder();
    let place = dir.path().to_str().unwrap();
    let said = cli(&["up", "--dir", place, "--nodes", "1", "--detach", "--json"]).json();
    assert_eq!(said["uri"], format!("local://{place}/local-0"));
    assert!(said["pid"].as_u64().is_some_and(|pid| pid > 1) && said["scheduler"] == true, "{said}");
    let uri = said["uri"].as_str().unwrap();
    assert!(cli(&["jobs", "--uri", uri, "--json"]).json()["jobs"].as_array().unwrap().is_empty());
    std::fs::write(dir.path().join("mine"), "").unwrap();
    let said = cli(&["down", "--dir", place, "--purge", "--json"]).json();
    assert_eq!((&said["stopped"], &said["purged"]), (&true.into(), &true.into()));
    assert_eq!(said["left"], serde_json::json!(["mine"]));

    // In the foreground the one line comes when it serves, and no other does.
    let mut command = fluxgate(["up", "--dir", place, "--nodes", "1", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = Lines::of(&mut child);
    let said: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    assert_eq!(said["pid"], child.id());
    let said = cli(&["down", "--uri", said["uri"].as_str().unwrap(), "--json"]).json();
    assert_eq!(said["stopped"], true);
    assert!(lines.next().is_none());
    patience::end(&mut child);
}

#[test]
fn a_job_that_is_waited_for_gives_its_exit_code() {
    let world = World::up(&["--nodes", "1", "--cores", "2"]);
    let submit = |words: &[&str]| {
        let said = world.cli(&[&["submit", "--json"], words].concat()).json();
        said["jobs"][0]["f58"].as_str().unwrap().to_owned()
    };
    let wait = |id: &str, more: &[&str]| world.cli(&[&["job", id, "--wait"], more].concat());
    wait(&submit(&["true"]), &[]).ok();
    let id = submit(&["sh", "-c", "exit 7"]);
    wait(&id, &[]).fails(7, &[&id, "exit code 7"]);
    let said = wait(&id, &["--json"]);
    assert_eq!(said.code, 7);
    assert_eq!(serde_json::from_str::<Value>(&said.out).unwrap()["result"], "FAILED");
    wait(&submit(&["sh", "-c", "kill -9 $$"]), &[]).fails(137, &["signal 9"]);
    // One that runs and is cancelled, and one that never ran.
    let (runs, waits) = (submit(&["-n2", "--simulate", "1h"]), submit(&["-n2", "--simulate", "1h"]));
    world.until("one runs", |world| world.jobs("running") == [runs.clone()]);
    world.cli(&["cancel", &waits, "-m", "no need"]).ok();
    wait(&waits, &[]).fails(1, &["never ran", "cancel: no need"]);
    world.cli(&["cancel", &runs]).ok();
    let said = wait(&runs, &[]);
    assert!(said.code > 128 && said.err.contains("cancel"), "{said:?}");
    // Without --wait the answer is about the job, and the command has succeeded.
    world.cli(&["job", &id]).ok();
}

#[test]
fn earlier_spellings_go_on_with_a_hint() {
    let dir = folder();
    let graph = dir.path().join("m.toml");
    std::fs::write(&graph, "[[resource.config]]\nhosts = \"n[0-1]\"\ncores = \"0-3\"\n").unwrap();
    let graph = graph.to_str().unwrap();
    let said = cli(&["graph", "load", graph]);
    assert!(said.err.contains("load is called check now"), "{said:?}");
    assert!(said.ok().contains("11 vertices"));
    let key = dir.path().join("k");
    let said = cli(&["policy", "key", key.to_str().unwrap()]);
    assert!(said.code == 0 && said.err.contains("generate-key"), "{said:?}");
    cli(&["sched", "--connect", "/nosuch/socket", "--limit=3"]).fails(
        1,
        &["--connect is called --uri now", "--limit is called --queue-depth now", "no such socket"],
    );
    // The help has the words of today.
    let help = cli(&["graph", "--help"]).ok();
    assert!(!help.contains("load") && !help.contains("destroy"), "{help}");
}

#[test]
fn errors_name_the_flag_that_helps_and_say_a_thing_once() {
    let dir = folder();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let bad = file("bad.swf", "; MaxProcs: 4\n2 5 nonsense\n");
    let bare = file("bare.swf", "1 0 -1 10 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 -1 -1\n");
    let toml = file("bad.toml", "[sched-fluxgate]\npolicy = \n");
    let graph = file("g.json", "{");
    let nowhere = dir.path().join("nowhere.x").to_str().unwrap().to_owned();
    let state = file("exists.json", "{}");
    let m = file("m.toml", "[[resource.config]]\nhosts = \"n[0-1]\"\ncores = \"0-3\"\n");
    let hint = |args: &[&str], words: &[&str]| {
        let said = cli(args);
        assert!(said.code > 0, "{args:?}");
        for word in words {
            assert!(said.err.contains(word), "{args:?}: {word:?} is missing: {}", said.err);
        }
        // No file and no fault is named twice.
        for name in [
            "bad.swf",
            "bare.swf",
            "bad.toml",
            "g.json",
            "nowhere.x",
            "exists.json",
            "os error",
            "cannot read",
        ] {
            assert!(said.err.matches(name).count() <= 1, "{args:?}: {}", said.err);
        }
    };
    hint(&["replay", &bad], &["line 2", "--skip-bad"]);
    hint(&["workload", "info", &bad], &["line 2", "--skip-bad"]);
    hint(&["replay", &bare], &["--machine"]);
    hint(&["config", "check", "--file", &toml], &["line 2"]);
    hint(&["graph", "check", &graph], &["g.json"]);
    hint(&["graph", "convert", &m, &state], &["--force"]);
    for line in [
        &["replay"][..],
        &["workload", "info"],
        &["config", "check", "--file"],
        &["graph", "check"],
        &["policy", "check"],
        &["policy", "verify"],
        &["policy", "install"],
        &["journal", "check"],
        &["bench", "table"],
        &["submit", "--jobspec"],
        &["up", "--resources"],
        &["replay", "--journal"],
        &["policy", "audit", "--file"],
        &["config", "migrate"],
        &["replay", "--outages", &nowhere],
        &["replay", &bare, "--policy"],
        &["replay", &bare, "--machine"],
        &["policy", "build"],
        &["graph", "show"],
    ] {
        hint(&[line, &[&nowhere]].concat(), &["nowhere.x"]);
    }
    let mut up = fluxgate(["down", "--dir"]);
    up.arg(&nowhere);
    assert_eq!(run(up).err.matches("nowhere.x").count(), 1);
}
