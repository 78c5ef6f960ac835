//! Questions of a user before and after submitting, on a real instance: one answer everywhere, and the drained node by name.

use fluxgate_tests::fixture::{World, policies};
use serde_json::{Value, json};

fn world() -> World {
    World::up(&["--nodes", "4", "--cores", "2", "--policy", "easy"])
}

#[test]
fn feat_74_75_a_job_says_which_node_is_drained_and_one_time() {
    let world = world();
    world.cli(&["drain", "3", "bad", "dimm"]).ok();
    let wide = world.cli(&["submit", "-N4", "-t", "10m", "--simulate", "1h"]).ok();
    world.until("it waits", |w| w.jobs("pending").len() == 1);
    let said = world.cli(&["job", wide.trim()]).ok();
    let host = world.cli(&["node", "3", "--json"]).json()["host"].as_str().unwrap().to_owned();
    assert!(said.contains(&format!("node {host} is down")), "{said}");
    assert!(said.contains("no time is known"), "{said}");
    assert!(said.contains("would help") && said.contains("-N 2 (starts at once)"), "{said}");
    let nodes = world.cli(&["job", wide.trim(), "--nodes"]).ok();
    assert!(nodes.contains("drained: bad dimm") && nodes.contains(&host), "{nodes}");
    assert!(world.cli(&["node", &host]).ok().contains("drained: bad dimm"));
    world.cli(&["undrain", "3"]).ok();
    world.until("it runs", |w| w.jobs("running").len() == 1);
    // One that has to wait for it is told one time, by all commands.
    let next = world.cli(&["submit", "-N4", "-x", "-t", "10m", "--simulate", "1h"]).ok();
    world.until("it waits", |w| w.jobs("pending").len() == 1);
    world.until("it has a reserved start", |w| w.told("first in line, has a reserved start"));
    let why = world.cli(&["job", next.trim(), "--json"]).json();
    let row = world.cli(&["queue", "--json"]).json()["jobs"][0].clone();
    assert_eq!(why["explain"]["expected"], row["expected"]);
    assert_eq!(why["t_estimate"], row["expected"], "as it was annotated");
    assert_eq!((&row["as"], &row["reason"]), (&json!("reserved"), &why["explain"]["reason"]));
    let eta = |text: &str| text.lines().find_map(|l| l.strip_prefix("eta ")).unwrap().trim().to_owned();
    let said = world.cli(&["job", next.trim()]).ok();
    assert!(said.contains(&format!("its start is reserved in {}", eta(&said))), "{said}");
    world.assert_clean();
}

#[test]
fn feat_72_73_when_and_gaps_are_held_by_submitting() {
    let world = world();
    world.cli(&["submit", "-N1", "-x", "-t", "1h", "--simulate", "1h"]).ok();
    world.cli(&["submit", "-N4", "-x", "-t", "1h", "--simulate", "1h"]).ok();
    world.until("one waits with a reserved start", |w| w.told("first in line, has a reserved start"));
    let asked = ["when", "-N2", "-t", "2h", "--vary", "-t", "30m", "--vary", "-N", "9", "--json"];
    let when = world.cli(&asked).json();
    let starts: Vec<Value> = when["jobs"].as_array().unwrap().iter().map(|job| job["as"].clone()).collect();
    assert_eq!(starts[..2], [json!("forecast"), json!("free")], "{when}");
    assert!(when["jobs"][2]["never"].as_str().unwrap().contains("9 nodes"), "{when}");
    // A line of submit is a line of when: the command has flags of its own, with and without --.
    let line = [&asked[..], &["hostname", "--fqdn"]].concat();
    assert_eq!(world.cli(&line).json()["jobs"][2]["never"], when["jobs"][2]["never"]);
    world.cli(&["when", "-N2", "-t", "2h", "--", "hostname", "--fqdn"]).ok();
    world.cli(&["when", "--jobspec", "-", "hostname"]).fails(2, &["--jobspec names the command already"]);
    let gaps = world.cli(&["gaps", "--json"]).json();
    let gap = gaps["gaps"][0].clone();
    assert_eq!((&gap["nodes"], &gap["limit"]["kind"]), (&json!(3), &json!("reserved")), "{gaps}");
    // A minute less, since time goes on.
    let limit = format!("{}s", gap["duration"].as_f64().unwrap() - 60.0);
    let before = world.jobs("running").len();
    world.cli(&["submit", "-N3", "-x", "-t", &limit, "--simulate", "1h"]).ok();
    world.until("it started at once", |w| w.jobs("running").len() == before + 1);
    let text = world.cli(&["gaps"]).ok();
    assert!(text.contains("nothing starts at once: nothing that it could take is free"), "{text}");
    assert!(world.cli(&["queue", "-o", "{id:>14} {reason_kind}"]).ok().contains(" reserved"));
    world.cli(&["queue", "-o", "{nothing}"]).fails(2, &["\"nothing\" is no field"]);
    world.assert_clean();
}

