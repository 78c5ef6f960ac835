//! `fluxgate graph convert`: a graph of any source as JGF, without loss, or as R.

use std::path::Path;

use anyhow::{Result, anyhow};
use serde_json::json;

use crate::fail::usage;
use crate::render;

use super::args::OutputArg;
use super::input::Input;
use super::output as file;

pub(super) fn run(
    input: &Input<'_>,
    output: &Path,
    to: OutputArg,
    scheduling: bool,
    force: bool,
    as_json: bool,
) -> Result<()> {
    if scheduling && to == OutputArg::Jgf {
        return Err(usage("--scheduling is for --to r: JGF carries the whole graph anyway"));
    }
    // Before the work as well as at its end.
    file::refuse(output, force)?;
    let loaded = input.load()?;
    let (model, from) = (loaded.recorded()?, loaded.format);
    let (vertices, name) = (model.vertices().count(), output.display());
    let mut answer = json!({"file": output, "format": "jgf", "from": from, "vertices": vertices});
    let (value, told) = match to {
        OutputArg::Jgf => (model.to_jgf(), format!("{name}: jgf from {from}, {vertices} vertices")),
        OutputArg::R => {
            let r = model.to_r(scheduling).map_err(|error| anyhow!("{}: {error}", loaded.name))?;
            let (nodes, cores, gpus) = (r.ranks().len(), r.count("core"), r.count("gpu"));
            answer = json!({"file": output, "format": "r", "from": from, "nodes": nodes, "cores": cores, "gpus": gpus});
            (r.to_value(), format!("{name}: r from {from}, {nodes} nodes, {cores} cores, {gpus} gpus"))
        }
    };
    file::write(output, force, |to| {
        serde_json::to_writer(&mut *to, &value)?;
        Ok(to.write_all(b"\n")?)
    })?;
    if as_json { render::json(&answer) } else { render::line(told) }
}
