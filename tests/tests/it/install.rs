//! `fluxgate install` below a temporary prefix: the installed files work, conflicts are reported, and removal leaves
//! no file.

use std::path::Path;
use std::process::{Command, Stdio};

use fluxgate_testing::{Need, has};
use fluxgate_tests::fixture::{cli, folder, run};
use serde_json::Value;

fn install(prefix: &Path, more: &[&str]) -> Value {
    let mut args = vec!["install", "--json", "--prefix", prefix.to_str().unwrap()];
    args.extend(more);
    cli(&args).json()
}

fn actions(report: &Value) -> Vec<&str> {
    report["files"].as_array().unwrap().iter().filter_map(|f| f["action"].as_str()).collect()
}

#[test]
fn everything_is_installed_works_and_goes_again() {
    let dir = folder();
    let prefix = dir.path().join("p");
    let plan = install(&prefix, &["--dry-run"]);
    assert!(!prefix.exists(), "a dry run changes nothing");
    let report = install(&prefix, &[]);
    assert_eq!(report["files"], plan["files"]);
    assert!(actions(&report).iter().all(|action| *action == "wrote"));
    for path in [
        "bin/fluxgate",
        "bin/flux-gate",
        "lib/fluxgate/policies/easy.wasm",
        "lib/fluxgate/sched-fluxgate.py",
        "share/man/man1/fluxgate.1",
        "share/man/man1/flux-gate.1",
        "share/bash-completion/completions/fluxgate",
        "share/zsh/site-functions/_fluxgate",
        "share/fish/vendor_completions.d/fluxgate.fish",
        "share/doc/fluxgate/sched-fluxgate.toml",
        "share/fluxgate/alerts.yml",
        "share/fluxgate/grafana.json",
        "lib/systemd/system/fluxgate-sched.service",
        "etc/flux/modprobe/modprobe.d/fluxgate.toml",
        "etc/flux/modprobe/rc1.d/fluxgate.py",
    ] {
        assert!(prefix.join(path).is_file(), "{path}");
        let named = |file: &Value| file["path"] == prefix.join(path).to_str().unwrap();
        assert!(report["files"].as_array().unwrap().iter().any(named), "{path}");
    }
    assert!(!prefix.join("lib/fluxgate/policies/broken.wasm").exists(), "it is for tests");
    // The installed program finds its policies.
    let mut command = Command::new(prefix.join("bin/fluxgate"));
    let log = prefix.join("l.swf");
    std::fs::write(&log, "; MaxProcs: 4\n1 0 -1 10 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 -1 -1\n").unwrap();
    command.args(["replay", "--json", "--policy", "sjf"]).arg(&log).env_remove("FLUXGATE_POLICIES");
    command.env("XDG_CACHE_HOME", dir.path());
    assert_eq!(run(command).json()["jobs"], 1);
    std::fs::remove_file(log).unwrap();
    // The example is valid without a change.
    let example = prefix.join("share/doc/fluxgate/sched-fluxgate.toml");
    cli(&["config", "check", "--file", example.to_str().unwrap()]).ok();

    if has(Need::Program, "python3") {
        for file in ["lib/fluxgate/sched-fluxgate.py", "etc/flux/modprobe/rc1.d/fluxgate.py"] {
            let mut command = Command::new("python3");
            command.args(["-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())"]);
            command.arg(prefix.join(file));
            run(command).ok();
        }
    }
    if has(Need::Program, "systemd-analyze") {
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no"]).arg(prefix.join("lib/systemd/system/fluxgate-sched.service"));
        let said = run(command);
        // The check names directives that it does not know, and may find no flux.service on this machine.
        assert!(!said.err.contains("Unknown") && !said.err.contains("Failed to parse"), "{said:?}");
        // The exposure that the service manager computes is at most 2.0 of 10; before version 250 it cannot tell.
        let mut help = Command::new("systemd-analyze");
        help.arg("--help");
        if run(help).ok().contains("--offline") {
            let mut command = Command::new("systemd-analyze");
            command.args(["security", "--offline=yes", "--threshold=20"]);
            command.arg(prefix.join("lib/systemd/system/fluxgate-sched.service"));
            run(command).ok();
        }
    }

    assert!(actions(&install(&prefix, &[])).iter().all(|action| *action == "unchanged"));
    let unit = prefix.join("lib/systemd/system/fluxgate-sched.service");
    std::fs::write(&unit, "# mine\n").unwrap();
    assert_eq!(actions(&install(&prefix, &[])).iter().filter(|a| **a == "kept").count(), 1);
    install(&prefix, &["--uninstall", "--dry-run"]);
    assert!(prefix.join("bin/fluxgate").exists());
    install(&prefix, &["--uninstall"]);
    assert_eq!(std::fs::read_to_string(&unit).unwrap(), "# mine\n");
    assert!(!prefix.join("bin").exists() && !prefix.join("share").exists() && !prefix.join("etc").exists());
}

#[test]
fn beside_a_flux_its_own_places_are_taken() {
    let dir = folder();
    let prefix = dir.path();
    for place in ["libexec/flux/cmd", "lib/flux/modules"] {
        std::fs::create_dir_all(prefix.join(place)).unwrap();
    }
    install(prefix, &[]);
    let command = prefix.join("libexec/flux/cmd/flux-gate");
    assert_eq!(command.canonicalize().unwrap(), prefix.join("bin/fluxgate").canonicalize().unwrap());
    assert!(!prefix.join("bin/flux-gate").exists());
    assert!(prefix.join("share/flux/help.d/fluxgate.json").exists());
    let shim = prefix.join("lib/flux/modules/sched-fluxgate.py");
    let drop_in = std::fs::read_to_string(prefix.join("etc/flux/modprobe/modprobe.d/fluxgate.toml")).unwrap();
    assert!(shim.exists() && drop_in.contains(shim.to_str().unwrap()), "{drop_in}");
    install(prefix, &["--uninstall"]);
    assert!(prefix.join("libexec/flux/cmd").exists() && !shim.exists());
}

