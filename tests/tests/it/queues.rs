//! Queues with policies of their own on a live scheduler: by settings and by hand, listed, kept over restarts,
//! failing independently, returned to the default policy, repeated from the journal; and refused requests.

use std::path::Path;

use fluxgate_tests::fixture::{cli, policies};
use fluxgate_tests::site::{Site, TWO};
use serde_json::{Value, json};

fn replay(journal: &Path, more: &[&str]) -> Value {
    cli(&[&["replay", "--json", "--journal", journal.to_str().unwrap()], more].concat()).json()
}

#[test]
fn a_queue_gets_a_policy_of_its_own_by_hand_and_gives_it_back() {
    let site = Site::up(TWO, &[]);
    for queue in ["batch", "debug"] {
        let args =
            ["submit", "--queue", queue, "-n4", "-t", "100h", "--simulate", "360000s", "--copies", "2"];
        site.cli(&args).ok();
    }
    site.world.until("they are known", |_| site.who() == json!(["easy", ["easy", false], ["easy", false]]));
    let said = site.cli(&["policy", "swap", "fcfs", "--queue", "debug"]).ok();
    assert_eq!(said.trim(), "queue debug: fcfs took over from easy");
    assert_eq!(site.who(), json!(["easy", ["easy", false], ["fcfs", true]]));
    let config = ["policy", "swap", "hybrid", "--queue", "debug", "--config", "depth=3", "--json"];
    let answer = site.cli(&config).json();
    assert_eq!(
        (&answer["queue"], &answer["from"], &answer["to"]),
        (&json!("debug"), &json!("fcfs"), &json!("hybrid"))
    );
    let list = site.cli(&["policy", "list", "--json"]).json();
    let debug = list["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "debug").unwrap();
    assert_eq!((&debug["config"], &debug["wanted"]), (&json!({"depth": "3"}), &json!("hybrid")), "{debug}");
    let hybrid =
        list["policies"].as_array().unwrap().iter().find(|policy| policy["name"] == "hybrid").unwrap();
    assert_eq!((&hybrid["active"], &hybrid["queues"]), (&json!(false), &json!(["debug"])), "{hybrid}");

    // All commands show it.
    let text = site.cli(&["status"]).ok();
    assert!(text.contains("queue debug") && text.contains("hybrid, 2 wait"), "{text}");
    assert!(site.cli(&["policy", "list"]).ok().contains("WANTED"));
    let stats = site.world.stats();
    let decides = |name: &str| {
        let queues = stats["queues"].as_array().unwrap();
        queues.iter().find(|queue| queue["name"] == name).unwrap()["policy"].clone()
    };
    assert_eq!(
        (&stats["policy"], decides("batch"), decides("debug")),
        (&json!("easy"), json!("easy"), json!("hybrid"))
    );
    assert!(debug["cost"]["fuel"].as_u64().unwrap() > 0, "{debug}");
    for id in site.world.jobs("pending") {
        let id = fluxgate_formats::JobId::parse(&id).unwrap();
        let why = site.world.rpc("sched-fluxgate.explain", json!({"id": id.0})).unwrap();
        let policy = if why["queue"] == "debug" { "hybrid" } else { "easy" };
        assert_eq!(why["policy"], policy, "{why}");
    }

    // The default policy is swapped independently.
    site.cli(&["policy", "swap", "sjf"]).ok();
    assert_eq!(site.who(), json!(["sjf", ["sjf", false], ["hybrid", true]]));
    site.cli(&["policy", "rollback", "--queue", "debug"]).ok();
    assert_eq!(site.who(), json!(["sjf", ["sjf", false], ["fcfs", true]]));
    let said = site.cli(&["policy", "unset", "--queue", "debug"]).ok();
    assert_eq!(said.trim(), "queue debug: sjf took over from fcfs");
    assert_eq!(site.who(), json!(["sjf", ["sjf", false], ["sjf", false]]));
    assert!(!site.cli(&["policy", "list"]).ok().contains("WANTED"));
    site.world.assert_clean();
}

#[test]
fn what_is_wrong_is_refused_by_name_and_changes_nothing() {
    let site = Site::up(TWO, &[]);
    let swap = |more: &[&str]| site.cli(&[&["policy", "swap"], more].concat());
    swap(&["fcfs", "--queue", "nosuch"]).fails(1, &["no queue \"nosuch\"", "batch, debug"]);
    swap(&["nosuch", "--queue", "debug"]).fails(1, &["no policy \"nosuch\" is loaded", "easy"]);
    swap(&["hybrid", "--queue", "debug", "--config", "depht=3"]).fails(1, &["depht"]);
    swap(&["fcfs", "--queue", ""]).fails(1, &["queue: expected the name of a queue"]);
    swap(&["fcfs", "--queue", "debug", "--probation", "x"]).fails(2, &["--probation x"]);
    site.cli(&["policy", "unset", "--queue", "debug"]).fails(1, &["queue debug has no policy of its own"]);
    site.cli(&["policy", "unset", "--queue", "nosuch"]).fails(1, &["no queue \"nosuch\""]);
    site.cli(&["policy", "rollback", "--queue", "debug"])
        .fails(1, &["queue debug: there is no policy to go back to"]);
    let own = |table: &str, words: &[&str]| {
        site.write(&format!("{TWO}{table}"));
        site.cli(&["config", "reload"]).fails(1, words);
        let file = site.world.dir.path().join("flux.toml");
        let policies = format!("policies={}", policies().display());
        let check = ["config", "check", "--instance", "--file", file.to_str().unwrap(), &policies];
        site.cli(&check).fails(1, words);
    };
    own("[sched-fluxgate.queues.nosuch]\npolicy = \"fcfs\"\n", &["no queue \"nosuch\"", "batch, debug"]);
    own(
        "[sched-fluxgate.queues.debug]\npolicy = \"nosuch\"\n",
        &["queues.debug.policy", "no policy \"nosuch\""],
    );
    own(
        "[sched-fluxgate.queues.debug]\npolicy = \"hybrid\"\npolicy-config = { depht = 3 }\n",
        &["queues.debug.policy", "depht"],
    );
    own("[sched-fluxgate.queues.debug]\npriority = 1\n", &["debug.priority", "placement, policy"]);

    site.cli(&["policy", "shadow", "fcfs", "--queue", "nosuch"])
        .fails(1, &["no queue \"nosuch\"", "batch, debug"]);
    site.cli(&["policy", "shadow", "--stop", "fcfs", "--queue", "debug"])
        .fails(1, &["fcfs (queue debug) is no shadow", "shadows are: none"]);
    site.cli(&["policy", "promote", "fcfs"]).fails(1, &["policy shadow fcfs", "is no shadow"]);
    assert_eq!(site.who(), json!(["easy", null, null]));
}

/// A candidate for a queue is compared in that queue only, beside one for the default policy and beside swaps of
/// other queues. Promotion makes it that queue's policy.
#[test]
fn a_candidate_for_one_queue_shadows_it_and_is_promoted_there() {
    let site = Site::up(TWO, &[]);
    let diff = |queue: &str| site.world.diff("fcfs", Some(queue));
    site.cli(&["policy", "shadow", "fcfs", "--queue", "debug"]).ok();
    site.cli(&["policy", "shadow", "fcfs", "--queue", "debug"])
        .fails(1, &["fcfs (queue debug) is a shadow already"]);
    site.cli(&["policy", "shadow", "fcfs", "--queue", "batch"]).ok();
    site.cli(&["policy", "diff", "fcfs"]).fails(1, &["several queues", "--queue"]);
    let submit = |queue: &str, slots: &str, limit: &str, length: &str| {
        site.cli(&["submit", "--queue", queue, slots, "-t", limit, "--simulate", length]).ok();
    };
    submit("batch", "-n3", "100h", "360000s");
    submit("debug", "-n4", "1h", "60s");
    // The live policy lets it pass the one before; the candidate would not.
    submit("debug", "-n1", "5m", "60s");
    site.world.until("it is compared", |_| diff("debug")["jobs"]["compared"] == 1);
    let told = site.cli(&["policy", "diff", "fcfs", "--queue", "debug", "--json"]).json();
    assert_eq!((&told["queue"], &told["jobs"]["same"]), (&json!("debug"), &json!(0)), "{told}");
    assert_eq!(diff("batch")["jobs"]["same"], 1, "the job of batch starts with either");
    assert!(site.cli(&["policy", "shadow"]).ok().contains("debug"));

    // Other queues may get policies in the meantime, also those that a candidate for the default policy would decide.
    site.cli(&["policy", "shadow", "sjf"]).ok();
    site.cli(&["policy", "swap", "hybrid", "--queue", "batch"]).ok();
    site.cli(&["policy", "promote", "fcfs", "--queue", "debug"])
        .fails(1, &["promote-passes-min is 100", "--force"]);
    let said = site.cli(&["policy", "promote", "fcfs", "--queue", "debug", "--force"]).ok();
    assert_eq!(said.trim(), "queue debug: fcfs took over from easy");
    assert_eq!(site.who(), json!(["easy", ["hybrid", true], ["fcfs", true]]));
    site.cli(&["policy", "unset", "--queue", "batch"]).ok();
    submit("batch", "-n1", "5m", "60s");
    site.world.until("sjf is asked for it", |_| {
        let told = site.world.diff("sjf", None);
        assert_eq!(told["ended"], Value::Null, "{told}");
        told["jobs"]["compared"] == 1
    });
    let list = site.cli(&["policy", "list", "--json"]).json();
    let rows =
        list["shadows"].as_array().unwrap().iter().map(|row| (row["name"].clone(), row["queue"].clone()));
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [(json!("fcfs"), json!("batch")), (json!("sjf"), Value::Null)],
        "who was promoted is no shadow any more"
    );
    site.world.assert_clean();
}

