//! Experiments: accepted texts, their replays, and which results are taken.

use std::collections::BTreeSet;

use super::plan::{Replay, fingerprint};
use super::results::{Figures, Results, key};
use super::*;

const TEXT: &str = "policies = [\"hybrid\", \"easy\"]\nseeds = [1, 2]\n[space]\ndepth = [1, 4]\nhard = [true, \"no\", 0.5]\n\
     [[part]]\nname = \"made\"\nmodel = \"lublin99\"\ncount = 300\ncores = 32\nload = 2.0\n";

fn of(from: &str, to: &str) -> Result<Experiment, String> {
    Experiment::parse(&TEXT.replace(from, to))
}

#[test]
fn res_33_every_combination_is_a_replay() {
    let experiment = of("", "").unwrap();
    let all = experiment.combinations();
    assert_eq!(all.len(), 6);
    let text =
        |settings: &Settings| settings.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(",");
    let texts: Vec<String> = all.iter().map(text).collect();
    assert_eq!(texts[..4], ["depth=1,hard=true", "depth=1,hard=no", "depth=1,hard=0.5", "depth=4,hard=true"]);
    let replays = experiment.replays();
    assert_eq!(replays.len(), 2 * 6 * 2);
    assert_eq!(replays[1], Replay { policy: 0, settings: all[0].clone(), part: 0, seed: 2 });
    assert_eq!(replays.last().unwrap().policy, 1);
    // A design is drawn with the first seed: different combinations, the same each time.
    let drawn = of("[space]", "samples = 4\n[space]").unwrap().combinations();
    assert_eq!(drawn, of("[space]", "samples = 4\n[space]").unwrap().combinations());
    assert_eq!(drawn.iter().map(text).collect::<BTreeSet<_>>().len(), 4);
    assert!(drawn.iter().all(|each| all.contains(each)));
    let seeds = |seed: &str| {
        of("seeds = [1, 2]\n[space]", &format!("seeds = [{seed}]\nsamples = 3\n[space]")).unwrap()
    };
    let designs: BTreeSet<String> = (1..20)
        .map(|seed| seeds(&seed.to_string()).combinations().iter().map(text).collect::<Vec<_>>().join(";"))
        .collect();
    assert!(designs.len() > 5, "{designs:?}");
    assert_eq!(of("[space]", "samples = 99\n[space]").unwrap().combinations(), all);
}

#[test]
fn res_33_faults_have_words() {
    let error = |from: &str, to: &str| of(from, to).unwrap_err();
    assert!(error("policies = [\"hybrid\", \"easy\"]", "policies = []").contains("policies: found none"));
    assert!(error("seeds = [1, 2]", "seeds = []").contains("seeds: found none"));
    assert!(error("[space]", "samples = 0\n[space]").contains("samples: found 0"));
    assert!(error("[space]", "estimates = \"guessed\"\n[space]").contains("estimates: found `guessed`"));
    assert!(error("[space]", "semantics = \"alea\"\n[space]").contains("semantics: found `alea`"));
    assert!(error("[space]", "rules = \"commit=maybe\"\n[space]").contains("rules: found `commit=maybe`"));
    assert!(error("depth = [1, 4]", "depth = []").contains("space, depth: found no value"));
    assert!(error("depth = [1, 4]", "depth = [[1]]").contains("space, depth: found [1], accepted are texts"));
    assert!(
        error("lublin99", "alea")
            .contains("part made: model: found `alea`, accepted is lublin99 or downey97")
    );
    assert!(error("count = 300", "count = 0").contains("part made: count: found 0"));
    assert!(error("cores = 32", "cores = 0").contains("part made: cores: found 0"));
    assert!(error("load = 2.0", "load = 0.0").contains("part made: load: found 0"));
    assert!(
        error("load = 2.0", "jobs = \"5\"").contains("part made: jobs: found `5`, accepted is FIRST+COUNT")
    );
    assert!(error("load = 2.0", "log = \"x\"").contains("found both or none of log and model"));
    assert!(error("load = 2.0", "lod = 2.0").contains("unknown field `lod`"));
    let many = format!("seeds = {:?}", (0..60_000).collect::<Vec<u32>>());
    assert!(error("seeds = [1, 2]", &many).contains("found 720000 replays, accepted are at most 100000"));
}

