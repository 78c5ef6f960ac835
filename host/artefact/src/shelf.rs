//! Files of a folder of policies: put there and taken away so that whoever reads sees all of one or nothing.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::file::write;
use crate::keys::signature_path;

/// Files on a shelf are for everybody to read.
const MODE: u32 = 0o644;

/// Put a component, with its signature if it has one, on a shelf as `NAME.wasm`, in place of one of that name. The
/// signature comes first and leaves last: a component is never without one that it had.
///
/// # Errors
/// What the file system says; then all is as it was.
pub fn put(folder: &Path, name: &str, component: &[u8], signature: Option<&str>) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("{name}.wasm"));
    match signature {
        Some(text) => write(&signature_path(&path), text.as_bytes(), MODE)?,
        None => {
            // A signature of what was there says nothing of what comes.
            absent(fs::remove_file(signature_path(&path)))?;
        }
    }
    write(&path, component, MODE)?;
    File::open(folder)?.sync_all()?;
    Ok(path)
}

/// Take a component away, with its signature. False if it was not there.
///
/// # Errors
/// What the file system says.
pub fn take(folder: &Path, name: &str) -> io::Result<bool> {
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
    fn put_replaced_and_taken() {
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
        assert!(take(&folder, "mine").unwrap());
        assert!(!take(&folder, "mine").unwrap());
        assert_eq!(names(), [""; 0]);
        // Where nothing can be written nothing is left.
        fs::write(tmp.path().join("file"), "").unwrap();
        assert!(put(&tmp.path().join("file"), "mine", b"x", None).is_err());
    }
}
