//! `fluxgate graph convert`: a file of any format as JGF, without loss.

use std::path::Path;

use anyhow::Result;

use crate::render;

use super::FormatArg;

pub(super) fn run(input: &Path, output: &Path, format: Option<FormatArg>, force: bool) -> Result<()> {
    // Before the work as well as at its end.
    super::refuse(output, force)?;
    let (source, model) = super::read(input, format)?;
    super::write(output, force, |to| {
        serde_json::to_writer(&mut *to, &model.to_jgf())?;
        Ok(to.write_all(b"\n")?)
    })?;
    let (name, from, vertices) = (output.display(), source.name(), model.vertices().count());
    render::line(format!("{name}: jgf from {from}, {vertices} vertices"))
}
