//! Removal of the files of an instance from its folder.
//!
//! A file is removed only if an instance makes files of its name, and only from a folder with the records of one that
//! has ended. No symbolic link is followed. This module must never remove a folder with anything else in it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use fluxgate_formats::JobId;
use nix::fcntl::{Flock, FlockArg};

use crate::config::SOCKET;
use crate::error::InstanceError;
use crate::runner::OUTPUT;
use crate::store::{DATABASE, LAYOUT, LOCK, StoreError, open_reader};

/// Removes the files of the ended instance of a folder, those that `others` names (files that the caller has put
/// beside them), and then the folder. Returns the names of the other files and folders in it, sorted; if there are any, the folder
/// stays.
///
/// # Errors
/// A folder without an instance's records, one whose instance runs, or a database that cannot be read: nothing is
/// removed. Otherwise the error of the file system.
pub fn purge(dir: &Path, others: &[&str]) -> Result<Vec<PathBuf>, InstanceError> {
    Ok(purge_folder(dir, others)?)
}

fn purge_folder(dir: &Path, others: &[&str]) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| StoreError::Io { path, source }
    };
    let none = || StoreError::NoInstance { path: dir.to_owned() };
    let (lock, database) = (dir.join(LOCK), dir.join(DATABASE));
    if !is_file(&lock) || !is_file(&database) {
        return Err(none());
    }
    let file = fs::File::open(&lock).map_err(failed(&lock))?;
    let _lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| StoreError::InUse { path: dir.to_owned() })?;
    if !has_records(&database).map_err(|source| StoreError::Sql { path: database.clone(), source })? {
        return Err(none());
    }
    let output = dir.join(OUTPUT);
    if fs::symlink_metadata(&output).is_ok_and(|meta| meta.is_dir()) {
        for name in names(&output).map_err(failed(&output))? {
            let path = output.join(&name);
            let stem = path.extension().filter(|kind| *kind == "out" || *kind == "err").and(path.file_stem());
            if stem.and_then(|stem| stem.to_str()).is_some_and(is_job) {
                remove_file(&path).map_err(failed(&path))?;
            }
        }
        if names(&output).map_err(failed(&output))?.is_empty() {
            fs::remove_dir(&output).map_err(failed(&output))?;
        }
    }
    // The lock is removed last.
    let beside = ["-wal", "-shm", "-journal", ""].map(|end| format!("{DATABASE}{end}"));
    for name in others.iter().copied().chain([SOCKET]).chain(beside.iter().map(String::as_str)).chain([LOCK])
    {
        let path = dir.join(name);
        remove_file(&path).map_err(failed(&path))?;
    }
    let left = names(dir).map_err(failed(dir))?;
    if left.is_empty() {
        fs::remove_dir(dir).map_err(failed(dir))?;
    }
    Ok(left)
}

/// True for a job id as in the names of output files.
fn is_job(stem: &str) -> bool {
    stem.parse::<JobId>().is_ok_and(|id| id.to_f58_ascii() == stem)
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file())
}

/// True for the database of an instance.
fn has_records(database: &Path) -> rusqlite::Result<bool> {
    let connection = open_reader(database)?;
    let layout: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let query = "SELECT COUNT(*) FROM fact WHERE name = 'epoch'";
    Ok(layout == LAYOUT && connection.query_row(query, [], |row| row.get::<_, i64>(0))? == 1)
}

/// Names in a folder, sorted.
fn names(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names = fs::read_dir(dir)?
        .map(|entry| Ok(PathBuf::from(entry?.file_name())))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Removes a file or socket, if it exists. A folder or a symbolic link of its name stays.
fn remove_file(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() || meta.is_symlink() => Ok(()),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
