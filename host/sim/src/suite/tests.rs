//! Suites: accepted texts, shipped suites, and verdicts.

use super::*;

const TEXT: &str = r#"
name = "s"
version = 1
title = "t"
source = "p"
[[log]]
name = "l"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
published = "somewhere"
[[task]]
name = "a"
log = "l"
semantics = "pyss"
rules = "wakes=yes"
[[task.entry]]
name = "EASY"
policy = "easy"
published = [{ metric = "wait_mean_s", value = "1.50" }]
"#;

fn error(from: &str, to: &str) -> String {
    Suite::parse(&TEXT.replace(from, to), "x").unwrap_err().to_string()
}

#[test]
fn suites_are_checked() {
    let suite = Suite::parse(TEXT, "x").unwrap();
    assert!(suite.tasks[0].rules().unwrap().wakes);
    assert!(error("\"l\"\nsem", "\"m\"\nsem").contains("suite x: task a: found log `m`, accepted is l"));
    assert!(error("pyss", "alea").contains("task a: found `alea`, accepted is fluxgate, pyss"));
    assert!(error("wakes=yes", "wakes=so").contains("found `wakes=so`"));
    assert!(error("wait_mean_s", "wait").contains("task a, entry EASY: found no metric `wait`"));
    assert!(error("\"1.50\"", "\"x\"").contains("found value `x`, accepted is a number"));
    assert!(error("0000\"", "\"").contains("accepted are 64 digits"));
    assert!(error("title", "titel").contains("unknown field `titel`"));
    assert!(error("rules =", "length = 5\nrules =").contains("found one of starts (or drawn) and length"));
    assert!(error("rules =", "window-days = 0\nrules =").contains("accepted is 1 or more"));
    let both = error("rules =", "starts = [1]\nlength = 5\nwindow-days = 3\nrules =");
    assert!(both.contains("found length and window-days"), "{both}");
    assert!(error("rules =", "metrics = [\"beauty\"]\nrules =").contains("task a: found no metric `beauty`"));
    assert!(error("rules =", "trained-on = [\"m\"]\nrules =").contains("task a: found log `m`"));
    let seeds = error("policy = \"easy\"", "policy = \"easy\"\nsampled = 9");
    assert!(
        seeds.contains("task a, entry EASY: found sampled = 9, accepted are 10 to 1000 seeds"),
        "{seeds}"
    );
    let names = Suite::shipped("none").unwrap_err().to_string();
    assert!(
            names.contains(
                "accepted is own-sequences, own-transfer, own-whole, own-windows, sc15-exact, sc15-starts, sc20-hpc2n, \
                 sc20-heuristics, sc20-network or a file"
            ),
            "{names}"
        );
}

#[test]
fn res_54_57_shipped_suites_are_valid_texts_without_data() {
    for (name, _) in SHIPPED {
        let suite = Suite::shipped(name).unwrap();
        assert_eq!(suite.name, name);
        assert!(suite.tasks.iter().all(|task| !task.entries.is_empty()));
    }
    let values =
        |suite: &Suite| suite.tasks.iter().flat_map(|t| &t.entries).map(|e| e.published.len()).sum::<usize>();
    let all = Suite::shipped("sc20-heuristics").unwrap();
    let columns = ["FCFS", "WFP3", "UNI", "SJF", "F1"];
    let of_table = |suite: &Suite| {
        let entries = suite.tasks.iter().flat_map(|t| &t.entries);
        entries.filter(|e| columns.contains(&e.name.as_str())).map(|e| e.published.len()).sum::<usize>()
    };
    assert_eq!(of_table(&all), 40, "all figures of the two logs");
    assert!(values(&all) > 40, "and the formulas as defined");
}

/// The own tracks: each policy is compared with the first, on all logs.
#[test]
fn res_54_own_tracks_are_texts() {
    let of = |name: &str| Suite::shipped(name).unwrap();
    for name in ["own-whole", "own-windows", "own-sequences"] {
        let suite = of(name);
        assert_eq!((suite.logs.len(), suite.tasks.len()), (5, 5), "{name}");
        assert!(suite.tasks.iter().all(|task| task.entries.len() >= 5 && task.entries[0].policy == "easy"));
        assert!(suite.tasks.iter().all(|task| task.metrics.iter().any(|m| m == "bounded_slowdown_60_p95")));
    }
    assert!(of("own-whole").tasks.iter().all(|task| !task.has_parts() && task.uncounted == 0));
    assert!(of("own-windows").tasks.iter().all(|task| (task.window_days, task.uncounted) == (Some(15), 16)));
    let sequences = of("own-sequences");
    assert!(sequences.tasks.iter().all(|t| (t.starts.len(), t.drawn, t.length) == (10, 40, 1024)));
    let transfer = of("own-transfer");
    assert!(transfer.tasks.iter().all(|task| task.trained_on.len() == 1 && task.trained_on[0] != task.log));
}

/// RES-52: exact is to the published digits; a difference is never hidden by rounding.
#[test]
fn res_52_verdicts() {
    let published = |value: &str, tolerance, because: Option<&str>| Published {
        metric: "wait_mean_s".to_owned(),
        value: value.to_owned(),
        tolerance,
        because: because.map(str::to_owned),
    };
    assert_eq!(published("277.35", 0.0, None).verdict(277.3549), Verdict::Exact);
    assert_eq!(published("277.35", 0.0, None).verdict(277.3551), Verdict::Differs);
    assert_eq!(published("277.35", 0.001, None).verdict(277.3551), Verdict::Within);
    assert_eq!(published("277.35", 0.001, Some("ties")).verdict(280.0), Verdict::Explained);
    assert_eq!(published("0.650", 0.0, None).verdict(0.65), Verdict::Exact);
    assert_eq!(published("7", 0.0, None).verdict(f64::NAN), Verdict::Differs);
}