#[test]
fn what_is_in_the_way_is_told_and_nothing_is_half_done() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("file"), "x").unwrap();
    cli(&["install"]).fails(2, &["--prefix"]);
    cli(&["install", "--prefix", &path("with blank")]).fails(2, &["--prefix", "without blanks"]);
    cli(&["install", "--prefix", &path("a\"b")]).fails(2, &["--prefix"]);
    cli(&["install", "--prefix", &path("p"), "--sysconfdir", "e$c"]).fails(2, &["--sysconfdir"]);
    cli(&["install", "--prefix", &path("file")]).fails(1, &["file", "not a folder"]);
    // No user can write there, not even root.
    cli(&["install", "--prefix", "/proc/fluxgate"]).fails(1, &["/proc/fluxgate", "--prefix"]);
    cli(&["install", "--prefix", &path("p"), "--policies", &path("nosuch")]).fails(1, &["nosuch"]);
    cli(&["install", "--prefix", &path("p"), "--uninstall"])
        .fails(1, &["nothing is installed", "manifest.json"]);
    assert!(!Path::new(&path("p")).exists());

    // Another user's file, and a folder in place of a file.
    std::fs::create_dir_all(path("q/bin")).unwrap();
    std::fs::write(path("q/bin/fluxgate"), "another's").unwrap();
    cli(&["install", "--prefix", &path("q")]).fails(1, &["q/bin/fluxgate", "not ours"]);
    std::fs::remove_file(path("q/bin/fluxgate")).unwrap();
    std::fs::create_dir(path("q/bin/fluxgate")).unwrap();
    cli(&["install", "--prefix", &path("q")]).fails(1, &["q/bin/fluxgate", "no file"]);
    assert_eq!(std::fs::read_dir(path("q")).unwrap().count(), 1);

    // A manifest that would remove foreign files.
    std::fs::create_dir_all(path("r/lib/fluxgate")).unwrap();
    let other = path("file");
    let manifest = format!(r#"{{"version":"1","files":{{"{other}":{{"digest":""}}}},"folders":[]}}"#);
    std::fs::write(path("r/lib/fluxgate/manifest.json"), manifest).unwrap();
    cli(&["install", "--prefix", &path("r"), "--uninstall"]).fails(1, &["manifest.json", &other]);
    assert!(Path::new(&other).exists());
}

/// Runs a script in a real Flux that finds the installed drop-in; `None` without flux.
fn in_flux(prefix: &Path, config: &str, script: &str) -> Option<fluxgate_tests::fixture::Said> {
    if !has(Need::Flux, "flux") {
        return None;
    }
    let file = prefix.join("flux.toml");
    std::fs::write(&file, config).unwrap();
    let path = format!("{}:{}", prefix.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("flux");
    command
        .args(["start", "-s1"])
        .arg(format!("--config-path={}", file.display()))
        .args(["bash", "-ec", script]);
    command.env("FLUX_MODPROBE_PATH_APPEND", prefix.join("etc/flux/modprobe")).env("PATH", path);
    command.env("CONFIG", &file).env("PREFIX", prefix).env_remove("FLUX_URI").env_remove("FLUXGATE_POLICIES");
    command.stdin(Stdio::null());
    Some(run(command))
}

#[test]
fn a_real_flux_loads_what_was_installed_reloads_and_falls_back() {
    let dir = folder();
    let prefix = dir.path().join("p");
    install(&prefix, &[]);
    let table = "[sched-fluxgate]\npolicy = \"fcfs\"\nqueue-depth = 16\n";
    let script = r#"
        flux module list | grep -q 'sched-fluxgate.*feasibility,sched'
        flux run true
        flux gate status | grep -q 'policy *fcfs'
        flux gate policy swap easy
        sed -i 's/fcfs/sjf/; s/16/8/' $CONFIG
        flux config reload
        flux gate status | grep -q 'policy *sjf'
        flux gate status | grep -q 'queue-depth stays 16'
        echo 'polcy = 1' >>$CONFIG
        ! flux config reload 2>$CONFIG.err
        grep -q polcy $CONFIG.err
        flux gate config show --json | grep -q '"sjf"'
        ! flux gate submit -- true 2>$CONFIG.err
        grep -q 'flux submit' $CONFIG.err
        ! flux gate down 2>$CONFIG.err
        grep -q 'flux shutdown' $CONFIG.err
        flux run true
        echo all of it
    "#;
    let Some(said) = in_flux(&prefix, table, script) else { return };
    assert!(said.code == 0 && said.out.contains("all of it"), "{said:?}");

    // An invalid setting prevents the start of the instance, and is named.
    let Some(said) = in_flux(&prefix, "[sched-fluxgate]\npolcy = 1\n", "true") else { return };
    assert!(said.code != 0 && said.err.contains("[sched-fluxgate] polcy: unknown key"), "{said:?}");

    // Without the program, the scheduler of the next lower priority is loaded: the graph scheduler, where it is
    // installed, with the module that it requires.
    std::fs::remove_file(prefix.join("bin/fluxgate")).unwrap();
    let script = "flux module list | grep '[ ,]sched$'; flux run true";
    let Some(said) = in_flux(&prefix, table, script) else { return };
    let next = ["sched-simple", "sched-fluxion-qmanager"];
    assert!(said.code == 0 && next.iter().any(|name| said.out.starts_with(name)), "{said:?}");
    assert!(said.err.contains("another scheduler is loaded"), "{said:?}");
}
