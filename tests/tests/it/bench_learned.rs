//! `fluxgate bench` with entries of trained networks: what they were trained on, and what chance does (RES-49, RES-53).

use std::path::{Path, PathBuf};

use fluxgate_languages::template::Template;
use fluxgate_policy::Digest;
use fluxgate_tests::fixture::{cli, folder, policies};
use fluxgate_tests::networks::{self, build, can_build, learned, weights};

/// Eight cores, four jobs of all of them.
const LOG: &str = "; MaxProcs: 8
1 0 0 10 8 -1 -1 8 10 -1 1 1 1 -1 1 -1 -1 -1
2 1 0 20 8 -1 -1 8 20 -1 1 1 1 -1 1 -1 -1 -1
3 2 20 5 8 -1 -1 8 5 -1 1 1 1 -1 1 -1 -1 -1
4 3 20 7 8 -1 -1 8 7 -1 1 1 1 -1 1 -1 -1 -1
";

/// SHA-256 of the log.
fn sha256() -> String {
    Digest::of(LOG.as_bytes()).to_string().replace("sha256:", "")
}

/// A folder with the log, and one with `easy` and with a policy `mine` that says it was trained on this.
fn world(dir: &Path, trained_on: &str) -> (PathBuf, PathBuf) {
    let (logs, own) = (dir.join("logs"), dir.join("policies"));
    std::fs::create_dir_all(&logs).unwrap();
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(logs.join("a.swf"), LOG).unwrap();
    let easy = std::fs::read(policies().join("easy.wasm")).unwrap();
    let file = weights(&[10, 1], &[("activation", "none"), ("trained-on", trained_on)], 1);
    std::fs::write(own.join("mine.wasm"), learned(&easy, &file)).unwrap();
    std::fs::write(own.join("easy.wasm"), easy).unwrap();
    (logs, own)
}

