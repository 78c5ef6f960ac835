//! Log lines about single jobs, one for each event (`log-level=debug`).
//!
//! Costs nothing otherwise. This module must never change anything.

use fluxgate_engine::{Engine, Event};
use fluxgate_formats::{Idset, JobId, R};

/// Logs an event before the engine takes it in.
pub(super) fn event(event: &Event, engine: &Engine) {
    if let Event::InstanceExpiration(end) = event {
        fluxgate_log::log!(ExpirationUpdated, "resource expiration updated to {end:.2}");
    }
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    match event {
        Event::Hello { id, priority, userid, t_submit, r, free, .. } => {
            let summary = of_ranks(r, Some(&r.ranks().difference(free)));
            tracing::debug!(
                "hello: id={id} priority={priority} userid={userid} t_submit={t_submit:.2}: {summary}"
            );
        }
        Event::Alloc { id, priority, userid, t_submit, .. } => {
            tracing::debug!("alloc: id={id} priority={priority} userid={userid} t_submit={t_submit:.2}");
        }
        Event::Cancel { id } => tracing::debug!("cancel: {id}"),
        Event::Free { id, ranks, last } => {
            let held = held(engine, *id, ranks.as_ref());
            tracing::debug!("free: {id}: {held}{}", if *last { " (final)" } else { "" });
        }
        Event::Up(ranks) => tracing::debug!("up: {ranks}"),
        Event::Down(ranks) => tracing::debug!("down: {ranks}"),
        Event::Shrink(ranks) => tracing::debug!("shrink: {ranks}"),
        _ => {}
    }
}

fn held(engine: &Engine, id: JobId, ranks: Option<&Idset>) -> String {
    match engine.resources().allocation_r(id) {
        Some(r) => of_ranks(&r, ranks),
        None => "it holds nothing that we know of".to_owned(),
    }
}

fn of_ranks(r: &R, ranks: Option<&Idset>) -> String {
    ranks.map_or_else(|| r.summary(), |ranks| r.subset(ranks).summary())
}
