//! Files that are written as a whole or not at all. Must never know their content.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Writes a file in place of an existing one. A reader sees the old content or the new one. The new content is on the disk before it
/// takes the name; the folder is not synced, so a power failure may bring the old content back. `mode` has the bits of the file's mode;
/// those of the umask are removed.
///
/// # Errors
/// The error of the file system; the file is then unchanged.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = Permissions::from_mode(mode);
    let mut draft = tempfile::Builder::new().permissions(permissions).suffix(".draft").tempfile_in(folder)?;
    draft.write_all(bytes)?;
    draft.as_file().sync_all()?;
    draft.persist(path).map(drop).map_err(|error| error.error)
}
