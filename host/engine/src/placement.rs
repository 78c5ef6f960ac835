//! The placement that a jobspec requests.
//!
//! Must never know the engine.

use fluxgate_formats::Jobspec;
use fluxgate_graph::Placement;

/// Most characters of a refused value that are quoted.
const FOUND_MAX: usize = 60;

/// The placement that a jobspec names in `attributes.system.fluxgate.placement`.
pub(crate) fn wanted_placement(jobspec: &Jobspec) -> Result<Option<Placement>, String> {
    let Some(value) = jobspec.system_attr("fluxgate.placement") else { return Ok(None) };
    let placement = value.as_str().and_then(Placement::from_name);
    placement.map(Some).ok_or_else(|| {
        let mut found = value.to_string();
        if found.chars().count() > FOUND_MAX {
            found = found.chars().take(FOUND_MAX).chain("...".chars()).collect();
        }
        let accepted = Placement::NAMES;
        format!("attributes.system.fluxgate.placement: expected {accepted}, found {found}")
    })
}
