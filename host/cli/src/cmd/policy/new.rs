//! `fluxgate policy new`: a folder that builds and passes its test, SDK and contract included.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_languages::scaffold::{self, Language};
use fluxgate_languages::template::{self, Template};
use fluxgate_languages::weights::FILE_BYTES_MAX;

use serde_json::json;

use super::answers::said;
use crate::fail::usage;

/// Write the folder; nothing is left behind when that fails half-way. `made_of` is a template and its file.
pub(crate) fn run(
    name: &str,
    language: &str,
    made_of: Option<(&str, &Path)>,
    path: Option<&Path>,
    as_json: bool,
) -> Result<()> {
    let files = match made_of {
        Some((template, file)) => {
            let template = Template::named(template).map_err(usage)?;
            scaffold::check_name(name).map_err(usage)?;
            let named = || file.display().to_string();
            let size = std::fs::metadata(file).with_context(named)?.len();
            if size > FILE_BYTES_MAX as u64 {
                bail!("{}: has {size} bytes; at most {FILE_BYTES_MAX} are accepted", file.display());
            }
            let bytes = std::fs::read(file).with_context(named)?;
            template::files(template, name, &bytes).map_err(|wrong| anyhow!("{}: {wrong}", file.display()))?
        }
        None => {
            let language = Language::named(language).map_err(usage)?;
            let files = scaffold::files(language, name).map_err(usage)?;
            files.into_iter().map(|(path, text)| (path, text.into_bytes())).collect()
        }
    };
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

fn write(folder: &Path, files: &[(String, Vec<u8>)]) -> Result<()> {
    for (path, content) in files {
        let file = folder.join(path);
        let parent = file.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        std::fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