/// FEAT-81: the same question with a policy that does not decide, which is a file.
#[test]
fn feat_81_when_with_a_component_that_does_not_decide() {
    let world = world();
    world.cli(&["submit", "-N3", "-x", "-t", "1h", "--simulate", "1h"]).ok();
    world.cli(&["submit", "-N4", "-x", "-t", "2h", "--simulate", "1h"]).ok();
    world.until("one waits with a reserved start", |w| w.told("first in line, has a reserved start"));
    let other = policies().join("sjf.wasm");
    let other = other.to_str().unwrap();
    let ask = ["when", "-N1", "-x", "-t", "90m"];
    let kind = |more: &[&str]| world.cli(&[&ask, more, &["--json"]].concat()).json()["jobs"][0]["as"].clone();
    // EASY has reserved the start of the wide job; the shortest job first starts the new one at once.
    assert_eq!((kind(&[]), kind(&["--policy", other])), (json!("forecast"), json!("free")));
    assert_eq!(kind(&["--policy", "easy"]), "forecast", "by its name");
    let text = world.cli(&[&ask[..], &["--policy", other]].concat()).ok();
    assert!(text.starts_with("if sjf decided:") && text.contains("free"), "{text}");
    // It is not loaded by that, and nothing has started.
    assert_eq!(world.jobs("running").len(), 1);
    assert_eq!(world.stats()["policy"], "easy");

    let missing = world.dir.path().join("none.wasm");
    world
        .cli(&[&ask[..], &["--policy", missing.to_str().unwrap()]].concat())
        .fails(1, &["cannot read", "none.wasm"]);
    let text = world.dir.path().join("text.wasm");
    std::fs::write(&text, "no component").unwrap();
    world.cli(&[&ask[..], &["--policy", text.to_str().unwrap()]].concat()).fails(1, &["text.wasm"]);
    // A component of another world: it exports nothing of a policy.
    let empty = world.dir.path().join("empty.wasm");
    std::fs::write(&empty, b"\0asm\x0d\0\x01\0").unwrap();
    world.cli(&[&ask[..], &["--policy", empty.to_str().unwrap()]].concat()).fails(1, &["empty.wasm"]);
    world.cli(&[&ask[..], &["--policy", other, "--config", "colour=red"]].concat()).fails(1, &["colour"]);
    world.cli(&[&ask[..], &["--config", "colour=red"]].concat()).fails(2, &["--policy"]);
    world.cli(&[&ask[..], &["--policy", "nosuch"]].concat()).fails(1, &["nosuch"]);
    world.assert_clean();
}

#[test]
fn submit_reads_what_flux_submit_reads() {
    let world = world();
    let marker = world.dir.path().join("{cc}.out");
    let args = [
        "submit",
        "--cc",
        "1-2",
        "--setattr",
        "user.x=1",
        "sh",
        "-c",
        &format!("echo -n $FLUX_JOB_CC > {}", marker.display()),
    ];
    let ids = world.cli(&args).ok();
    for (id, cc) in ids.lines().zip(["1", "2"]) {
        assert_eq!(world.cli(&["job", id, "--wait", "--json"]).json()["result"], "COMPLETED");
        assert_eq!(std::fs::read_to_string(world.dir.path().join(format!("{cc}.out"))).unwrap(), cc);
    }
    let id = world.cli(&["submit", "--requires", "rank:3", "-t", "10m", "--simulate", "1h"]).ok();
    world.until("it runs", |w| w.jobs("running").len() == 1);
    assert_eq!(world.cli(&["job", id.trim(), "--json"]).json()["ranks"], "3");
    let spec =
        world.cli(&["submit", "-t", "10", "--requires", "-gpu|ssd", "--dry-run", "hostname", "-x"]).json();
    assert_eq!(spec["tasks"][0]["command"], json!(["hostname", "-x"]));
    assert_eq!(spec["attributes"]["system"]["duration"].as_f64(), Some(600.0));
    world
        .cli(&["submit", "--requires", "foo:1", "--dry-run", "hostname"])
        .fails(2, &["\"foo\" is no operator"]);
    world.assert_clean();
}
