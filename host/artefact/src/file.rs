//! Files that are written as a whole or not at all. Must never know their content.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A content that is on the disk and does not have its name yet. Dropped, it is removed.
pub(crate) struct Draft {
    file: tempfile::NamedTempFile,
    path: PathBuf,
}

impl Draft {
    /// Writes the content beside `path`. `mode` has the bits of the file's mode; those of the umask are removed.
    ///
    /// # Errors
    /// The error of the file system, such as a full disk; nothing has changed then.
    pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<Draft> {
        let permissions = Permissions::from_mode(mode);
        let mut builder = tempfile::Builder::new();
        let mut file = builder.permissions(permissions).suffix(".draft").tempfile_in(folder(path))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        Ok(Draft { file, path: path.to_owned() })
    }

    /// Gives the content its name, in place of an existing file. The folder is not synced.
    ///
    /// # Errors
    /// The error of the file system; the file is then unchanged.
    pub(crate) fn place(self) -> io::Result<()> {
        self.file.persist(self.path).map(drop).map_err(|error| error.error)
    }
}

/// The folder of a path.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens the folder of a path; a sync of it makes the names of its files durable. It is opened before a file changes, so that a folder
/// that cannot be read is an error before the change, and not after it.
///
/// # Errors
/// The error of the file system.
pub(crate) fn open_folder(path: &Path) -> io::Result<File> {
    File::open(folder(path))
}

/// Writes a file in place of an existing one. A reader sees the old content or the new one. The new content and its name are on the disk
/// when the function returns. `mode` has the bits of the file's mode; those of the umask are removed.
///
/// # Errors
/// The error of the file system, also if the folder cannot be read; the file is then unchanged. Only where the disk fails in the sync of
/// the folder, the file is the new one.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = open_folder(path)?;
    Draft::write(path, bytes, mode)?.place()?;
    folder.sync_all()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{fs, thread};

    use nix::unistd::{Uid, geteuid, setfsuid};

    use super::*;

    /// The user of the calls that root makes: permissions do not bind root.
    const OTHER: u32 = 65_534;

    /// The result of a call while this folder can be written and searched, but not read. Nothing in it can be made durable.
    pub(crate) fn while_unreadable<T: Send>(folder: &Path, call: impl FnOnce() -> T + Send) -> T {
        fs::set_permissions(folder, Permissions::from_mode(0o333)).unwrap();
        let calling = || {
            // The user of the file system is that of one thread.
            if geteuid().is_root() {
                setfsuid(Uid::from_raw(OTHER));
            }
            assert!(fs::read_dir(folder).is_err(), "permissions bind this user");
            call()
        };
        let result = thread::scope(|scope| scope.spawn(calling).join());
        fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
        result.unwrap()
    }

    #[test]
    fn a_file_in_a_folder_that_cannot_be_synced_is_unchanged() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("file");
        write(&path, b"old", 0o644).unwrap();
        assert!(while_unreadable(tmp.path(), || write(&path, b"new", 0o644)).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 1, "no draft is left");
        write(&path, b"new", 0o644).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}