#[test]
fn settings_name_the_policies_of_queues_and_a_restart_keeps_them() {
    let journal = tempfile::tempdir().unwrap();
    let folder = journal.path().join("j");
    let args = [format!("journal={}", folder.display())];
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let table =
        format!("{TWO}[sched-fluxgate.queues.debug]\npolicy = \"hybrid\"\npolicy-config = {{ depth = 4 }}\n");
    let mut site = Site::up(&table, &args);
    let load = |site: &Site| {
        for queue in ["batch", "debug"] {
            let sizes = [["-n1", "-t", "1m"], ["-n3", "-t", "5m"], ["-n2", "-t", "2m"]];
            for size in sizes {
                let more = ["--queue", queue, "--simulate", "60s", "--copies", "8"];
                site.cli(&[&["submit"][..], &size, &more].concat()).ok();
            }
        }
    };
    load(&site);
    assert_eq!(site.who(), json!(["easy", ["easy", false], ["hybrid", true]]));
    // A manual swap; the restart restores the configured policy.
    site.cli(&["policy", "swap", "fcfs", "--queue", "debug"]).ok();
    let shown = site.cli(&["config", "show"]).ok();
    assert!(shown.contains("queue debug: fcfs decides, not hybrid as configured"), "{shown}");
    site.restart(&args);
    load(&site);
    assert_eq!(site.who(), json!(["easy", ["easy", false], ["hybrid", true]]));

    // Another policy, a further one, none: all without a restart.
    let with = |table: &str| {
        site.write(&format!("{TWO}{table}"));
        site.cli(&["config", "reload", "--json"]).json()
    };
    let answer = with("[sched-fluxgate.queues]\ndebug.policy = \"sjf\"\nbatch.policy = \"fcfs\"\n");
    assert_eq!(answer["changed"]["queues"]["to"]["debug"], json!({"policy": "sjf"}), "{answer}");
    let becomes = |what: Value| site.world.until("the queues follow", |_| site.who() == what);
    becomes(json!(["easy", ["fcfs", true], ["sjf", true]]));
    load(&site);
    with("[sched-fluxgate.queues]\nbatch.policy = \"fcfs\"\n");
    becomes(json!(["easy", ["fcfs", true], ["easy", false]]));
    // Together with the default policy.
    site.write(&TWO.replace("\"easy\"", "\"sjf\""));
    site.cli(&["config", "reload"]).ok();
    becomes(json!(["sjf", ["sjf", false], ["sjf", false]]));
    site.world.until_done();
    site.world.assert_clean();
    drop(site);

    let done = replay(&folder, &[]);
    assert_eq!((&done["verified"], &done["gaps"]), (&json!(true), &json!([])), "{done}");
    assert!(done["swaps"].as_u64().unwrap() >= 8, "{done}");
    let lines = cli(&["journal", "show", folder.to_str().unwrap()]).ok();
    assert!(lines.contains("queue-swap") && lines.contains("give-back"));
    assert!(lines.contains("queue debug: swapped from easy to hybrid"));
    // The schedules of other policies: one for all queues, and one with a queue of its own.
    let other = replay(&folder, &["--policy", "fcfs"]);
    let own = replay(&folder, &["--policy", "fcfs", "--queue-policy", "debug=sjf"]);
    for world in [&other, &own] {
        assert!(world["runs"][0]["figures"]["started"].as_u64().unwrap() > 50, "{world}");
    }
    assert_ne!(other["runs"][0]["figures"]["mean_wait_s"], own["runs"][0]["figures"]["mean_wait_s"]);
    let journal = ["replay", "--journal", folder.to_str().unwrap(), "--policy", "fcfs", "--queue-policy"];
    cli(&[&journal[..], &["debug"]].concat()).fails(2, &["--queue-policy debug", "QUEUE=POLICY"]);
    cli(&[&journal[..], &["debug=nosuch"]].concat()).fails(1, &["nosuch"]);
}