/// A suite of one task.
fn suite(dir: &Path, parts: &str, entry: &str) -> String {
    let path = dir.join("suite.toml");
    let text = format!(
        "name = \"own\"\nversion = 1\ntitle = \"A title\"\nsource = \"none\"\n\
         [[log]]\nname = \"l\"\nsha256 = \"{}\"\npublished = \"a place\"\n\
         [[task]]\nname = \"one\"\nlog = \"l\"\n{parts}\n\
         [[task.entry]]\nname = \"EASY\"\npolicy = \"easy\"\n\
         published = [{{ metric = \"jobs\", value = \"1\", because = \"of the parts\" }}]\n\
         [[task.entry]]\nname = \"mine\"\npolicy = \"mine\"\n{entry}\n\
         published = [{{ metric = \"jobs\", value = \"1\", because = \"of the parts\" }}]\n",
        sha256()
    );
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn res_49_a_policy_is_not_ranked_on_jobs_that_it_was_trained_on() {
    let dir = folder();
    let run = |trained_on: &str, parts: &str, json: bool| {
        let (logs, own) = world(dir.path(), trained_on);
        let file = suite(dir.path(), parts, "");
        let mut args = vec!["bench", "run", &file, "--quiet", "--logs", logs.to_str().unwrap(), "--policies"];
        args.push(own.to_str().unwrap());
        args.extend(json.then_some("--json"));
        cli(&args)
    };
    // The whole log: the row says so instead of a verdict, as a task that is skipped does.
    let table = run(&sha256(), "", false).ok();
    let row = table.lines().find(|line| line.contains("mine")).unwrap();
    assert!(row.contains("trained on this log"), "{table}");
    let said = run(&sha256(), "", true).json();
    let entries = &said["tasks"][0]["entries"];
    assert_eq!(entries[1]["unranked"], "trained on this log", "{said}");
    assert_eq!(entries[1]["values"], serde_json::json!([]));
    assert_eq!((&entries[0]["unranked"], &entries[0]["jobs"]), (&serde_json::Value::Null, &4.into()));
    // Jobs 1 and 2 of it: another part is ranked, one that shares a job with them is not.
    let first_two = format!("{}:1-2", sha256());
    let ranked = |trained_on: &str, parts: &str| {
        let said = run(trained_on, parts, true).json();
        said["tasks"][0]["entries"][1]["unranked"].is_null()
    };
    assert!(ranked(&first_two, "starts = [2]\nlength = 2"));
    assert!(!ranked(&first_two, "starts = [1]\nlength = 2"));
    assert!(!ranked(&first_two, "starts = [2, 0]\nlength = 1"), "one part is enough");
    assert!(!ranked(&first_two, ""));
    assert!(ranked(&"cd".repeat(32), ""), "another log");
    assert!(ranked("", ""), "nothing is said");
}

/// The same suite with a metric of which nothing was published.
fn ranked_suite(dir: &Path, more: &str, entry: &str) -> String {
    let path = PathBuf::from(suite(dir, &format!("metrics = [\"wait_mean_s\"]\n{more}"), entry));
    let text = std::fs::read_to_string(&path).unwrap();
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with("published = [{")).collect();
    std::fs::write(&path, text.join("\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A network that picks among rows of equal logits, as a component; `None` where none can be built.
fn network(dir: &Path) -> Option<Vec<u8>> {
    can_build().then(|| {
        let file = weights(&[10, 8, 1], &[("mode", "commit"), ("backfill", "none")], 3);
        build(&networks::folder(dir, Template::MlpKernel, "draws", &file, None), true)
    })
}

#[test]
fn res_53_a_policy_that_draws_is_shown_over_its_seeds() {
    let dir = folder();
    let Some(component) = network(dir.path()) else { return };
    let (logs, own) = world(dir.path(), "");
    std::fs::write(own.join("mine.wasm"), component).unwrap();
    let file = ranked_suite(dir.path(), "", "sampled = 12");
    let base = [
        "bench",
        "run",
        &file,
        "--quiet",
        "--logs",
        logs.to_str().unwrap(),
        "--policies",
        own.to_str().unwrap(),
    ];
    let said = cli(&[&base[..], &["--json"]].concat()).json();
    let value = &said["tasks"][0]["entries"][1]["values"][0];
    let seeds: Vec<f64> =
        value["sampled"]["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    assert_eq!(seeds.len(), 12);
    // Jobs 2, 3 and 4 wait for job 1, in an order that is drawn: the seeds do not all give the same.
    let (least, most) =
        (value["sampled"]["least"].as_f64().unwrap(), value["sampled"]["most"].as_f64().unwrap());
    assert!(least < most, "{said}");
    let mean = seeds.iter().sum::<f64>() / 12.0;
    assert!((value["sampled"]["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
    let table = cli(&base).ok();
    assert!(table.contains("mine, 12 seeds") && table.contains("standard deviation"), "{table}");
    assert_eq!(table, cli(&base).ok(), "the same seeds give the same values");
    // One that has no seed is named.
    let (_, own) = world(dir.path(), "");
    cli(&[&base[..6], &["--policies", own.to_str().unwrap()]].concat())
        .fails(1, &["sample-seed=1", "sample-seed"]);
}

#[test]
fn res_54_windows_sequences_and_transfer_are_tasks_without_code() {
    let dir = folder();
    let (logs, own) = world(dir.path(), &"cd".repeat(32));
    // A job an hour for five weeks, and windows of two days.
    let log: String = (1..=840)
        .map(|id| format!("{id} {} 0 9000 8 -1 -1 {} 9000 -1 1 1 1 -1 1 -1 -1 -1\n", id * 3600, 1 + id % 4))
        .collect();
    let log = format!("; MaxProcs: 8\n{log}");
    std::fs::write(logs.join("a.swf"), &log).unwrap();
    let of_log = Digest::of(log.as_bytes()).to_string().replace("sha256:", "");
    let run = |more: &str, args: &[&str]| {
        let file = ranked_suite(dir.path(), more, "");
        let text = std::fs::read_to_string(&file).unwrap().replace(&sha256(), &of_log);
        let text = text.replacen(
            "[[task]]",
            "[[log]]\nname = \"other\"\nsha256 = \"CD\"\npublished = \"p\"\n[[task]]",
            1,
        );
        std::fs::write(&file, text.replace("CD", &"cd".repeat(32))).unwrap();
        let base = ["bench", "run", &file, "--quiet", "--logs", logs.to_str().unwrap(), "--policies"];
        cli(&[&base[..], &[own.to_str().unwrap(), "--json"], args].concat()).json()["tasks"][0].clone()
    };
    let task = run("window-days = 2\nuncounted = 16", &[]);
    let parts = |task: &serde_json::Value| task["parts"].as_array().map_or(0, Vec::len);
    assert_eq!(parts(&task), 17, "{task}");
    let first = &task["entries"][0];
    assert_eq!(
        (first["values"][0]["parts"].as_array().unwrap().len(), &task["parts"][1]),
        (17, &"48+48".into())
    );
    assert_eq!(first["values"][0]["verdict"], "first");
    assert!(first["values"][0]["interval"]["low"].as_f64() <= first["values"][0]["found"].as_f64());
    // The policy `mine` does what `easy` does: the paired difference is 0 in each window.
    let second = &task["entries"][1]["values"][0];
    assert_eq!((&second["difference"]["mean"], &second["verdict"]), (&0.0.into(), &"even".into()), "{task}");

    // Sequences: two are public, three more are drawn once their seed is known.
    let sequences = "starts = [5, 400]\nlength = 30\ndrawn = 3";
    assert_eq!(parts(&run(sequences, &[])), 2);
    let seeded = run(sequences, &["--seed", "9"]);
    assert_eq!((parts(&seeded), &seeded), (5, &run(sequences, &["--seed", "9"])));
    assert_ne!(seeded["parts"], run(sequences, &["--seed", "8"])["parts"]);
    let command = seeded["entries"][1]["command"].as_str().unwrap();
    assert!(command.contains("--task 'one' --only 'mine' --seed 9"), "{command}");
    // The command of a cell makes that cell: the policy, and the first one.
    let cell = run(sequences, &["--seed", "9", "--only", "mine"]);
    assert_eq!(cell["entries"], seeded["entries"]);

    // A line that cannot be read is an error, or left out where the task says so.
    let broken =
        log.replace("; MaxProcs: 8\n", "; MaxProcs: 8\n900 -1 0 9 8 -1 -1 8 9 -1 1 1 1 -1 1 -1 -1 -1\n");
    std::fs::write(logs.join("a.swf"), &broken).unwrap();
    let hash = Digest::of(broken.as_bytes()).to_string().replace("sha256:", "");
    let with = |more: &str| {
        let file = ranked_suite(dir.path(), more, "");
        let text = std::fs::read_to_string(&file).unwrap().replace(&sha256(), &hash);
        std::fs::write(&file, text).unwrap();
        let base = ["bench", "run", &file, "--quiet", "--logs", logs.to_str().unwrap(), "--policies"];
        cli(&[&base[..], &[own.to_str().unwrap(), "--json"]].concat())
    };
    with("").fails(1, &["task one", "line 2: field 2 (submit time): found `-1`"]);
    let task = with("skip-bad = true").json()["tasks"][0].clone();
    assert_eq!(
        (&task["entries"][0]["jobs"], &task["rules"]),
        (&840.into(), &"semantics=fluxgate skip-bad".into())
    );
    std::fs::write(logs.join("a.swf"), &log).unwrap();

    // Transfer: ranked if it was trained on the log that is named, and on no other.
    let task = run("trained-on = [\"other\"]", &[]);
    assert_eq!(task["entries"][1].get("unranked"), None, "{task}");
    let task = run("trained-on = [\"other\"]", &["--add", "heuristic=easy", "--only", "heuristic"]);
    assert_eq!(task["entries"][1].get("unranked"), None, "a policy without weights is compared");
    world(dir.path(), &format!("{},{}", "cd".repeat(32), "ef".repeat(32)));
    std::fs::write(logs.join("a.swf"), &log).unwrap();
    let task = run("trained-on = [\"other\"]", &[]);
    assert_eq!(task["entries"][1]["unranked"], "not trained on other alone");
}

#[test]
fn res_56_a_submission_is_a_folder_and_its_table_is_made_again() {
    let dir = folder();
    let (logs, own) = world(dir.path(), "");
    let file = ranked_suite(dir.path(), "starts = [0, 1]\nlength = 2\ndrawn = 0", "");
    let folder = dir.path().join("submission");
    std::fs::create_dir(&folder).unwrap();
    let component = std::fs::read(own.join("mine.wasm")).unwrap();
    std::fs::write(folder.join("owl.wasm"), &component).unwrap();
    let said = "name = \"Night owl\"\ncomponent = \"owl.wasm\"\nsource = \"https://example.org/owl\"\n\
         license = \"Apache-2.0\"\nsuite = \"own\"\nsuite-version = 1\nweights-sha256 = \"HASH\"\n";
    let section = weights(&[10, 1], &[("activation", "none"), ("trained-on", "")], 1);
    let hash = Digest::of(&section).to_string().replace("sha256:", "");
    let write =
        |text: &str| std::fs::write(folder.join("submission.toml"), text.replace("HASH", &hash)).unwrap();
    let (place, logs, own) = (folder.to_str().unwrap(), logs.to_str().unwrap(), own.to_str().unwrap());
    let base = ["bench", "verify", place, "--suite", &file, "--quiet", "--logs", logs, "--policies", own];
    write(said);
    let table = cli(&base).ok();
    assert!(table.contains("Night owl") && table.contains("EASY") && !table.contains(place), "{table}");
    // With its results in the folder these have to come out again.
    let results = folder.join("results.json");
    cli(&[&base[..], &["--out", results.to_str().unwrap()]].concat()).ok();
    assert!(cli(&base).ok().contains("3 results are those of results.json"));
    let text = std::fs::read_to_string(&results).unwrap();
    assert!(text.contains(&format!("\"weights\": \"{hash}\"")) && !text.contains(place), "{text}");
    std::fs::write(&results, text.replace("\"fuel\": ", "\"fuel\": 1")).unwrap();
    cli(&base).fails(1, &["results.json", "one: Night owl: other values"]);
    std::fs::remove_file(&results).unwrap();
    // Faults, all at once.
    write(
        &said
            .replace("HASH", &"0".repeat(64))
            .replace("https://example.org/owl", "my disk")
            .replace("= 1", "= 7"),
    );
    cli(&base).fails(
        1,
        &[
            "the submission is not valid",
            "source: found `my disk`",
            "suite-version: found 7, accepted is 1, the version of own",
            &format!("but the weights in owl.wasm have {hash}"),
        ],
    );
    write(&said.replace("weights-sha256 = \"HASH\"\n", ""));
    cli(&base).fails(1, &["weights-sha256: not there; the weights in owl.wasm have"]);
    write(&said.replace("owl.wasm", "bat.wasm"));
    cli(&base).fails(1, &["component: ", "bat.wasm"]);
    write(&said.replace("license", "licence"));
    cli(&base).fails(1, &["submission.toml", "licence"]);
    // One that no task ranks.
    let trained = weights(&[10, 1], &[("activation", "none"), ("trained-on", &sha256())], 1);
    let easy = std::fs::read(policies().join("easy.wasm")).unwrap();
    std::fs::write(folder.join("owl.wasm"), learned(&easy, &trained)).unwrap();
    write(&said.replace("HASH", &Digest::of(&trained).to_string().replace("sha256:", "")));
    let said = cli(&base);
    assert!(said.out.contains("trained on this log"), "{said:?}");
    said.fails(1, &["no task of own ranks it"]);
}
