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

/// Makes the names of the files in the folder of a path durable.
///
/// # Errors
/// The error of the file system.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

/// Writes a file in place of an existing one. A reader sees the old content or the new one. The new content and its name are on the disk
/// when the function returns. `mode` has the bits of the file's mode; those of the umask are removed.
///
/// # Errors
/// The error of the file system; the file is then unchanged, except after a failed sync of the folder.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    Draft::write(path, bytes, mode)?.place()?;
    sync_folder(path)
}
