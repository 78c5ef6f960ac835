//! The cases of the graph scheduler's own suite for `resource-query`, run in process.
//!
//! They are beside the project; without them the test is skipped. `resource_query_passing.txt` names the cases that
//! pass. The test fails if one of them fails, or if a case passes that is not named there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fluxgate_resource_query::{Options, Session, Stream, World};

struct Files;

impl World for Files {
    fn read(&mut self, path: &str) -> std::io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn seconds(&mut self) -> f64 {
        0.0
    }
}

#[derive(serde::Deserialize)]
struct Case {
    group: String,
    flags: String,
    commands: String,
    expected: String,
}

impl Case {
    fn name(&self) -> String {
        format!("{} {} {}", self.group, self.expected, self.flags)
    }

    /// The text of the session on the stream of results.
    fn play(&self, base: &Path) -> Result<String, String> {
        let mut options = Options::default();
        let mut graph = String::new();
        let mut words = self.flags.split_whitespace();
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| format!("{flag} without value"))?.to_owned();
            match flag {
                "-L" => graph = read(&base.join(value))?,
                "-f" => options.load_format = value,
                "-S" => options.subsystems = value,
                "-P" => options.policy = value,
                "-F" => options.match_format = value,
                "-T" => options.traverser = value,
                "-p" => options.prune = value,
                _ => return Err(format!("unknown flag {flag}")),
            }
        }
        let mut session = Session::new(&graph, &options).map_err(|e| e.to_string())?;
        let commands = read(&base.join(&self.commands))?;
        let commands = commands.replace("@TEST_SRCDIR@/data/resource", &base.display().to_string());
        let mut out = String::new();
        for line in commands.lines() {
            let said = session.obey(line, &mut Files);
            out += &said.text(Stream::Result);
            if said.quit {
                break;
            }
        }
        Ok(out)
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

#[test]
#[allow(clippy::print_stdout, reason = "the numbers are what the test is for")]
fn cases_of_the_graph_scheduler() {
    let Some(base) = fluxgate_testing::shared("data/fluxion") else { return };
    let cases: Vec<Case> = serde_json::from_str(&read(&base.join("cases.json")).unwrap()).unwrap();
    let only = std::env::var("CASE").ok();
    let mut groups: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut passing: BTreeSet<String> = BTreeSet::new();
    for case in cases.iter().filter(|c| only.as_ref().is_none_or(|only| c.name().contains(only))) {
        let said = case.play(&base);
        let expected = read(&base.join(&case.expected)).unwrap();
        let numbers = groups.entry(&case.group).or_default();
        match said {
            Ok(said) if said == expected => {
                numbers.0 += 1;
                passing.insert(case.name());
            }
            said => {
                numbers.1 += 1;
                println!("differs: {}", case.name());
                if only.is_some() {
                    println!("{}", said.unwrap_or_else(|e| e));
                }
            }
        }
    }
    for (group, (passed, failed)) in &groups {
        println!("{group}: {passed} passed, {failed} failed");
    }
    if only.is_some() {
        return;
    }
    let named = include_str!("resource_query_passing.txt").lines().filter(|l| !l.is_empty());
    let named: BTreeSet<String> = named.map(str::to_owned).collect();
    if std::env::var_os("BLESS").is_some() {
        let text: String = passing.iter().map(|name| format!("{name}\n")).collect();
        let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/resource_query_passing.txt");
        std::fs::write(to, text).unwrap();
        return;
    }
    let lost: Vec<_> = named.difference(&passing).collect();
    assert!(lost.is_empty(), "no longer as expected: {lost:#?}");
    let new: Vec<_> = passing.difference(&named).collect();
    assert!(new.is_empty(), "as expected now, but not named in resource_query_passing.txt: {new:#?}");
}