#[test]
fn res_33_parts_are_made_of_logs_and_of_models() {
    let folder = tempfile::tempdir().unwrap();
    let log: String =
        (1..=9).map(|id| format!("{id} {id}0 0 10 4 -1 -1 4 20 -1 1 1 1 -1 1 -1 -1 -1\n")).collect();
    std::fs::write(folder.path().join("a.swf"), format!("; MaxProcs: 8\n{log}")).unwrap();
    let text = "policies = [\"easy\"]\nestimates = \"exact\"\nuncounted = 2\n[[part]]\nname = \"a\"\nlog = \"a.swf\"\njobs = \"2+4\"\n";
    let experiment = Experiment::parse(text).unwrap();
    let made = experiment.make(&experiment.parts[0], 1, folder.path()).unwrap();
    assert_eq!(made.jobs.iter().map(|job| job.id.0).collect::<Vec<_>>(), [3, 4, 5, 6]);
    assert!(made.jobs.iter().all(|job| job.limit == job.run));
    assert_eq!(made.machine.total_cores(), 8);
    let groups: Vec<Option<&str>> = made.attributes.iter().map(|known| known.group.as_deref()).collect();
    assert!(groups == [Some("1")] && made.jobs.iter().all(|job| job.attributes == 1), "of the log");
    assert_ne!(fingerprint(&made.jobs, &made.attributes), fingerprint(&made.jobs, &[]));
    assert!(!experiment.seed_changes(0));
    let with = |change: &dyn Fn(&mut Experiment)| {
        let mut experiment = experiment.clone();
        change(&mut experiment);
        experiment.make(&experiment.parts[0], 1, folder.path())
    };
    assert!(with(&|e| e.uncounted = 4).unwrap_err().contains("found 4 jobs, accepted are at least 5"));
    assert!(with(&|e| e.parts[0].jobs = Some("8+4".to_owned())).unwrap_err().contains("within the 9 jobs"));
    assert!(with(&|e| e.parts[0].log = Some("b.swf".to_owned())).unwrap_err().contains("b.swf"));
    assert_eq!(with(&|e| e.machine = Some("4x4".to_owned())).unwrap().machine.total_cores(), 16);
    let made = of("", "").unwrap();
    let jobs = |seed| made.make(&made.parts[0], seed, folder.path()).unwrap().jobs;
    assert!(made.seed_changes(0));
    assert_eq!((jobs(1), jobs(1).len()), (jobs(1), 300));
    assert_ne!(fingerprint(&jobs(1), &[]), fingerprint(&jobs(2), &[]));
}

#[test]
fn res_33_results_are_taken_if_nothing_they_depend_on_differs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.jsonl");
    let experiment = of("", "").unwrap();
    let replays = experiment.replays();
    let made = experiment.make(&experiment.parts[0], 1, folder.path()).unwrap();
    let jobs = fingerprint(&made.jobs, &made.attributes);
    let identity = |replay: usize, code: &'static str, version: &'static str| {
        experiment.identity(&replays[replay], (code, &jobs), &made, version)
    };
    let figures: Figures = [("wait_mean_s".to_owned(), 1.5)].into();
    let mut results = Results::open(&path).unwrap();
    results.add(&identity(0, "sha256:0", "1"), figures.clone()).unwrap();
    let unknown = ("forecast_error_s".to_owned(), f64::NAN);
    results
        .add(&identity(1, "sha256:0", "1"), figures.clone().into_iter().chain([unknown]).collect())
        .unwrap();
    drop(results);
    // Killed in the middle of a line.
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&whole[..], &whole[..40]].concat()).unwrap();
    let results = Results::open(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), whole, "the line that was cut off is removed");
    let taken = |replay, code, version| results.get(&key(&identity(replay, code, version)));
    assert_eq!(taken(0, "sha256:0", "1"), Some(&figures));
    assert_eq!(taken(1, "sha256:0", "1"), Some(&figures));
    assert_eq!(taken(2, "sha256:0", "1"), None, "other settings");
    assert_eq!(taken(0, "sha256:1", "1"), None, "another component");
    assert_eq!(taken(0, "sha256:0", "2"), None, "another version");
    let other = fingerprint(&made.jobs[1..], &made.attributes);
    let other = experiment.identity(&replays[0], ("sha256:0", &other), &made, "1");
    assert_eq!(results.get(&key(&other)), None, "other jobs");
    let wider = Experiment { machine: Some("64".to_owned()), ..experiment.clone() };
    let wide = wider.make(&wider.parts[0], 1, folder.path()).unwrap();
    let wide = wider.identity(&replays[0], ("sha256:0", &jobs), &wide, "1");
    assert_eq!(results.get(&key(&wide)), None, "another machine");
    // A machine in a file is known by its bytes.
    let file = |text: &str| {
        std::fs::write(folder.path().join("m.toml"), text).unwrap();
        let filed = Experiment { machine: Some("m.toml".to_owned()), ..experiment.clone() };
        filed.make(&filed.parts[0], 1, folder.path()).unwrap().described
    };
    let text = "[[resource.config]]\nhosts = \"n[0-3]\"\ncores = \"0-7\"\n";
    assert!(file(text).starts_with("4 nodes, 32 cores, file "), "{}", file(text));
    assert_ne!(file(text), file(&format!("{text}properties = [\"fast\"]\n")));
    // The order of keys in a line does not matter; a line that is no result does.
    std::fs::write(&path, "{\"metrics\":{},\"replay\":{\"b\":1,\"a\":2}}\n{}\n").unwrap();
    let error = Results::open(&path).unwrap_err().to_string();
    assert!(error.ends_with("r.jsonl: line 2: not a result of a sweep"), "{error}");
    assert!(std::fs::read_to_string(&path).unwrap().ends_with("{}\n"), "and the file is left as it is");
}
