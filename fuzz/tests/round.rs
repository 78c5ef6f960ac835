//! One short round of every target: the whole corpus, and mutations of it that are the same in every run.
//!
//! An input that panics is made as small as possible and saved below `target/fuzz`.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fluxgate_fuzz::{TARGETS, Target};
use fluxgate_testing::root;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};

/// Mutated inputs a target.
const CASES: u32 = 10_000;
/// Of the targets that take about a millisecond for an input.
const CASES_OF_SLOW: u32 = 400;
const SLOW: [&str; 4] = ["component", "control", "oci", "session"];

/// One change of an input, at a place in it.
#[derive(Debug, Clone)]
enum Edit {
    Put(u8),
    Insert(Vec<u8>),
    Remove(usize),
    /// Repeat the next bytes this many times.
    Repeat(usize, usize),
    /// A number at its bounds, in digits.
    Number(i64),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        any::<u8>().prop_map(Edit::Put),
        prop::sample::select(br#"{}[]()<>:;,."'-+*/=&|^~ 0919eE\#"#.to_vec()).prop_map(Edit::Put),
        vec(any::<u8>(), 1..8).prop_map(Edit::Insert),
        (1..64_usize).prop_map(Edit::Remove),
        (1..64_usize, 1..40_usize).prop_map(|(length, times)| Edit::Repeat(length, times)),
        prop::sample::select(vec![0, -1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 53, i64::MAX, i64::MIN])
            .prop_map(Edit::Number),
    ]
}

fn mutate(input: &[u8], edits: &[(Index, Edit)]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for (place, edit) in edits {
        let at = place.index(bytes.len() + 1);
        let rest = bytes.len() - at;
        match edit {
            Edit::Put(byte) if rest > 0 => bytes[at] = *byte,
            Edit::Put(byte) => bytes.push(*byte),
            Edit::Insert(more) => drop(bytes.splice(at..at, more.iter().copied())),
            Edit::Remove(length) => drop(bytes.drain(at..at + rest.min(*length))),
            Edit::Repeat(length, times) => {
                let part = bytes[at..at + rest.min(*length)].repeat(*times);
                drop(bytes.splice(at..at, part));
            }
            Edit::Number(number) => drop(bytes.splice(at..at, number.to_string().into_bytes())),
        }
    }
    bytes
}

/// The files of a target's corpus, by name.
fn corpus(name: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = root().join("fuzz/corpus").join(name);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let file = |entry: fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).unwrap())
    };
    files.map(|entry| file(entry.unwrap())).collect()
}

/// Does the target take this input?
fn takes(target: Target, input: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| target(input))).is_ok()
}

fn round(name: &str) {
    let (_, target) = *TARGETS.iter().find(|(known, _)| *known == name).expect("a target");
    let corpus = corpus(name);
    for (file, input) in &corpus {
        assert!(takes(target, input), "{name}: panics on fuzz/corpus/{name}/{file}");
    }
    let seeds: Vec<&Vec<u8>> = corpus.values().collect();
    assert!(!seeds.is_empty(), "{name} has no corpus");
    let cases = if SLOW.contains(&name) { CASES_OF_SLOW } else { CASES };
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let inputs = (any::<Index>(), vec((any::<Index>(), edit()), 1..8));
    let made = |(seed, edits): &(Index, Vec<(Index, Edit)>)| mutate(seeds[seed.index(seeds.len())], edits);
    let found = runner.run(&inputs, |input| {
        if takes(target, &made(&input)) { Ok(()) } else { Err(TestCaseError::fail("it panics")) }
    });
    if let Err(TestError::Fail(_, input)) = found {
        let file = root().join("target/fuzz").join(format!("crash-{name}"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, made(&input)).unwrap();
        let file = file.display();
        panic!("{name} panics on {file}; `cargo xtask fuzz {name} --input {file}` repeats it");
    }
}

macro_rules! rounds {
    ($($name:ident)*) => {
        $(#[test] fn $name() { round(stringify!($name)); })*

        #[test]
        fn no_target_is_left_out() {
            assert_eq!(TARGETS.map(|(name, _)| name), [$(stringify!($name)),*]);
        }
    };
}

rounds! {
    accounting checkpoint compiled component constraint control eventlog experiment expression flow fluid frame fsd grug hostlist hwloc idset jgf jobspec_json jobspec_yaml journal
    model_jgf oci query rset session settings shorthand simulators site swf toml web welcome
}
