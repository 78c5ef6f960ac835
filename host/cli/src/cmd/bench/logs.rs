//! Logs by hash: the files of some folders whose bytes have one of the wanted SHA-256.
//!
//! Must never know what a log is for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::args::Logs;
use crate::files::sha256;

/// Files that are larger are no logs.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Most files that are read.
const FILES_MAX: usize = 10_000;
/// Greatest depth of folders.
const DEPTH_MAX: usize = 8;

/// The folders that were named.
fn folders(logs: &Logs) -> Result<Vec<PathBuf>> {
    let named = match std::env::var_os("FLUXGATE_LOGS") {
        Some(folders) if logs.folders.is_empty() => std::env::split_paths(&folders).collect(),
        _ => logs.folders.clone(),
    };
    if let Some(missing) = named.iter().find(|folder| !folder.is_dir()) {
        bail!("--logs {}: no such folder", missing.display());
    }
    Ok(named)
}

/// The files of a folder and of those in it, in the order of their names.
fn files(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let Ok(about) = std::fs::metadata(&path) else { continue };
        if about.is_dir() && depth < DEPTH_MAX {
            files(&path, depth + 1, found)?;
        } else if about.is_file() && about.len() <= FILE_BYTES_MAX {
            found.push(path);
        }
        if found.len() > FILES_MAX {
            bail!("--logs {}: more than {FILES_MAX} files", folder.display());
        }
    }
    Ok(())
}

/// The files with these hashes, by hash.
pub(super) fn find(logs: &Logs, wanted: &BTreeSet<&str>) -> Result<BTreeMap<String, PathBuf>> {
    let (mut all, mut found) = (Vec::new(), BTreeMap::new());
    for folder in folders(logs)? {
        files(&folder, 0, &mut all)?;
    }
    for path in all {
        if found.len() == wanted.len() {
            break;
        }
        // A file that cannot be read is not the one.
        let Ok(hash) = sha256(&path) else { continue };
        if wanted.contains(hash.as_str()) {
            found.entry(hash).or_insert(path);
        }
    }
    Ok(found)
}
