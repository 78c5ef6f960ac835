//! The components installed in a folder of policies. A reader of the folder sees a whole file or none.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::file::write;
use crate::keys::signature_path;

/// Mode of an installed file: all users may read it.
const MODE: u32 = 0o644;

/// Installs a component as `NAME.wasm`, in place of one of that name, with its signature if it has one; returns its path. The signature is
/// written, or that of the replaced component removed, before the component is: a signed component is never installed without its
/// signature, and the replaced one may lose its own. The folder is created if missing.
///
/// # Errors
/// The error of the file system. The component is then the old one or absent, except after a failed sync of the folder; its signature may
/// be the new one or removed.
pub fn put(folder: &Path, name: &str, component: &[u8], signature: Option<&str>) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("{name}.wasm"));
    match signature {
        Some(text) => write(&signature_path(&path), text.as_bytes(), MODE)?,
        None => {
            // The signature of the component that is replaced is not valid for the new one.
            absent(fs::remove_file(signature_path(&path)))?;
        }
    }
    write(&path, component, MODE)?;
    File::open(folder)?.sync_all()?;
    Ok(path)
}

/// Removes a component and then its signature. False if there was no such component; a signature alone is removed all the same.
///
/// # Errors
/// The error of the file system.
pub fn remove(folder: &Path, name: &str) -> io::Result<bool> {
    let path = folder.join(format!("{name}.wasm"));
    let there = absent(fs::remove_file(&path))?;
    absent(fs::remove_file(signature_path(&path)))?;
    Ok(there)
}

fn absent(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn put_replaced_and_removed() {
        let tmp = tempfile::tempdir().unwrap();
        let folder = tmp.path().join("a/b");
        let names = || {
            let mut names: Vec<String> = fs::read_dir(&folder)
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let path = put(&folder, "mine", b"one", Some("signature")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(names(), ["mine.wasm", "mine.wasm.minisig"]);
        put(&folder, "mine", b"two", None).unwrap();
        assert_eq!(names(), ["mine.wasm"], "the signature of another component is gone");
        assert!(remove(&folder, "mine").unwrap());
        assert!(!remove(&folder, "mine").unwrap());
        assert_eq!(names(), [""; 0]);
        // A failed installation leaves no file.
        fs::write(tmp.path().join("file"), "").unwrap();
        assert!(put(&tmp.path().join("file"), "mine", b"x", None).is_err());
    }
}
