//! Files that `fluxgate graph` writes: whole or not at all, and over another one only where that is allowed.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow};

/// Refuses to overwrite a file.
pub(super) fn refuse(path: &Path, force: bool) -> Result<()> {
    if !force && path.symlink_metadata().is_ok() {
        return Err(exists(path));
    }
    Ok(())
}

fn exists(path: &Path) -> anyhow::Error {
    anyhow!("{} exists; --force overwrites it", path.display())
}

/// Writes a file whole or not at all.
pub(super) fn write(
    path: &Path,
    force: bool,
    content: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    refuse(path, force)?;
    let cannot = || format!("cannot write {}", path.display());
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut file = tempfile::Builder::new().permissions(mode).tempfile_in(dir).with_context(cannot)?;
    let mut to = BufWriter::new(&mut file);
    content(&mut to).with_context(cannot)?;
    to.flush().with_context(cannot)?;
    drop(to);
    let done = if force { file.persist(path) } else { file.persist_noclobber(path) };
    match done {
        Ok(_) => Ok(()),
        Err(error) if !force && error.error.kind() == ErrorKind::AlreadyExists => Err(exists(path)),
        Err(error) => Err(error.error).with_context(cannot),
    }
}
