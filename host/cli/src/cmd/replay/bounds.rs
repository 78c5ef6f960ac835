//! Ceilings and floors of queues in a replay.
//!
//! Must never know which queues a log has.

use anyhow::Result;
use fluxgate_engine::{Amount, Config};
use fluxgate_sim::driver;

use super::args::Replay;
use crate::fail::usage;

/// One `QUEUE=AMOUNT`.
fn amount<'a>(flag: &str, asked: &'a str) -> Result<(&'a str, Amount)> {
    let wrong = |why: String| usage(format!("{flag} {asked}: {why}"));
    let parts = asked.split_once('=').filter(|(queue, _)| !queue.is_empty());
    let (queue, text) = parts.ok_or_else(|| wrong("expected QUEUE=AMOUNT".to_owned()))?;
    Ok((queue, text.parse().map_err(wrong)?))
}

/// The settings of the engine, with the bounds of queues.
pub(super) fn config(args: &Replay) -> Result<Config> {
    let mut config = driver::replay_config();
    for (flag, list) in [("--queue-ceiling", &args.queue_ceiling), ("--queue-floor", &args.queue_floor)] {
        for asked in list {
            let (queue, amount) = amount(flag, asked)?;
            let bounds = config.queue_bounds.entry(queue.to_owned()).or_default();
            let place = if flag == "--queue-floor" { &mut bounds.floor } else { &mut bounds.ceiling };
            if place.replace(amount).is_some() {
                return Err(usage(format!("{flag} {asked}: queue {queue} has one already")));
            }
        }
    }
    fluxgate_engine::check_bounds(&config.queue_bounds).map_err(usage)?;
    Ok(config)
}