#[test]
fn a_failure_in_one_queue_is_only_that_queues() {
    let broken = policies().join("broken.wasm");
    let table = format!("{TWO}quarantine = 2\nquarantine-tries = 1\n");
    let site = Site::up(&table, &[]);
    let load =
        ["policy", "load", broken.to_str().unwrap(), "--config", "mode=trap", "--config", "when=first-pass"];
    site.cli(&load).ok();
    site.cli(&["submit", "--queue", "debug", "-n4", "-t", "100h", "--simulate", "360000s", "--copies", "2"])
        .ok();
    site.cli(&["submit", "--queue", "batch", "-n4", "-t", "1h", "--simulate", "1s", "--copies", "2"]).ok();
    site.cli(&["policy", "swap", "fcfs", "--queue", "debug"]).ok();
    site.cli(&["policy", "swap", "broken", "--queue", "debug"]).ok();
    // It fails and fcfs is active; its quarantine is over, it fails again, and then stays out.
    let debug = |site: &Site| {
        let list = site.world.policies();
        list["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "debug").unwrap().clone()
    };
    site.world.until("it is out for good", |_| {
        let debug = debug(&site);
        debug["failures"] == 2 && debug["quarantined"] == true && debug["quarantined_until"].is_null()
    });
    site.world.until("fcfs is back", |_| site.who() == json!(["easy", ["easy", false], ["fcfs", true]]));
    let told = debug(&site);
    assert_eq!((&told["wanted"], &told["containment"]["returns"]), (&json!("broken"), &json!(1)), "{told}");
    assert_eq!(told["containment"]["breaches"], json!({"trap": 2}), "{told}");
    let stats = site.world.stats();
    assert_eq!(stats["containment"]["breaches"], json!({}), "the default policy did nothing: {stats}");
    assert!(site.cli(&["status"]).ok().contains("broken is in quarantine"));

    // Fail closed, in that queue only.
    site.write(&table.replace("fallback", "hold").replace("quarantine = 2", "quarantine = 0"));
    site.cli(&["config", "reload"]).ok();
    site.cli(&["policy", "unset", "--queue", "debug"]).ok();
    site.cli(&load).ok();
    let trap = format!("{table}[sched-fluxgate.queues.debug]\npolicy = \"{}\"\n", broken.display());
    let trap = trap.replace("fallback", "hold").replace("quarantine = 2", "quarantine = 0");
    let trap = format!("{trap}policy-config = {{ mode = \"trap\", when = \"first-pass\" }}\n");
    site.write(&trap);
    site.cli(&["config", "reload"]).ok();
    site.world.until("it failed", |_| debug(&site)["failures"] != 0);
    site.world.until("easy decides batch", |_| site.who()[1] == json!(["easy", false]));
    site.world.assert_clean();
}

/// A log of two queues on one core: `q1` shortest first, `q2` in order of arrival; and refused arguments.
#[test]
fn a_log_is_replayed_with_a_policy_for_each_queue() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("two.swf");
    let mut text = "; MaxProcs: 1\n; UnixStartTime: 0\n".to_owned();
    // Five jobs of each queue, the first one the longest; all wait when the first core is free.
    for job in 1..=10 {
        let (queue, run) = (2 - job % 2, 200 - 10 * job);
        text += &format!("{job} {job} -1 {run} 1 -1 -1 1 {run} -1 1 1 1 -1 {queue} -1 -1 -1\n");
    }
    std::fs::write(&log, text).unwrap();
    let starts = |more: &[&str]| -> Vec<u64> {
        let args = ["replay", "-q", log.to_str().unwrap(), "--map", "queue=queue", "--schedule", "-"];
        let out = cli(&[&args[..], more].concat()).ok();
        let mut rows: Vec<(u64, u64)> = out
            .lines()
            .skip(1)
            .filter_map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                Some((fields.get(2)?.parse::<f64>().ok()? as u64, fields[0].parse().ok()?))
            })
            .collect();
        rows.sort_unstable();
        rows.into_iter().map(|(_, job)| job).collect()
    };
    let order =
        |all: &[u64], odd: u64| -> Vec<u64> { all.iter().copied().filter(|j| j % 2 == odd).collect() };
    let plain = starts(&["--policy", "fcfs"]);
    assert_eq!((order(&plain, 1), order(&plain, 0)), (vec![1, 3, 5, 7, 9], vec![2, 4, 6, 8, 10]));
    let mixed = starts(&["--policy", "fcfs", "--queue-policy", "q1=sjf"]);
    assert_eq!((order(&mixed, 1), order(&mixed, 0)), (vec![1, 9, 7, 5, 3], vec![2, 4, 6, 8, 10]));
    let both = starts(&["--policy", "builtin-fcfs", "--queue-policy", "q1=sjf", "--queue-policy", "q2=sjf"]);
    assert_eq!(order(&both, 0), [10, 8, 6, 4, 2]);
    let refused = |own: &str, code: i32, words: &[&str]| {
        let args = ["replay", "-q", log.to_str().unwrap(), "--map", "queue=queue", "--queue-policy", own];
        cli(&args).fails(code, words);
    };
    refused("q3=sjf", 1, &["no job is in queue q3", "queues are q1, q2"]);
    refused("q1", 2, &["expected QUEUE=POLICY"]);
    refused("q1=nosuch", 1, &["nosuch"]);
    let table =
        cli(&["replay", "-q", log.to_str().unwrap(), "--map", "queue=queue", "--queue-policy", "q2=sjf"])
            .ok();
    assert!(table.contains("easy+q2=sjf"), "{table}");
}

