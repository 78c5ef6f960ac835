//! Reservations of nodes by people, as the pictures have them; without those that float, whose nodes take short jobs.
//!
//! Must never know how a reservation looks.

use fluxgate_formats::Idset;
use serde_json::Value;

use crate::known::{Known, rows};
use crate::words;

/// A reservation that is not over.
#[derive(Debug, Clone)]
pub(crate) struct Reserved {
    pub(crate) name: String,
    pub(crate) maintenance: bool,
    /// It has begun.
    pub(crate) on: bool,
    /// Its times, the first first.
    pub(crate) times: Vec<(f64, f64)>,
    pub(crate) ranks: Idset,
}

/// Has this row of the list begun?
pub(crate) fn is_on(one: &Value, now: f64) -> bool {
    let begun = || one["start"].as_f64().is_some_and(|start| start <= now);
    one["state"] == "active" || one["state"] == "degraded" && begun()
}

impl Reserved {
    fn of(one: &Value, now: f64) -> Option<Reserved> {
        let time = |span: &Value| Some((span[0].as_f64()?, span[1].as_f64()?));
        let times: Vec<(f64, f64)> = rows(&one["occurrences"]).iter().filter_map(time).collect();
        let reserved = Reserved {
            name: words::plain(&one["name"]),
            maintenance: one["kind"] == "maintenance",
            on: is_on(one, now),
            times,
            ranks: one["ranks"].as_str()?.parse().ok()?,
        };
        (one["state"] != "over" && one["float"].is_null() && !reserved.times.is_empty()).then_some(reserved)
    }

    /// Its kind and its name.
    pub(crate) fn title(&self) -> String {
        let kind = if self.maintenance { "maintenance" } else { "reservation" };
        format!("{kind} {}", self.name)
    }

    /// The same with its end if it has begun, else with its start.
    pub(crate) fn told(&self) -> String {
        let (start, end) = self.times.first().copied().unwrap_or_default();
        match self.on {
            true => format!("{} until {}", self.title(), words::date_time(end)),
            false => format!("{} from {}", self.title(), words::date_time(start)),
        }
    }
}

/// The reservations that are not over, those that have begun first, then by start.
pub(crate) fn reservations(known: &Known) -> Vec<Reserved> {
    let now = known.now();
    let all = rows(&known.get("reservations")["reservations"]);
    let mut found: Vec<Reserved> = all.iter().filter_map(|one| Reserved::of(one, now)).collect();
    let start = |one: &Reserved| one.times.first().map_or(f64::INFINITY, |times| times.0);
    found.sort_by(|a, b| b.on.cmp(&a.on).then(start(a).total_cmp(&start(b))).then(a.name.cmp(&b.name)));
    found
}
