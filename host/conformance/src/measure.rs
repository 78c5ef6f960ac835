//! The cost of a component in the worlds of the kit: fuel, which is the same everywhere, and time, which is not.

use fluxgate_policy::{Compiled, Config, LoadError, Loader, Snapshot};
use serde::Serialize;

use crate::drive::{Successor, run};
use crate::recorder::Recorder;
use crate::world::{deep, mixed};

/// The cost of one world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// Name of the world.
    pub world: &'static str,
    /// Jobs in it.
    pub jobs: usize,
    /// Jobs that were started.
    pub started: usize,
    /// The breach of the contract, if there was one; the figures then end there.
    pub breach: Option<String>,
    /// The counters of the instance: fuel, and time if the loader has a clock.
    pub counters: Snapshot,
}

/// Runs a mixed load, and queues of a thousand and of ten thousand jobs, each with a fresh instance, and measures the cost.
///
/// # Errors
/// [`LoadError`] if the component cannot be started with these settings.
pub fn measure(loader: &Loader, compiled: &Compiled, config: &Config) -> Result<Vec<Measured>, LoadError> {
    let worlds = [("mixed-load", mixed()), ("queue-of-1000", deep(1_000)), ("queue-of-10000", deep(10_000))];
    let measured = worlds.into_iter().map(|(name, world)| {
        let recorder = Recorder::new(compiled.instantiate(config)?, loader.limits());
        let trace = run(&world, &recorder, Successor::None);
        Ok(Measured {
            world: name,
            jobs: world.jobs.len(),
            started: trace.starts.len(),
            breach: trace.breach.map(|breach| breach.to_string()),
            counters: trace.snapshot,
        })
    });
    measured.collect()
}
