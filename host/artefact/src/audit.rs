//! The audit trail of policies: lines of JSON, appended, never changed.
//!
//! The file belongs to the user that runs the scheduler, and no other user can read it. At its bound a file is
//! renamed to `.1`, the former `.1` to `.2`, and so on; the oldest is removed. A reader sees all of them as one.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::file::open_folder;

/// Size at which a file is closed, bytes.
pub const FILE_BYTES_MAX: u64 = 4 << 20;
/// Closed files that are kept.
pub const FILES_MAX: u32 = 8;
/// Longest line that is written, bytes; a longer one is cut to a note of its size.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// The audit trail of one file and its older ones; see the [module](self).
#[derive(Debug, Clone)]
pub struct Trail {
    path: PathBuf,
    bytes_max: u64,
}

impl Trail {
    /// The trail in this file, which is created at the first entry.
    pub fn at(path: &Path) -> Trail {
        Trail { path: path.to_owned(), bytes_max: FILE_BYTES_MAX }
    }

    /// The same with another size, in bytes, at which a file is closed. The entry that reaches it is still whole.
    pub fn with_bytes_max(self, bytes_max: u64) -> Trail {
        Trail { bytes_max, ..self }
    }

    /// Path of the newest file; the older ones have `.1` to `.8` behind it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn older(&self, number: u32) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        name.into()
    }

    /// Appends one entry, which is on the disk when this returns, as is the name of a new file. After a line that a crash cut short the
    /// entry begins a line of its own. Folders of the path are created if missing, with the mode of the umask.
    ///
    /// # Errors
    /// The error of the file system. The entry is then not certain to be in the trail.
    pub fn append(&self, entry: &Value) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|meta| meta.len() >= self.bytes_max) {
            for number in (1..FILES_MAX).rev() {
                rename(&self.older(number), &self.older(number + 1))?;
            }
            rename(&self.path, &self.older(1))?;
        }
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut line = serde_json::to_string(entry)?;
        if line.len() > LINE_BYTES_MAX {
            let (what, time) = (&entry["what"], &entry["time"]);
            line = serde_json::json!({"time": time, "what": what, "bytes-left-out": line.len()}).to_string();
        }
        line.push('\n');
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let mut file = options.custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits()).open(&self.path)?;
        let len = file.metadata()?.len();
        if let Some(last) = len.checked_sub(1) {
            let mut end = [0];
            file.read_exact_at(&mut end, last)?;
            if end != *b"\n" {
                line.insert(0, '\n');
            }
        }
        let folder = if len == 0 { Some(open_folder(&self.path)?) } else { None };
        // One write, so that lines of several writers do not mix.
        file.write_all(line.as_bytes())?;
        file.sync_data()?;
        folder.map_or(Ok(()), |folder| folder.sync_all())
    }

    /// All entries of all files, the oldest first; empty without a file. A line that a crash cut short is left out.
    ///
    /// # Errors
    /// The error of the file system, other than a missing file.
    pub fn read(&self) -> io::Result<Vec<Value>> {
        let mut entries = Vec::new();
        let files = (1..=FILES_MAX).rev().map(|number| self.older(number)).chain([self.path.clone()]);
        for path in files {
            let file = match fs::File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for line in BufReader::new(file).split(b'\n') {
                if let Ok(entry) = serde_json::from_slice(&line?) {
                    entries.push(entry);
                }
            }
        }
        Ok(entries)
    }
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;
    use crate::file::tests::while_unreadable;

    #[test]
    fn an_entry_that_is_refused_is_not_in_the_trail() {
        let tmp = tempfile::tempdir().unwrap();
        let trail = Trail::at(&tmp.path().join("audit.jsonl"));
        assert!(while_unreadable(tmp.path(), || trail.append(&json!({"what": "load"}))).is_err());
        assert_eq!(trail.read().unwrap(), [] as [Value; 0]);
        trail.append(&json!({"what": "load"})).unwrap();
        assert_eq!(trail.read().unwrap(), [json!({"what": "load"})]);
    }

    #[test]
    fn appended_rotated_and_read_in_order() {
        let tmp = tempfile::tempdir().unwrap();
        let trail = Trail::at(&tmp.path().join("state/audit.jsonl")).with_bytes_max(64);
        assert_eq!(trail.read().unwrap(), [] as [Value; 0]);
        for number in 0..100 {
            trail.append(&json!({"time": number, "what": "swap"})).unwrap();
        }
        let times: Vec<u64> = trail.read().unwrap().iter().map(|e| e["time"].as_u64().unwrap()).collect();
        assert_eq!(times.last(), Some(&99));
        assert!(times.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{times:?}");
        assert!(times.len() < 40, "the oldest are gone: {times:?}");
        let files = fs::read_dir(tmp.path().join("state")).unwrap().count();
        assert_eq!(files, FILES_MAX as usize + 1);
        for file in fs::read_dir(tmp.path().join("state")).unwrap() {
            assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_line_cut_short_and_one_too_long() {
        let tmp = tempfile::tempdir().unwrap();
        let trail = Trail::at(&tmp.path().join("audit.jsonl"));
        trail.append(&json!({"what": "load"})).unwrap();
        let mut file = OpenOptions::new().append(true).open(trail.path()).unwrap();
        // Inside of a name, and inside of a character.
        for cut in [&b"{\"what\": \"sw"[..], "{\"name\": \"\u{e9}".as_bytes().split_last().unwrap().1] {
            file.write_all(cut).unwrap();
            trail.append(&json!({"what": "unload"})).unwrap();
        }
        trail.append(&json!({"what": "swap", "settings": "x".repeat(LINE_BYTES_MAX)})).unwrap();
        let entries = trail.read().unwrap();
        let what: Vec<&str> = entries.iter().map(|entry| entry["what"].as_str().unwrap()).collect();
        assert_eq!(what, ["load", "unload", "unload", "swap"]);
        assert!(entries[3]["bytes-left-out"].as_u64().unwrap() > LINE_BYTES_MAX as u64);
    }
}
