//! RFC 27 feasibility: could a request ever be satisfied?
//!
//! Must never know which resources are free or up.

use std::collections::BTreeMap;

use fluxgate_formats::Jobspec;
use fluxgate_graph::Resources;

use crate::amounts::{QueueBounds, never_within};
use crate::event::RpcError;
use crate::placement::wanted_placement;

const EINVAL: i32 = 22;
const EOVERFLOW: i32 = 75;

fn refuse(errnum: i32, text: impl Into<String>) -> Result<(), RpcError> {
    Err(RpcError { errnum, text: text.into() })
}

/// RFC 27 feasibility: could this request ever be satisfied, within the bounds of its queue? Only the inventory
/// decides, not node status or allocations, so [`Resources::inventory`] gives the same answer as the ledger.
///
/// # Errors
/// `EINVAL` for an invalid request, `EOVERFLOW` for one that this machine can never satisfy.
pub fn feasibility(
    resources: &mut Resources,
    bounds: &BTreeMap<String, QueueBounds>,
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
    match never_within(bounds, resources, jobspec.queue().unwrap_or(""), &request) {
        Some(why) => refuse(EOVERFLOW, why),
        None => Ok(()),
    }
}