#[test]
fn the_policy_of_one_queue_may_be_on_probation() {
    let site = Site::up(&format!("{TWO}probation-fuel-max = 1\n"), &[]);
    let submit = |queue: &str| {
        site.cli(&["submit", "--queue", queue, "-n1", "-t", "5m", "--simulate", "1s"]).ok();
    };
    let probation = || {
        let list = site.world.policies();
        let queues = list["queues"].as_array().unwrap();
        queues.iter().find(|queue| queue["name"] == "debug").unwrap()["probation"]["policy"].clone()
    };
    let swap = ["policy", "swap", "fcfs", "--queue", "debug", "--probation", "10m"];
    site.cli(&swap).ok();
    assert_eq!(probation(), json!("fcfs"));
    // Jobs of other queues have no effect on it.
    submit("batch");
    site.world.until("it has run", |world| world.jobs("inactive").len() == 1);
    assert_eq!(probation(), json!("fcfs"));
    submit("debug");
    site.world.until("it is rolled back", |_| site.who()[2] == json!(["easy", false]));
    let log = std::fs::read_to_string(site.world.dir.path().join("sched-log")).unwrap();
    assert!(log.contains("queue debug: probation broken, rolling back"), "{log}");

    // Without the rule it stays, and its probation ends.
    site.write(TWO);
    let file = site.world.dir.path().join("flux.toml");
    site.cli(&["config", "reload", "--file", file.to_str().unwrap()]).ok();
    site.cli(&swap).ok();
    submit("debug");
    site.world.until("it is over", |_| probation().is_null());
    assert_eq!(site.who()[2], json!(["fcfs", true]));
    site.world.assert_clean();
}

