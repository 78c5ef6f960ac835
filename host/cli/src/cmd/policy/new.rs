//! `fluxgate policy new`: a folder that builds and passes its test, SDK and contract included.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fluxgate_languages::scaffold::{self, Language};

use serde_json::json;

use super::answers::said;
use crate::fail::usage;

/// Write the folder; nothing is left behind when that fails half-way.
pub(crate) fn run(name: &str, language: &str, path: Option<&Path>, as_json: bool) -> Result<()> {
    let language = Language::named(language).map_err(usage)?;
    let files = scaffold::files(language, name).map_err(usage)?;
    let folder = path.map_or_else(|| PathBuf::from(name), Path::to_owned);
    if folder.exists() {
        bail!("{}: there is something already", folder.display());
    }
    if let Err(error) = write(&folder, &files) {
        let _ = std::fs::remove_dir_all(&folder);
        return Err(error);
    }
    let files: Vec<&String> = files.iter().map(|(path, _)| path).collect();
    said(&json!({"folder": folder, "name": name, "files": files}), as_json, || {
        format!(
            "{0}: a new policy; its README.md says which tools it needs. Try\n  fluxgate policy test {0}\n  fluxgate policy build {0}",
            folder.display()
        )
    })
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
