//! Errors name the place, the value found and the values accepted; the exit code is 2 for usage, 1 for failure; and
//! no change is made in part.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use fluxgate_tests::fixture::{World, cli, fluxgate, folder, policies, run};

#[test]
fn usage_errors_end_with_2() {
    for args in [
        &["frobnicate"][..],
        &["submit", "-N", "x", "--", "true"],
        &["submit"],
        &["submit", "-t", "5 m", "--", "true"],
        &["submit", "-N2", "-n1", "--", "true"],
        &["submit", "--urgency", "32", "--", "true"],
        &["job", "not-a-job"],
        &["cancel", "ƒ0"],
        &["urgency", "1", "32"],
        &["up", "--nodes", "0"],
        &["up", "--speed", "-1"],
        &["up", "--dialect", "klingon"],
        &["policy", "new", "Not A Name"],
        &["down", "--uri", "/nosuch", "--purge"],
        &["replay", "x.swf", "--json", "--csv", "-"],
        &["config"],
        &["install", "--prefix", ""],
        &["sched", "--uri", "x", "--limit", "0"],
    ] {
        let said = cli(args);
        assert_eq!(said.code, 2, "{args:?}: {said:?}");
        assert!(!said.err.is_empty() && !said.err.contains("panicked"), "{said:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for args in [&["completions", "zsh"][..], &["graph", "--help"]] {
        let mut command = fluxgate(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let said = child.wait_with_output().unwrap();
        assert!(said.status.success(), "{args:?}: {said:?}");
    }
}

#[test]
fn as_a_subcommand_of_flux_the_name_is_flux_gate() {
    let gate = |args: &[&str]| {
        let mut command = fluxgate(args);
        // Flux passes the bare word.
        std::os::unix::process::CommandExt::arg0(&mut command, "gate");
        run(command)
    };
    let help = gate(&["--help"]).ok();
    assert!(help.contains("Usage: flux gate") && !help.contains("embedded"), "{help}");
    gate(&["frobnicate"]).fails(2, &["flux gate"]);
    gate(&["up", "--detach"]).fails(1, &["flux gate: up", "flux start"]);
    gate(&["status", "--uri", "/nosuch"]).fails(1, &["flux gate: ", "/nosuch"]);
}

#[test]
fn files_that_are_not_what_they_should_be() {
    let dir = folder();
    let file = |name: &str, text: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let swf = "; MaxProcs: 4\n1 0 -1 10 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 -1 -1\n2 5 nonsense\n";
    let log = file("bad.swf", swf.as_bytes());
    let out = dir.path().join("s.csv");
    cli(&["replay", &log, "--policy", "fcfs", "--schedule", out.to_str().unwrap()])
        .fails(1, &["bad.swf", "3"]);
    assert!(!out.exists(), "nothing is written before the input is known to be good");
    let said = cli(&["replay", &log, "--policy", "fcfs", "--skip-bad", "--json"]).json();
    assert_eq!((&said["bad_lines"], &said["jobs"]), (&1.into(), &1.into()));

    let jobspec = file("bad.json", br#"{"version":1,"resources":[{"type":"slot","count":"3-1","label":"x","with":[{"type":"core","count":1}]}],"tasks":[{"command":["a"],"slot":"x","count":{"per_slot":1}}],"attributes":{"system":{"duration":1}}}"#);
    cli(&["submit", "--jobspec", &jobspec]).fails(1, &["bad.json", "resources[0].count"]);
    let half = file("half.yaml", b"version: 1\nresources: [\n");
    cli(&["submit", "--jobspec", &half]).fails(1, &["half.yaml"]);

    for (name, text) in [
        ("r.json", &br#"{"version":2,"execution":{"R_lite":[]}}"#[..]),
        ("r2.json", b"{"),
        ("m.toml", b"[[resource.config]]\nhosts = \"n[0-1]\"\ncorse = \"0-3\"\n"),
        ("g.json", br#"{"graph":{"nodes":[{"id":"0"}],"edges":[{"source":"0","target":"1"}]}}"#),
    ] {
        let path = file(name, text);
        cli(&["up", "--dir", dir.path().join("i").to_str().unwrap(), "--resources", &path]).fails(1, &[name]);
    }
}

#[test]
fn components_that_are_none_of_ours() {
    let dir = folder();
    let good = std::fs::read(policies().join("easy.wasm")).expect("run `cargo xtask policies`");
    let swf = dir.path().join("l.swf");
    std::fs::write(&swf, "; MaxProcs: 4\n1 0 -1 10 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 -1 -1\n").unwrap();
    for (name, bytes, words) in [
        ("truncated.wasm", &good[..good.len() / 2], &["truncated.wasm"][..]),
        ("text.wasm", b"hello", &["text.wasm"]),
        // A core module, not a component.
        ("core.wasm", b"\0asm\x01\0\0\0", &["core.wasm", "component"]),
        ("empty.wasm", b"", &["empty.wasm"]),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        cli(&["replay", swf.to_str().unwrap(), "--policy", path.to_str().unwrap()]).fails(1, words);
    }
    cli(&["replay", swf.to_str().unwrap(), "--policy", "nosuch"]).fails(1, &["nosuch", "easy"]);
    cli(&["replay", swf.to_str().unwrap(), "--config", "nosuch=1"]).fails(2, &["nosuch"]);
    cli(&["replay", swf.to_str().unwrap(), "--config", "depth=zero"]).fails(1, &["depth", "zero"]);
}

#[test]
fn a_running_instance_refuses_nonsense_and_goes_on() {
    let world = World::up(&["--nodes", "2", "--cores", "2", "--policy", "easy"]);
    world.cli(&["submit", "-n5", "--", "true"]).fails(1, &["Unsatisfiable request"]);
    world.cli(&["job", "ƒ23"]).fails(1, &["ƒ23"]);
    world.cli(&["cancel", "ƒ23"]).fails(1, &["ƒ23"]);
    world.cli(&["drain", "7", "no such rank"]).fails(1, &["7"]);
    world.cli(&["policy", "swap", "nosuch"]).fails(1, &["nosuch", "easy"]);
    world.cli(&["policy", "rollback"]).fails(1, &["no policy to go back to"]);
    let file = policies().join("easy.wasm");
    world
        .cli(&["policy", "load", file.to_str().unwrap(), "--config", "colour=blue"])
        .fails(1, &["colour", "depth"]);
    assert_eq!(world.cli(&["policy", "list", "--json"]).json()["active"], "easy");

    // Frames with a wrong magic, or larger than any frame: only the connection ends.
    for frame in [&b"\0\0\0\0\0\0\0\x10aaaaaaaaaaaaaaaa"[..], b"\x12\0\xee\xff\xff\xff\xff\xff"] {
        let mut socket = UnixStream::connect(world.dir.path().join("local-0")).unwrap();
        let mut byte = [1u8];
        socket.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [0], "we are the owner");
        socket.write_all(frame).unwrap();
        let mut rest = Vec::new();
        // Closed, one way or the other.
        let _ = socket.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
    world.cli(&["submit", "--simulate", "1s"]).ok();
    world.until("it still schedules", |w| w.jobs("inactive").len() == 1);
}

#[test]
fn sockets_that_are_missing_foreign_or_dead() {
    let dir = folder();
    let missing = dir.path().join("no");
    cli(&["jobs", "--uri", missing.to_str().unwrap()]).fails(1, &["no such socket"]);
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    cli(&["jobs", "--uri", file.to_str().unwrap()]).fails(1, &["not a socket"]);
    let dead = dir.path().join("dead");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    cli(&["jobs", "--uri", dead.to_str().unwrap()]).fails(1, &["nobody accepts"]);
    let open = dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    cli(&["up", "--dir", open.to_str().unwrap()]).fails(1, &["open to others", "700"]);
    if nix::unistd::geteuid().is_root() {
        let foreign = dir.path().join("foreign");
        std::fs::create_dir(&foreign).unwrap();
        nix::unistd::chown(&foreign, Some(nix::unistd::Uid::from_raw(12_345)), None).unwrap();
        cli(&["up", "--dir", foreign.to_str().unwrap()]).fails(1, &["belongs to user 12345"]);
    }
}
