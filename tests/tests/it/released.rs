//! Every released version of the contract: its text is frozen, and components built for it keep running.
//!
//! `released/` describes the components. They need nothing that is built here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fluxgate_engine::Policy;
use fluxgate_policy::{Config, Digest, Limits};
use fluxgate_sim::driver;
use fluxgate_sim::machine::Machine;
use fluxgate_sim::model::lublin99;
use fluxgate_sim::schedule::{Collect, Row};
use fluxgate_tests::fixture::{loader, root};
use fluxgate_tests::native_twin::NativeTwin;

/// Every released version with the digest of its folder. A line is added with a release and never changed.
const RELEASED: [(&str, &str); 1] =
    [("0.1.0", "sha256:5d6b162c893afc46896bcf8895c9661058c256b50e35b24cac0eac2e0dedd903")];

/// The file of a released contract, and the files of imports added since, which change nothing in it.
const CONTRACT: &str = "policy.wit";
const GAINED: [(&str, &[&str]); 1] =
    [("0.1.0", &["attributes.wit", "flow.wit", "groups.wit", "many.wit", "ranking.wit", "resources.wit"])];

fn names(folder: PathBuf) -> Vec<String> {
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_contract_of_a_release_never_changes() {
    let wit = root().join("wit");
    let folders: Vec<String> =
        names(wit.clone()).into_iter().filter(|name| wit.join(name).is_dir()).collect();
    assert_eq!(
        folders,
        RELEASED.map(|(version, _)| version),
        "a version is released with a line in RELEASED"
    );
    for (version, digest) in RELEASED {
        let gained = GAINED.iter().filter(|(of, _)| *of == version).flat_map(|(_, files)| files.iter());
        let mut files: Vec<&str> = gained.copied().chain([CONTRACT]).collect();
        files.sort_unstable();
        assert_eq!(names(wit.join(version)), files, "{version}");
        let text = std::fs::read(wit.join(version).join(CONTRACT)).unwrap();
        assert_eq!(
            Digest::of(&text).to_string(),
            digest,
            "wit/{version} is released: what changes goes into a new version"
        );
    }
    // An author's folder of a new policy has the newest of them.
    let (newest, _) = RELEASED[RELEASED.len() - 1];
    let given = std::fs::read(root().join("guest-sdk/wit").join(CONTRACT));
    let ours = std::fs::read(wit.join(newest).join(CONTRACT)).unwrap();
    assert!(given.is_err() || given.unwrap() == ours, "guest-sdk/wit is another contract");
}

/// The components of a release by name, after a check of their digests.
fn components(version: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = root().join("tests/released").join(version);
    let sums = std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let mut found = BTreeMap::new();
    for line in sums.lines() {
        let (sum, file) = line.split_once("  ").expect("as sha256sum prints it");
        let bytes = std::fs::read(folder.join(file)).unwrap();
        assert_eq!(Digest::of(&bytes).to_string(), format!("sha256:{sum}"), "{version}/{file} was replaced");
        found.insert(file.trim_end_matches(".wasm").to_owned(), bytes);
    }
    assert_eq!(names(folder).len(), found.len() + 1, "SHA256SUMS names them all");
    found
}

fn schedule(policy: Box<dyn Policy>) -> Vec<Row> {
    let machine = Machine::uniform(8, 16).unwrap();
    let mut rows = Collect::default();
    let jobs = lublin99(600, 128, 3);
    driver::run(jobs, machine.resources, driver::replay_config(), Some(policy), &mut [&mut rows]).unwrap();
    assert!(rows.rows.len() > 500, "most jobs run: {}", rows.rows.len());
    rows.rows
}

#[test]
fn a_component_of_the_first_release_decides_as_ever() {
    let loader = loader(Limits::default());
    let components = components("0.1.0");
    assert_eq!(components.keys().map(String::as_str).collect::<Vec<_>>(), ["broken", "easy", "sjf"]);
    let made = |name: &str| Box::new(loader.load(&components[name], &Config::new()).unwrap());
    let easy: Box<dyn Policy> = Box::new(NativeTwin::<policy_easy::Easy>::new(&[]).unwrap());
    assert!(schedule(made("easy")) == schedule(easy), "easy of 0.1.0 decides otherwise");
    let sjf: Box<dyn Policy> = Box::new(NativeTwin::<policy_sjf::Sjf>::new(&[]).unwrap());
    assert!(schedule(made("sjf")) == schedule(sjf), "sjf of 0.1.0 decides otherwise");
}

#[test]
fn components_of_every_release_pass_the_conformance_kit() {
    let loader = loader(Limits::default());
    for (version, _) in RELEASED {
        for (name, bytes) in components(version) {
            let report = fluxgate_conformance::check(&loader, &bytes, &Config::new());
            assert!(report.passed(), "{version}/{name}: {:#?}", report.failed().collect::<Vec<_>>());
        }
    }
}
