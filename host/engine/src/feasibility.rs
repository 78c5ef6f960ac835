//! RFC 27 feasibility: could a request ever be satisfied?
//!
//! Must never know which resources are free or up.

use std::collections::BTreeMap;

use fluxgate_formats::Jobspec;
use fluxgate_graph::{Request, Resources};

use crate::amounts::{QueueBounds, never_within};
use crate::event::RpcError;
use crate::placement::{wanted_placement, wanted_reservation};
use crate::windows::Windows;

const EINVAL: i32 = 22;
const EOVERFLOW: i32 = 75;

fn refuse(errnum: i32, text: impl Into<String>) -> Result<(), RpcError> {
    Err(RpcError { errnum, text: text.into() })
}

/// Most windows that are named in one line.
const NAMED_MAX: usize = 16;

/// Could a job run in the window that it names, or that is for its queue?
fn in_window(
    resources: &Resources,
    windows: &Windows,
    jobspec: &Jobspec,
    request: &Request,
) -> Result<(), String> {
    let (named, queue) = (wanted_reservation(jobspec)?, jobspec.queue().unwrap_or(""));
    let window = match &named {
        Some(name) => {
            let known = windows.get(name).map(|held| &*held.window);
            let usable = known.filter(|window| window.takes_jobs_of(queue));
            Some(usable.ok_or_else(|| {
                let names: Vec<&str> = windows
                    .iter()
                    .filter(|held| held.window.takes_jobs_of(queue))
                    .map(|held| held.window.name.as_str())
                    .take(NAMED_MAX)
                    .collect();
                let there = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
                match known {
                    Some(window) if window.occurrences.is_empty() => {
                        format!("reservation {name} is over; reservations for such jobs: {there}")
                    }
                    Some(_) => {
                        format!("reservation {name} is not for such jobs; reservations for them: {there}")
                    }
                    None => format!("there is no reservation {name}; reservations for such jobs: {there}"),
                }
            })?)
        }
        None => windows.for_queue(queue),
    };
    let Some(window) = window.filter(|window| !window.flex) else { return Ok(()) };
    if !resources.satisfiable_on(request, &window.ranks) {
        return Err(format!("reservation {}: its nodes cannot satisfy the request", window.name));
    }
    let longest = window.occurrences.iter().map(|times| times.end + window.overrun - times.start);
    let longest = longest.fold(0.0, f64::max);
    let asked = jobspec.duration();
    if asked == 0.0 || asked > longest {
        let longest = fluxgate_formats::fsd::format(longest);
        return Err(format!(
            "reservation {} lasts {longest}, and the job needs a limit within that",
            window.name
        ));
    }
    Ok(())
}

/// Answers RFC 27 feasibility: whether a request could ever be satisfied, within the bounds of its queue, and in the window that
/// it names or that is for its queue. Only the inventory decides, not node status or allocations, so [`Resources::inventory`]
/// gives the same answer as the ledger.
///
/// # Errors
/// `EINVAL` for an invalid request, or a window that it cannot use, `EOVERFLOW` for one that this machine can never satisfy within
/// the bounds of queues.
pub fn feasibility(
    resources: &mut Resources,
    bounds: &BTreeMap<String, QueueBounds>,
    windows: &Windows,
    jobspec: &Jobspec,
) -> Result<(), RpcError> {
    if let Err(error) = wanted_placement(jobspec) {
        return refuse(EINVAL, error);
    }
    let request = match resources.compile(jobspec) {
        Ok(request) => request,
        Err(error) => return refuse(EINVAL, error.to_string()),
    };
    if let Err(error) = resources.satisfiable(&request) {
        return refuse(EOVERFLOW, error.to_string());
    }
    if let Err(why) = in_window(resources, windows, jobspec, &request) {
        return refuse(EINVAL, why);
    }
    match never_within(bounds, resources, jobspec.queue().unwrap_or(""), &request) {
        Some(why) => refuse(EOVERFLOW, why),
        None => Ok(()),
    }
}
