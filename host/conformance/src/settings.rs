//! Checks of a component's description of itself, and of its settings.

use fluxgate_engine::PolicyError;
use fluxgate_policy::{Config, ConfigKind, LoadError};

use crate::Subject;
use crate::drive::{Successor, run};
use crate::recorder::Recorder;
use crate::report::Reporter;
use crate::world::{BEGIN, Job, World};

/// Number of instances whose description is compared.
const ASKED: usize = 3;

/// Valid values of a kind that few policies expect.
fn absurd(kind: ConfigKind) -> Vec<String> {
    let texts: &[&str] = match kind {
        ConfigKind::Boolean => &["true", "false"],
        ConfigKind::Integer => &["0", "-1", "1", "9223372036854775807", "-9223372036854775808"],
        ConfigKind::Float => &["0", "-0.0", "-1", "1e308", "-1e308", "5e-324"],
        ConfigKind::Duration => &["0", "0.001", "1e9", "infinity"],
        ConfigKind::Text => &["", " ", "absurd", "\u{fffd}\u{1f980}", "../../etc", "%s%n{}", "0"],
    };
    let mut values: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    if kind == ConfigKind::Text {
        values.push("x".repeat(4096));
    }
    values
}

/// The breach that caused a refusal to load, if there was one.
pub(crate) fn breach(error: &LoadError) -> Option<&PolicyError> {
    match error {
        LoadError::Failed(PolicyError::Refused { .. }) => None,
        LoadError::Failed(error) => Some(error),
        LoadError::File { error, .. } => breach(error),
        _ => None,
    }
}

/// True if the component can be started with its settings; the other checks require that.
pub(crate) fn check(subject: &Subject<'_>, reporter: &mut Reporter) -> bool {
    let described = subject.compiled.description();
    for _ in 0..ASKED {
        // The host compares the answer of every instance with the first one.
        match subject.compiled.instantiate(subject.config) {
            Ok(_) => {}
            Err(error @ LoadError::Description { .. }) => {
                reporter.fail("describe", error.to_string());
                return false;
            }
            Err(error) => {
                match breach(&error) {
                    Some(breach) => reporter.breach("settings-defaults", breach),
                    None => reporter.fail("settings-defaults", error.to_string()),
                }
                return false;
            }
        }
    }
    reporter.pass("describe", format!("{} settings", described.config.len()));
    defaults(subject, reporter);
    if described.config.is_empty() {
        reporter.skip("settings-nonsense", "it has no settings");
    } else {
        nonsense(subject, reporter);
    }
    true
}

/// Sets each default explicitly.
fn defaults(subject: &Subject<'_>, reporter: &mut Reporter) {
    for key in &subject.compiled.description().config {
        let mut config = subject.config.clone();
        config.insert(key.name.clone(), key.default.clone());
        if let Err(error) = subject.compiled.instantiate(&config) {
            let reason = format!("{}={:?}: {error}", key.name, key.default);
            match breach(&error) {
                Some(found) => reporter.breach("settings-defaults", found),
                None => reporter.fail("settings-defaults", reason),
            }
        }
    }
    reporter.pass("settings-defaults", "");
}

/// A few jobs, which do not all fit at once.
fn few() -> World {
    let jobs = (1..=12).map(|id| {
        let mut job = Job::new(id, BEGIN + (id / 4) as f64);
        job.cores = 1 + (id as u32 * 5) % 7;
        job
    });
    World::new(2, 4, jobs.collect())
}

fn nonsense(subject: &Subject<'_>, reporter: &mut Reporter) {
    let world = few();
    let (mut refused, mut worked) = (0_u32, 0_u32);
    for key in &subject.compiled.description().config {
        for value in absurd(key.kind) {
            let config = Config::from_iter(
                subject.config.clone().into_iter().chain([(key.name.clone(), value.clone())]),
            );
            let shown: String = value.chars().take(24).collect();
            match subject.compiled.instantiate(&config) {
                Err(error) => match breach(&error) {
                    Some(found) => {
                        reporter.breach("settings-nonsense", found);
                        return;
                    }
                    None if wordless(&error) => {
                        let name = &key.name;
                        let reason =
                            format!("{name}={shown:?} is refused without a word; say what is accepted");
                        reporter.fail("settings-nonsense", reason);
                        return;
                    }
                    None => refused += 1,
                },
                Ok(policy) => {
                    let recorder = Recorder::new(policy, subject.loader.limits());
                    let trace = run(&world, &recorder, Successor::None);
                    if let Some(found) = &trace.breach {
                        reporter.fail("settings-nonsense", format!("with {}={shown:?}: {found}", key.name));
                        reporter.breach("settings-nonsense", found);
                        return;
                    }
                    worked += 1;
                }
            }
        }
    }
    reporter.pass("settings-nonsense", format!("{refused} refused, {worked} worked with"));
}

fn wordless(error: &LoadError) -> bool {
    match error {
        LoadError::Failed(PolicyError::Refused { message, .. }) => message.trim().is_empty(),
        _ => false,
    }
}
