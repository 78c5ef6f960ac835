//! The wall clock of a loader: it ends calls at their deadline, and measures the time of calls.
//!
//! A thread advances the engine's epoch every [`TICK_MS`]. It counts ticks, not time of day: when the whole machine
//! is suspended, so is every deadline. Only this module of the crate reads a clock. No decision depends on it, except
//! that a call beyond its deadline fails. Without the clock only fuel bounds a call.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wasmtime::Engine;

use crate::limits::TICK_MS;

#[derive(Debug, Default)]
struct Stop {
    flag: Mutex<bool>,
    bell: Condvar,
}

/// A thread that ticks until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Ticker> {
        let stop = Arc::new(Stop::default());
        let (theirs, weak) = (stop.clone(), engine.weak());
        let thread = std::thread::Builder::new().name("policy-ticker".to_owned()).spawn(move || {
            let period = Duration::from_millis(TICK_MS);
            let mut stopped = theirs.flag.lock().unwrap_or_else(PoisonError::into_inner);
            while !*stopped {
                let (guard, wait) =
                    theirs.bell.wait_timeout(stopped, period).unwrap_or_else(PoisonError::into_inner);
                stopped = guard;
                if wait.timed_out() {
                    match weak.upgrade() {
                        Some(engine) => engine.increment_epoch(),
                        None => return,
                    }
                }
            }
        })?;
        Ok(Ticker { stop, thread: Some(thread) })
    }

    /// The number of ticks for at least `ms`, never fewer than two, because the first may come at once.
    pub(crate) fn ticks(ms: u64) -> u64 {
        ms.div_ceil(TICK_MS).max(1) + 1
    }
}

/// Runs `work`, and measures the nanoseconds if there is a clock.
pub(crate) fn measured<R>(clock: bool, work: impl FnOnce() -> R) -> (R, u64) {
    let begin = clock.then(Instant::now);
    let result = work();
    let nanos = begin.map_or(0, |begin| u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    (result, nanos)
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *self.stop.flag.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.bell.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic, and a panic of it could not be reported.
            let _ = thread.join();
        }
    }
}
