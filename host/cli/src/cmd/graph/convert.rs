//! `fluxgate graph convert`: a graph of any source as JGF, without loss, or as R.

use std::path::Path;

use anyhow::{Result, anyhow};

use crate::fail::usage;
use crate::render;

use super::Target;
use super::input::Input;

pub(super) fn run(input: &Input<'_>, output: &Path, to: Target, scheduling: bool, force: bool) -> Result<()> {
    if scheduling && to == Target::Jgf {
        return Err(usage("--scheduling is for --to r: JGF carries the whole graph anyway"));
    }
    // Before the work as well as at its end.
    super::refuse(output, force)?;
    let loaded = input.load()?;
    let (model, from) = (loaded.recorded()?, loaded.format);
    let (vertices, name) = (model.vertices().count(), output.display());
    let (value, told) = match to {
        Target::Jgf => (model.to_jgf(), format!("{name}: jgf from {from}, {vertices} vertices")),
        Target::R => {
            let r = model.to_r(scheduling).map_err(|error| anyhow!("{}: {error}", loaded.name))?;
            let (nodes, cores, gpus) = (r.ranks().len(), r.count("core"), r.count("gpu"));
            (r.to_value(), format!("{name}: r from {from}, {nodes} nodes, {cores} cores, {gpus} gpus"))
        }
    };
    super::write(output, force, |to| {
        serde_json::to_writer(&mut *to, &value)?;
        Ok(to.write_all(b"\n")?)
    })?;
    render::line(told)
}
