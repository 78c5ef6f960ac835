//! `cargo xtask policies` for a user.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use fluxgate_testing::{Need, skipped};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).arg("policies").args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A new policy's folder, as `fluxgate policy new` makes it, with our lock file, so that the test needs no network.
fn new_policy(folder: &Path, name: &str) {
    for (path, contents) in fluxgate_guest::scaffold::files(name).unwrap() {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    fs::copy(lock, folder.join("Cargo.lock")).unwrap();
}

#[test]
fn same_source_same_bytes_in_another_folder() {
    let output = xtask(&["--check-reproducible"]);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    for name in fluxgate_testing::SHIPPED {
        let line = text.lines().find(|line| line.starts_with(&format!("reproducible: {name} ")));
        assert!(line.is_some_and(|line| line.ends_with(" same")), "{text}");
    }
}

#[test]
fn a_new_policy_tests_and_builds_in_a_plain_folder() {
    // The same folder each time, so that cargo's files for it do not accumulate.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-policy");
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    let mine = folder.join("mine");
    new_policy(&mine, "night-owl");

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tested = Command::new(cargo)
        .args(["test", "--target-dir"])
        .arg(folder.join("target"))
        .current_dir(&mine)
        .output()
        .unwrap();
    assert!(tested.status.success(), "{}", text(&tested));
    assert!(text(&tested).contains("2 passed"), "{}", text(&tested));

    let (mine, out) = (mine.to_str().unwrap(), folder.join("out"));
    let built = xtask(&[mine, "--out", out.to_str().unwrap()]);
    assert!(built.status.success(), "{}", text(&built));
    assert!(
        text(&built).contains("night-owl") && text(&built).contains("policy, ordering"),
        "{}",
        text(&built)
    );
    assert!(out.join("night-owl.wasm").is_file());

    let again = xtask(&[mine, "--out", out.to_str().unwrap()]);
    assert!(text(&again).contains("0 built, 1 unchanged"), "{}", text(&again));

    // A change of any file is detected.
    let source = Path::new(mine).join("sdk/src/lib.rs");
    fs::write(&source, fs::read_to_string(&source).unwrap() + "\n").unwrap();
    let changed = xtask(&[mine, "--out", out.to_str().unwrap()]);
    assert!(text(&changed).contains("1 built, 0 unchanged"), "{}", text(&changed));
}

/// Only with tools that are fetched already; this test fetches nothing.
#[test]
fn a_new_policy_in_every_language_tests_and_builds() {
    use fluxgate_languages::scaffold::{self, Language};

    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for language in Language::ALL.into_iter().filter(|language| *language != Language::Rust) {
        let name = language.name();
        // C++ has the compiler of C; TypeScript has the component tools of JavaScript beside its own.
        let rooms = match language {
            Language::Cpp => vec!["c"],
            Language::Ts => vec!["js", "ts"],
            _ => vec![name],
        };
        let is_fetched = |room: &&str| target.join("toolchains").join(room).join("complete").is_file();
        if !rooms.iter().all(is_fetched) {
            let how = format!("no toolchain for {name}; `cargo xtask policies --lang {name}` fetches it");
            skipped(Need::Languages, how);
            continue;
        }
        // Its test is a program for this machine.
        if language == Language::Cpp && Command::new("c++").arg("--version").output().is_err() {
            skipped(Need::Languages, "no c++ for the test of a policy in C++; Debian's g++ has it");
            continue;
        }
        let mine = folder.path().join(name);
        for (path, contents) in scaffold::files(language, &format!("night-owl-{name}")).unwrap() {
            let path = mine.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        let out = folder.path().join("out");
        let built = xtask(&[mine.to_str().unwrap(), "--test", "--out", out.to_str().unwrap()]);
        assert!(built.status.success(), "{name}: {}", text(&built));
        assert!(text(&built).contains("its tests pass"), "{name}: {}", text(&built));
        assert!(text(&built).contains("policy, ordering"), "{name}: {}", text(&built));
        assert!(out.join(format!("night-owl-{name}.wasm")).is_file());
    }
}

#[test]
fn an_unknown_language_is_refused() {
    let output = xtask(&["--lang", "rust,cobol"]);
    assert!(!output.status.success());
    assert!(
        text(&output).contains("accepted are rust, c, cpp, go, js, ts, python and all"),
        "{}",
        text(&output)
    );
}

#[test]
fn what_is_no_policy_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let output = xtask(&[path]);
    assert!(!output.status.success());
    assert!(text(&output).contains("is not a policy's folder"), "{}", text(&output));

    let manifest = "[package]\nname = \"x\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/lib.rs"), "").unwrap();
    let output = xtask(&[path]);
    assert!(!output.status.success());
    assert!(text(&output).contains("crate-type = [\"cdylib\", \"rlib\"]"), "{}", text(&output));
}
