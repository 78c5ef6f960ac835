//! `fluxgate policy build` and `fluxgate policy test`: the commands that a policy's folder defines.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fluxgate_languages::project::Project;
use fluxgate_policy::{Digest, Limits, Loader};

use super::artefact;
use crate::render;

/// Build the component, and check that the host accepts it.
pub(crate) fn build(folder: &Path, out: Option<&Path>) -> Result<()> {
    let project = Project::read(folder)?;
    let component = project.build(&out.map_or_else(|| project.default_out(), Path::to_owned))?;
    let compiled = Loader::new(Limits::default(), None)?.compiling_apart().compile_file(&component)?;
    let size = std::fs::metadata(&component).with_context(|| format!("{}", component.display()))?.len();
    let name = &compiled.description().name;
    if name != project.name() {
        anyhow::bail!(
            "{}: it describes itself as `{name}`, but its folder says `{}`",
            component.display(),
            project.name()
        );
    }
    let sealed = artefact::seal_built(folder, &component, &compiled)?;
    let digest = Digest::of(&std::fs::read(&component).with_context(|| format!("{}", component.display()))?);
    let note = if sealed { "" } else { ", without a manifest: name author and license for one" };
    render::line(format!("{}: {name}, {} kB, {digest}{note}", component.display(), size.div_ceil(1000)))
}

/// Run the author's own tests, and test the component if there is one.
pub(crate) fn test(policy: &str, out: Option<&Path>, config: &[String], dir: Option<&Path>) -> Result<()> {
    let folder = Path::new(policy);
    if !folder.is_dir() {
        return artefact::test(policy, config, dir);
    }
    let project = Project::read(folder)?;
    let out: PathBuf = out.map_or_else(|| project.default_out(), Path::to_owned);
    let note = if project.test(&out)? { "its tests pass" } else { "it has no tests" };
    render::line(format!("{}: {note}", project.name()))?;
    let component = out.join(format!("{}.wasm", project.name()));
    match component.exists() {
        true => artefact::test(&component.to_string_lossy(), config, dir),
        false => render::line(
            "not built yet: 'fluxgate policy build' makes the component, which is tested then, too",
        ),
    }
}
