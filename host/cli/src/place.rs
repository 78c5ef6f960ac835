//! The place of an embedded instance: its folder, its socket, its files.
//!
//! A folder belongs to one user, mode 0700: no other user may read socket, job records and output in it.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use fluxgate_instance::config::SOCKET;

use crate::args::Target;

/// Holds the process id of the instance.
const PID: &str = "instance.pid";
/// Log of a detached instance and its scheduler.
const LOG: &str = "log";

/// The folder of an instance.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
}

impl Place {
    /// The folder that the user named, or the default one.
    pub(crate) fn of(target: &Target) -> Place {
        let dir = target.dir.clone().unwrap_or_else(|| match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(run) if !run.is_empty() => Path::new(&run).join("fluxgate"),
            _ => std::env::temp_dir().join(format!("fluxgate-{}", nix::unistd::getuid())),
        });
        // Without a slash at the end, which would lead through a symbolic link.
        Place { dir: std::path::absolute(&dir).unwrap_or(dir).components().collect() }
    }

    /// Make the folder, or check that an existing one belongs to this user alone.
    pub(crate) fn prepare(&self) -> Result<()> {
        if !self.dir.exists() {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.dir)
                .with_context(|| format!("cannot make the instance's folder {}", self.dir.display()))?;
        }
        self.check_owned()?;
        // A socket path longer than sun_path cannot be bound; say so before anything starts.
        let length = self.socket().as_os_str().len();
        if length > 107 {
            bail!(
                "{}: the socket's path would have {length} bytes, at most 107 are possible",
                self.dir.display()
            );
        }
        Ok(())
    }

    /// Check that the folder is one, and the user's alone.
    fn check_owned(&self) -> Result<()> {
        let meta = std::fs::symlink_metadata(&self.dir)
            .with_context(|| format!("cannot look at the instance's folder {}", self.dir.display()))?;
        if !meta.is_dir() {
            bail!("{} is not a folder", self.dir.display());
        }
        let owner = nix::unistd::geteuid().as_raw();
        if meta.uid() != owner {
            bail!(
                "{} belongs to user {}, not to you ({owner}): name another folder with --dir",
                self.dir.display(),
                meta.uid()
            );
        }
        if meta.mode() & 0o077 != 0 {
            bail!(
                "{} is open to others (mode {:03o}): expected 700, for the socket and job records in it",
                self.dir.display(),
                meta.mode() & 0o777
            );
        }
        Ok(())
    }

    /// True if there is a folder of this name. A folder that is not of this user alone is an error.
    pub(crate) fn may_purge(&self) -> Result<bool> {
        if std::fs::symlink_metadata(&self.dir).is_err() {
            return Ok(false);
        }
        self.check_owned()?;
        Ok(true)
    }

    /// Remove the files of the ended instance, and the folder if it is empty then. Returns the names of other files.
    pub(crate) fn purge(&self) -> Result<Vec<PathBuf>> {
        Ok(fluxgate_instance::purge(&self.dir, &[PID, LOG])?)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join(SOCKET)
    }

    pub(crate) fn uri(&self) -> String {
        format!("local://{}", self.socket().display())
    }

    pub(crate) fn pid_file(&self) -> PathBuf {
        self.dir.join(PID)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join(LOG)
    }

    /// The instance's process, if its pid file names one that lives. Another process may have the number of a
    /// killed instance, so the process must have been started by `up`.
    pub(crate) fn living_pid(&self) -> Option<nix::unistd::Pid> {
        let pid: i32 = std::fs::read_to_string(self.pid_file()).ok()?.trim().parse().ok()?;
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let is_instance = arguments.split(|byte| *byte == 0).any(|argument| argument == b"up");
        is_instance.then(|| nix::unistd::Pid::from_raw(pid))
    }
}

/// The URI to connect to: named by the user, or the socket of the instance's folder. A folder that is not this user's alone is
/// refused: its listener would be sent environments and commands.
pub(crate) fn uri(target: &Target) -> Result<String> {
    if let Some(uri) = &target.uri {
        return Ok(uri.clone());
    }
    let place = Place::of(target);
    if std::fs::symlink_metadata(&place.dir).is_ok() {
        place.check_owned()?;
    }
    Ok(place.uri())
}
