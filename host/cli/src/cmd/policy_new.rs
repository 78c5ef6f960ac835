//! `fluxgate policy new`: a folder that builds and passes its test, SDK and contract included.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fluxgate_guest::scaffold;

use crate::fail::usage;
use crate::render;

/// Write the folder; nothing is left behind when that fails half-way.
pub(crate) fn run(name: &str, path: Option<&Path>) -> Result<()> {
    let files = scaffold::files(name).map_err(usage)?;
    let folder = path.map_or_else(|| PathBuf::from(name), Path::to_owned);
    if folder.exists() {
        bail!("{}: there is something already", folder.display());
    }
    if let Err(error) = write(&folder, &files) {
        let _ = std::fs::remove_dir_all(&folder);
        return Err(error);
    }
    render::line(format!(
        "{0}: a new policy; try\n  cd {0}\n  cargo test\n  cargo build --release --target wasm32-unknown-unknown",
        folder.display()
    ))
}

fn write(folder: &Path, files: &[(String, String)]) -> Result<()> {
    for (path, text) in files {
        let file = folder.join(path);
        let parent = file.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