#[test]
fn a_queue_keeps_to_its_ceiling_until_another_is_set() {
    let with = |bounds: &str| format!("{TWO}[sched-fluxgate.queues.debug]\n{bounds}\n");
    let mut site = Site::up(&with("ceiling = 2"), &[]);
    let copies = ["--copies", "2", "-t", "100h", "--simulate", "360000s"];
    site.cli(&[&["submit", "--queue", "debug", "-n2"], &copies[..]].concat()).ok();
    site.world.until("one of two waits", |_| site.world.jobs("pending").len() == 1);
    let id = fluxgate_formats::JobId::parse(&site.world.jobs("pending")[0]).unwrap();
    let why = || site.world.rpc("sched-fluxgate.explain", json!({"id": id.0})).unwrap().to_string();
    site.world.until("it is known why", |_| why().contains("jobs of its queue may hold 2 cores together"));
    let shown = site.cli(&["config", "show", "--json"]).ok();
    assert!(shown.contains("ceiling"), "{shown}");
    // Jobs that have run since before count for the next policy.
    site.restart(&[]);
    let why = || site.world.rpc("sched-fluxgate.explain", json!({"id": id.0})).unwrap().to_string();
    site.world.until("it is known again", |_| why().contains("jobs of its queue may hold 2 cores together"));
    assert_eq!(site.world.jobs("pending").len(), 1);
    site.write(&with("ceiling = \"4\""));
    site.cli(&["config", "reload"]).ok();
    site.world.until("both run", |_| site.world.jobs("pending").is_empty());
    site.write(&with("ceiling = \"half\""));
    site.cli(&["config", "reload"]).fails(1, &["debug.ceiling", "8 nodes", "half"]);
    site.world.assert_clean();
}
