//! `fluxgate graph convert`: a file of any format as JGF, without loss.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use crate::render;

use super::FormatArg;

pub(super) fn run(input: &Path, output: &Path, format: Option<FormatArg>, force: bool) -> Result<()> {
    let name = output.display();
    let exists = || anyhow!("{name} exists; --force overwrites it");
    // Asked before the work as well as when the file gets its name.
    if !force && output.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let (source, model) = super::read(input, format)?;
    let cannot = || format!("cannot write {name}");
    let dir = match output.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut file = tempfile::Builder::new().permissions(mode).tempfile_in(dir).with_context(cannot)?;
    let mut text = std::io::BufWriter::new(&mut file);
    serde_json::to_writer(&mut text, &model.to_jgf()).with_context(cannot)?;
    text.write_all(b"\n").and_then(|()| text.flush()).with_context(cannot)?;
    drop(text);
    let done = if force { file.persist(output) } else { file.persist_noclobber(output) };
    done.map_err(|error| match error.error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(),
        _ => anyhow::Error::new(error.error).context(cannot()),
    })?;
    let (from, vertices) = (source.name(), model.vertices().count());
    render::line(format!("{name}: jgf from {from}, {vertices} vertices"))
}
