//! `fluxgate policy build` and `fluxgate policy test`: the commands that a policy's folder defines.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fluxgate_languages::project::Project;
use fluxgate_policy::{Digest, Limits, Loader};

use serde_json::json;

use super::answers::said;
use super::artefact;
use crate::render;

/// Build the component, and check that the host accepts it.
pub(crate) fn build(folder: &Path, out: Option<&Path>, as_json: bool) -> Result<()> {
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
    let answer = json!({"file": component, "name": name, "bytes": size, "digest": digest.to_string(), "sealed": sealed});
    said(&answer, as_json, || {
        format!("{}: {name}, {} kB, {digest}{note}", component.display(), size.div_ceil(1000))
    })
}

/// Run the author's own tests, and test the component if there is one.
pub(crate) fn test(
    policy: &str,
    out: Option<&Path>,
    config: &[String],
    dir: Option<&Path>,
    as_json: bool,
) -> Result<()> {
    let folder = Path::new(policy);
    if !folder.is_dir() {
        return artefact::test(policy, config, dir, json!({}), as_json);
    }
    let project = Project::read(folder)?;
    let out: PathBuf = out.map_or_else(|| project.default_out(), Path::to_owned);
    let tested = project.test(&out)?;
    if !as_json {
        let note = if tested { "its tests pass" } else { "it has no tests" };
        render::line(format!("{}: {note}", project.name()))?;
    }
    let component = out.join(format!("{}.wasm", project.name()));
    let answer = json!({"folder": folder, "own_tests": tested});
    match component.exists() {
        true => artefact::test(&component.to_string_lossy(), config, dir, answer, as_json),
        false => said(&answer, as_json, || {
            "not built yet: 'fluxgate policy build' makes the component, which is tested then, too".to_owned()
        }),
    }
}
