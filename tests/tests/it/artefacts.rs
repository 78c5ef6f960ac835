//! Components as artefacts: manifest, signature, installation, required signatures, and the audit trail. Needs `cargo
//! xtask policies`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fluxgate_tests::fixture::{Said, World, fluxgate, folder, policies, run};
use serde_json::{Value, json};

/// A folder with a component, a description of it, and a state of its own.
struct Site {
    dir: tempfile::TempDir,
}

const SOURCE: &str = r#"
name = "sjf"
author = "A. Author <author@example.org>"
license = "Apache-2.0"
[needs]
memory-bytes = 4194304
"#;

impl Site {
    fn new() -> Site {
        let dir = folder();
        fs::copy(policies().join("sjf.wasm"), dir.path().join("sjf.wasm"))
            .expect("run `cargo xtask policies`");
        fs::write(dir.path().join("sjf.toml"), SOURCE).unwrap();
        fs::create_dir(dir.path().join("policies")).unwrap();
        fs::create_dir(dir.path().join("keys")).unwrap();
        fs::set_permissions(dir.path().join("keys"), fs::Permissions::from_mode(0o755)).unwrap();
        Site { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// The binary with this site's folders of policies and of state.
    fn cli(&self, args: &[&str]) -> Said {
        let mut command = fluxgate(args);
        command.env("FLUXGATE_POLICIES", self.path("policies")).env("XDG_STATE_HOME", self.path("state"));
        command.env_remove("FLUXGATE_KEY_PASSWORD");
        run(command)
    }

    fn seal(&self) {
        self.cli(&["policy", "seal", &self.path("sjf.wasm"), "--manifest", &self.path("sjf.toml")]).ok();
    }

    /// Makes a pair of keys of this name, of which the public one is trusted.
    fn key(&self, name: &str) -> PathBuf {
        let path = self.path(&format!("keys/{name}"));
        self.cli(&["policy", "generate-key", &path]).ok();
        Path::new(&path).with_extension("key")
    }

    fn sign(&self, key: &Path) {
        self.cli(&["policy", "sign", &self.path("sjf.wasm"), "--key", key.to_str().unwrap()]).ok();
    }

    fn digest(&self) -> String {
        let said = self.cli(&["policy", "verify", &self.path("sjf.wasm"), "--json"]).json();
        said["digest"].as_str().unwrap().to_owned()
    }
}

#[test]
fn sealed_signed_and_verified() {
    let site = Site::new();
    let file = site.path("sjf.wasm");
    let before = site.digest();
    site.seal();
    let sealed = site.digest();
    assert_ne!(before, sealed);
    let said = site.cli(&["policy", "verify", &file, "--json"]).json();
    let manifest = &said["manifest"];
    assert_eq!(
        (&manifest["name"], &manifest["wit"], &manifest["abilities"], &manifest["license"]),
        (&json!("sjf"), &json!("0.1.0"), &json!(["ordering"]), &json!("Apache-2.0"))
    );
    assert_eq!(manifest["needs"]["limits"], json!({"memory-bytes": 4_194_304}));
    site.seal();
    assert_eq!(site.digest(), sealed, "sealed anew it is the same");
    assert_eq!(site.cli(&["policy", "check", &file, "--json"]).json()["passed"], true);

    let alice = site.key("alice");
    site.cli(&["policy", "verify", &file, "--keys", &site.path("keys")]).fails(1, &["sjf.wasm.minisig"]);
    site.sign(&alice);
    let said = site.cli(&["policy", "verify", &file, "--keys", &site.path("keys"), "--json"]).json();
    assert_eq!(said["signed"]["key"], "alice");
    site.key("bob");
    site.cli(&["policy", "verify", &file, "--key", &site.path("keys/bob.pub")])
        .fails(1, &["is not trusted", "(bob)"]);
    fs::write(&file, [fs::read(&file).unwrap(), vec![0, 2, 1, b'x']].concat()).unwrap();
    site.cli(&["policy", "verify", &file, "--keys", &site.path("keys")])
        .fails(1, &["is not of this component: it was changed after it was signed"]);
}

#[test]
fn what_cannot_be_sealed_is_named() {
    let site = Site::new();
    let file = site.path("sjf.wasm");
    for (toml, words) in [
        ("name = \"sjf\"\nauthor = \"x\"", ["sjf.toml", "license is missing"]),
        ("name = \"ljf\"\nauthor = \"x\"\nlicense = \"y\"", ["name is \"ljf\"", "calls itself \"sjf\""]),
        (
            "name = \"sjf\"\nversion = \"99\"\nauthor = \"x\"\nlicense = \"y\"",
            ["version is \"99\"", "the component says"],
        ),
        ("name = \"sjf\"\nauthor = \"x\"\nlicence = \"y\"", ["sjf.toml", "unknown field `licence`"]),
        (
            "name = \"sjf\"\nauthor = \"x\"\nlicense = \"y\"\n[needs]\nmemory-bytes = 99999999999999",
            ["needs.limits.memory-bytes", "this host grants 268435456"],
        ),
        (
            "name = \"sjf\"\nauthor = \"x\"\nlicense = \"y\"\n[needs]\npatience = 1",
            ["patience", "no limit of this host"],
        ),
    ] {
        let before = site.digest();
        fs::write(site.path("sjf.toml"), toml).unwrap();
        site.cli(&["policy", "seal", &file, "--manifest", &site.path("sjf.toml")]).fails(1, &words);
        assert_eq!(site.digest(), before, "{toml}: nothing was written");
    }
}

#[test]
fn installed_listed_removed_and_on_record() {
    let site = Site::new();
    site.seal();
    site.sign(&site.key("alice"));
    let (file, digest) = (site.path("sjf.wasm"), site.digest());
    site.cli(&["policy", "install", &format!("{file}@sha256:{}", "0".repeat(64))])
        .fails(1, &["nothing was installed", &digest]);
    assert_eq!(fs::read_dir(site.path("policies")).unwrap().count(), 0);
    // A component that fails the conformance kit is not installed.
    let mut broken = fs::read(policies().join("broken.wasm")).unwrap();
    broken.truncate(broken.len() / 2);
    fs::write(site.path("broken.wasm"), broken).unwrap();
    site.cli(&["policy", "install", &site.path("broken.wasm")]).fails(1, &["broken.wasm", "truncated"]);

    site.cli(&["policy", "install", &format!("{file}@{digest}")]).ok();
    let list = site.cli(&["policy", "list", "--all", "--json"]).json();
    let entry = &list["policies"][0];
    assert_eq!(
        (&entry["name"], &entry["digest"], &entry["signed"], &entry["manifest"]["license"]),
        (&json!("sjf"), &json!(digest), &json!(true), &json!("Apache-2.0"))
    );
    assert!(site.cli(&["policy", "list", "--all"]).ok().contains("A. Author"));
    site.cli(&["policy", "check", &format!("sjf@{digest}")]).ok();
    site.cli(&["policy", "bench", &format!("sjf@sha256:{}", "0".repeat(64))])
        .fails(1, &["is pinned to", &digest]);
    site.cli(&["policy", "remove", "sjf"]).ok();
    site.cli(&["policy", "remove", "sjf"]).fails(1, &["no policy \"sjf\""]);
    assert_eq!(fs::read_dir(site.path("policies")).unwrap().count(), 0);

    let trail = site.cli(&["policy", "audit", "--json"]).json();
    let lines: Vec<(&Value, &Value, &Value)> =
        trail.as_array().unwrap().iter().map(|e| (&e["what"], &e["policy"], &e["digest"])).collect();
    let (sjf, digest) = (json!("sjf"), json!(digest));
    assert_eq!(lines, [(&json!("install"), &sjf, &digest), (&json!("remove"), &sjf, &digest)]);
    assert_eq!(trail[0]["uid"], nix::unistd::getuid().as_raw());
    assert!(site.cli(&["policy", "audit"]).ok().contains("install"));
}

/// The component with another version in its description: that of the contract stands behind an `@`.
fn with_version(bytes: &[u8], version: &[u8; 5]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    let at = |at: &usize| changed[*at..].starts_with(b"0.1.0") && changed[at - 1] != b'@';
    let places: Vec<usize> = (1..bytes.len() - 5).filter(at).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| changed[at..at + 5].copy_from_slice(version));
    changed
}

#[test]
fn a_good_signature_of_an_old_version_is_no_upgrade() {
    let site = Site::new();
    let (new, old) = (site.path("sjf.wasm"), site.path("old.wasm"));
    fs::write(&old, with_version(&fs::read(&new).unwrap(), b"0.0.9")).unwrap();
    site.cli(&["policy", "install", &new]).ok();
    site.cli(&["policy", "install", &old])
        .fails(1, &["old.wasm", "is sjf 0.0.9, and sjf 0.1.0 is installed", "--downgrade"]);
    let version =
        || site.cli(&["policy", "list", "--all", "--json"]).json()["policies"][0]["version"].clone();
    assert_eq!(version(), "0.1.0");
    site.cli(&["policy", "install", "--downgrade", &old]).ok();
    assert_eq!(version(), "0.0.9");
    site.cli(&["policy", "install", &new]).ok();
    assert_eq!(version(), "0.1.0");
}

#[test]
fn a_folder_that_every_user_may_write_is_no_folder_of_policies() {
    let site = Site::new();
    fs::set_permissions(site.path("policies"), fs::Permissions::from_mode(0o777)).unwrap();
    let settings = format!("policies={}", site.path("policies"));
    let world = World::up(&["--nodes", "1", "--cores", "1", "--no-sched"]);
    site.cli(&["sched", "--uri", &world.uri(), &settings])
        .fails(1, &["has mode 0777", "every user can put a policy there", "chmod o-w"]);
}

#[test]
fn a_folder_is_built_sealed_and_tested() {
    let site = Site::new();
    let source = format!(
        "build = \"cp sjf.wasm $OUT/sjf.wasm\"\ntest = \"test -f sjf.toml\"\nlanguage = \"c\"\n{SOURCE}"
    );
    fs::write(site.path("fluxgate-policy.toml"), &source).unwrap();
    let out = site.path("out");
    let said = site.cli(&["policy", "build", &site.path(""), "--out", &out, "--json"]).json();
    assert_eq!((&said["name"], &said["sealed"]), (&"sjf".into(), &true.into()));
    let built = site.path("out/sjf.wasm");
    let said = site.cli(&["policy", "verify", &built, "--json"]).json();
    assert_eq!(said["manifest"]["author"], "A. Author <author@example.org>");
    let said = site.cli(&["policy", "test", &site.path(""), "--out", &out]).ok();
    assert!(said.contains("large-ids") && said.contains("UTILISATION"), "{said}");
    let said = site.cli(&["policy", "bench", &built, "--json"]).json();
    assert_eq!(said["worlds"].as_array().map(Vec::len), Some(3));
    assert!(site.cli(&["policy", "bench", &built]).ok().contains("ordering.keys"));

    let failing = source.replace("cp sjf.wasm", "false #");
    fs::write(site.path("fluxgate-policy.toml"), failing).unwrap();
    site.cli(&["policy", "build", &site.path("")]).fails(1, &["`build` of", "failed"]);
    fs::write(site.path("fluxgate-policy.toml"), source.replace("cp sjf.wasm $OUT/", "true ")).unwrap();
    site.cli(&["policy", "build", &site.path("")]).fails(1, &["left no", "sjf.wasm"]);
    site.cli(&["policy", "build", &site.path("keys")]).fails(1, &["fluxgate-policy.toml"]);
}

#[test]
fn a_scheduler_loads_only_what_the_site_allows() {
    let site = Site::new();
    let world = World::up(&["--nodes", "1", "--cores", "2", "--policy", "builtin-fcfs"]);
    let load = |world: &World| world.cli(&["policy", "load", &site.path("sjf.wasm")]);
    let settings = |lines: &str| {
        let (path, trail) = (site.path("flux.toml"), site.path("trail"));
        fs::write(&path, format!("[sched-fluxgate]\naudit-trail = \"{trail}\"\n{lines}\n")).unwrap();
        world.cli(&["config", "reload", "--file", &path])
    };
    settings("require-manifest = true").ok();
    load(&world).fails(1, &["sjf.wasm", "has no manifest", "fluxgate policy seal"]);
    site.seal();
    load(&world).ok();

    let keys = site.path("keys");
    settings("require-signature = true").ok();
    load(&world).fails(1, &["trusted-keys names no folder"]);
    settings(&format!("require-signature = true\ntrusted-keys = \"{keys}\"")).ok();
    load(&world).fails(1, &["sjf.wasm.minisig"]);
    let alice = site.key("alice");
    site.sign(&alice);
    load(&world).ok();
    world.cli(&["policy", "swap", "sjf"]).ok();
    world.cli(&["policy", "rollback"]).ok();
    world.cli(&["policy", "swap", "missing"]).fails(1, &["no policy \"missing\" is loaded"]);
    world.cli(&["policy", "swap", "sjf", "--config", "deep=3"]).fails(1, &["deep"]);
    world.cli(&["policy", "shadow", "sjf"]).ok();
    world.cli(&["policy", "promote", "sjf"]).fails(1, &["promote-passes-min"]);
    world.cli(&["policy", "promote", "sjf", "--force"]).ok();
    // A removed key is no longer trusted.
    fs::remove_file(site.path("keys/alice.pub")).unwrap();
    load(&world).fails(1, &["is not trusted; trusted are none"]);

    let trail = site.cli(&["policy", "audit", "--file", &site.path("trail"), "--json"]).json();
    let lines: Vec<String> = trail
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["what"] != "configure" && (e["what"] != "swap" || e["policy"] != "builtin-fcfs"))
        .map(|e| format!("{} {}", e["what"].as_str().unwrap(), e["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(
        lines,
        [
            "load refused",
            "load done",
            "load refused",
            "load refused",
            "load done",
            "swap done",
            "rollback done",
            "swap refused",
            "swap refused",
            "shadow done",
            "promote refused",
            "promote done",
            "load refused"
        ],
        "{trail:#}"
    );
    let rule =
        trail.as_array().unwrap().iter().find(|e| e["changed"]["require-signature"]["to"] == true).unwrap();
    assert_eq!((&rule["what"], &rule["uid"]), (&json!("configure"), &json!(nix::unistd::getuid().as_raw())));
    let refused = trail.as_array().unwrap().iter().find(|e| e["policy"] == "missing").unwrap();
    assert!(refused["reason"].as_str().unwrap().contains("no policy \"missing\" is loaded"), "{refused}");
    assert_eq!(refused["uid"], nix::unistd::getuid().as_raw());
    let swap =
        trail.as_array().unwrap().iter().find(|e| e["what"] == "swap" && e["policy"] == "sjf").unwrap();
    assert_eq!(swap["uid"], nix::unistd::getuid().as_raw());
    assert!(swap["signed"].as_str().unwrap().ends_with("(alice)"), "{swap}");
    assert_eq!(swap["digest"], site.digest());
    world.assert_clean();
}
