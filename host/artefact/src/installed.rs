//! The components installed in a folder of policies. A reader of the folder sees a whole file or none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::file::{Draft, open_folder};
use crate::keys::signature_path;

/// Mode of an installed file: all users may read it.
const MODE: u32 = 0o644;

/// Installs a component as `NAME.wasm`, in place of one of that name, with its signature if it has one; returns its path. Both are on the disk
/// before the first of them gets its name, the signature first: a signed component is never installed without its signature. The
/// folder is created if missing.
///
/// # Errors
/// The error of the file system. If a content cannot be written, such as on a full disk, or the folder cannot be read, nothing has
/// changed. If a file cannot get its name, the signature may be the new one or removed and the component the old one.
pub fn put(folder: &Path, name: &str, component: &[u8], signature: Option<&str>) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("{name}.wasm"));
    let signed = signature_path(&path);
    let opened = open_folder(&path)?;
    let signature = signature.map(|text| Draft::write(&signed, text.as_bytes(), MODE)).transpose()?;
    let component = Draft::write(&path, component, MODE)?;
    match signature {
        Some(signature) => signature.place()?,
        None => {
            // The signature of the component that is replaced is not valid for the new one.
            absent(fs::remove_file(signed))?;
        }
    }
    component.place()?;
    opened.sync_all()?;
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
    use crate::file::tests::while_unreadable;

    #[test]
    fn a_folder_that_cannot_be_synced_keeps_component_and_signature() {
        let tmp = tempfile::tempdir().unwrap();
        let path = put(tmp.path(), "mine", b"one", Some("signature")).unwrap();
        assert!(while_unreadable(tmp.path(), || put(tmp.path(), "mine", b"two", None)).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read(signature_path(&path)).unwrap(), b"signature");
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 2, "no draft is left");
    }

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
        fs::create_dir(folder.join("taken.wasm")).unwrap();
        assert!(put(&folder, "taken", b"x", None).is_err());
        assert_eq!(names(), ["taken.wasm"]);
    }
}
