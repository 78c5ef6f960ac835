//! `fluxgate policy build` and `fluxgate policy test`: what a policy's folder says about itself, done.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fluxgate_languages::project::Project;
use fluxgate_policy::{Limits, Loader};

use crate::render;

/// Build the component, and look whether the host takes it.
pub(crate) fn build(folder: &Path, out: Option<&Path>) -> Result<()> {
    let project = Project::read(folder)?;
    let component = project.build(&out.map_or_else(|| project.default_out(), Path::to_owned))?;
    let compiled = Loader::new(Limits::default(), None)?.compile_file(&component)?;
    let size = std::fs::metadata(&component).with_context(|| format!("{}", component.display()))?.len();
    let name = &compiled.description().name;
    if name != project.name() {
        anyhow::bail!(
            "{}: it describes itself as `{name}`, but its folder says `{}`",
            component.display(),
            project.name()
        );
    }
    render::line(format!(
        "{}: {name}, {} kB, {}",
        component.display(),
        size.div_ceil(1000),
        compiled.digest()
    ))
}

/// Run the author's own tests.
pub(crate) fn test(folder: &Path, out: Option<&Path>) -> Result<()> {
    let project = Project::read(folder)?;
    let out: PathBuf = out.map_or_else(|| project.default_out(), Path::to_owned);
    let note = if project.test(&out)? { "its tests pass" } else { "it has no tests" };
    render::line(format!("{}: {note}", project.name()))
}
