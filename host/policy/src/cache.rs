//! Compiled components on disk, so that the second start of a scheduler compiles nothing.
//!
//! An entry is native code that is run without any further check, so the origin of an entry decides everything. It
//! must have been written by this user, through this module: the folder belongs to the user and no other user can
//! enter it; each file belongs to the user and no other user can write it; each file begins with a checksum under the
//! name of the lookup. Any other file is not an entry, and the component is compiled again. Users hand in components,
//! never compiled code.
//!
//! The key of an entry is the digest of the component and everything on which the compiler's output depends (its
//! version, settings and processor features).
//!
//! This is the only module of the crate with unsafe code of its own.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::stat::futimens;
use nix::sys::time::TimeSpec;
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::digest::{Digest, hex};
use crate::error::LoadError;
use crate::limits::Limits;

/// First bytes of an entry; the number is the version of this layout.
const MAGIC: &[u8; 8] = b"fxgpol 1";
/// Magic, key, checksum of the rest.
const HEADER_BYTES: usize = 8 + 32 + 32;
/// Ending of an entry's file name.
const SUFFIX: &str = ".compiled";
/// A larger entry was not written here: native code is a few times the size of its component.
pub(crate) const ENTRY_BYTES_MAX: u64 = 1 << 30;

/// A folder of compiled components.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    /// Hash of everything on which the compiler's output depends.
    compiler: [u8; 32],
    entries_max: usize,
    bytes_max: u64,
}

/// SHA-256 of values that only implement `Hash`.
struct Hashing(Sha256);

impl Hasher for Hashing {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

impl Cache {
    /// Opens `folder`, creating it if it is missing.
    ///
    /// # Errors
    /// [`LoadError::Cache`] if it cannot be created, belongs to another user, or other users can enter it.
    pub(crate) fn open(folder: &Path, engine: &Engine, limits: &Limits) -> Result<Cache, LoadError> {
        let refuse = |problem: String| LoadError::Cache { path: folder.to_owned(), problem };
        if let Err(error) = DirBuilder::new().recursive(true).mode(0o700).create(folder) {
            return Err(refuse(format!("cannot be made: {error}")));
        }
        let mut hashing = Hashing(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hashing);
        hashing.write(env!("CARGO_PKG_VERSION").as_bytes());
        let cache = Cache {
            folder: folder.to_owned(),
            compiler: hashing.0.finalize().into(),
            entries_max: limits.cache_entries as usize,
            bytes_max: limits.cache_bytes,
        };
        cache.trusted().map_err(refuse)?;
        Ok(cache)
    }

    /// Checks owner and mode of the folder. Called before every use, because modes change.
    fn trusted(&self) -> Result<(), String> {
        let meta =
            fs::symlink_metadata(&self.folder).map_err(|error| format!("cannot be looked at: {error}"))?;
        let (me, owner, mode) = (nix::unistd::geteuid().as_raw(), meta.uid(), meta.mode() & 0o7777);
        if !meta.is_dir() {
            return Err(
                "is not a folder; accepted is a folder that only its owner may enter (mode 0700)".to_owned()
            );
        }
        if owner != me {
            return Err(format!("belongs to user {owner}; accepted is a folder of user {me}"));
        }
        if mode & 0o077 != 0 {
            return Err(format!(
                "has mode {mode:04o}; accepted is a folder that only its owner may enter (chmod 0700)"
            ));
        }
        Ok(())
    }

    fn key(&self, component: &Digest) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(component.bytes());
        hash.update(self.compiler);
        hash.finalize().into()
    }

    fn path(&self, key: &[u8; 32]) -> PathBuf {
        self.folder.join(format!("{}{SUFFIX}", hex(key)))
    }

    /// The compiled component, if there is an entry that can be trusted. Any other case is a miss.
    pub(crate) fn get(&self, engine: &Engine, component: &Digest) -> Option<Component> {
        let key = self.key(component);
        let path = self.path(&key);
        let compiled = match self.trusted().map_err(io::Error::other).and_then(|()| read_entry(&path, &key)) {
            Ok(compiled) => compiled,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                ignored(&path, &error);
                return None;
            }
        };
        match deserialize(engine, &compiled) {
            Ok(component) => Some(component),
            Err(error) => {
                ignored(&path, &error);
                None
            }
        }
    }

    /// Stores a compiled component. A failure only costs time at the next start.
    pub(crate) fn put(&self, component: &Digest, compiled: &Component) {
        let key = self.key(component);
        let kept = self
            .trusted()
            .map_err(io::Error::other)
            .and_then(|()| compiled.serialize().map_err(|error| io::Error::other(error.to_string())))
            .and_then(|bytes| self.write_entry(&key, &bytes))
            .and_then(|()| self.prune(&self.path(&key)));
        if let Err(error) = kept {
            fluxgate_log::log!(CacheNotKept, folder = %self.folder.display(), %error, "compiled policy not kept");
        }
    }

    fn write_entry(&self, key: &[u8; 32], compiled: &[u8]) -> io::Result<()> {
        let mut draft = tempfile::Builder::new().suffix(".draft").tempfile_in(&self.folder)?;
        draft.write_all(MAGIC)?;
        draft.write_all(key)?;
        draft.write_all(&checksum(compiled))?;
        draft.write_all(compiled)?;
        draft.persist(self.path(key)).map(drop).map_err(|error| error.error)
    }

    /// Removes the entries beyond the limits that were not used for the longest time, and drafts that a crash left. The new entry stays
    /// in any case.
    fn prune(&self, new: &Path) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(SUFFIX) || name.ends_with(".draft") {
                let meta = entry.metadata()?;
                let path = entry.path();
                entries.push((path == new, meta.mtime(), meta.mtime_nsec(), path, meta.len()));
            }
        }
        entries.sort();
        let (mut kept, mut bytes) = (0, 0u64);
        for (_, _, _, path, len) in entries.into_iter().rev() {
            bytes = bytes.saturating_add(len);
            if kept > 0 && (kept >= self.entries_max || bytes > self.bytes_max) {
                let _ = fs::remove_file(path);
            }
            kept += 1;
        }
        Ok(())
    }
}

fn ignored(path: &Path, error: &dyn std::fmt::Display) {
    fluxgate_log::log!(CacheIgnored, path = %path.display(), %error, "compiled policy ignored; compiling anew");
}

fn checksum(compiled: &[u8]) -> [u8; 32] {
    Sha256::digest(compiled).into()
}

/// The bytes of an entry after its header, if this user wrote it and it is complete.
fn read_entry(path: &Path, key: &[u8; 32]) -> io::Result<Vec<u8>> {
    let bad = |problem: &str| io::Error::new(io::ErrorKind::InvalidData, problem.to_owned());
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let mut file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    // Metadata of the open file, not of the path, so that the file cannot be exchanged between check and use.
    let meta = file.metadata()?;
    if !meta.is_file() || meta.uid() != nix::unistd::geteuid().as_raw() || meta.mode() & 0o022 != 0 {
        return Err(bad("not a file that only this user may write"));
    }
    if meta.len() < HEADER_BYTES as u64 || meta.len() > ENTRY_BYTES_MAX {
        return Err(bad("of an impossible size"));
    }
    let mut bytes = Vec::with_capacity(meta.len() as usize);
    Read::by_ref(&mut file).take(ENTRY_BYTES_MAX).read_to_end(&mut bytes)?;
    compiled_code(&bytes, key).map_err(bad)?;
    // `prune` keeps the entries that were used last. If the time cannot be set, that of the writing counts.
    let _ = futimens(&file, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW);
    Ok(bytes.split_off(HEADER_BYTES))
}

/// The native code in a file of the folder of compiled components, looked up under this key: all bytes behind the header. The code
/// itself is not checked.
///
/// # Errors
/// The fault of the file, in words: it is cut short, of another version or key, or does not match its checksum.
pub fn compiled_code<'f>(file: &'f [u8], key: &[u8; 32]) -> Result<&'f [u8], &'static str> {
    let (header, compiled) = file.split_at_checked(HEADER_BYTES).ok_or("cut short")?;
    let (magic, rest) = header.split_at(MAGIC.len());
    let (named, sum) = rest.split_at(32);
    if magic != MAGIC || named != key {
        return Err("of another version or for another component");
    }
    if sum != checksum(compiled) {
        return Err("damaged");
    }
    Ok(compiled)
}

/// Native code becomes a component. `compiled` is from [`read_entry`] or from a compiler that this program started.
#[allow(unsafe_code)]
pub(crate) fn deserialize(engine: &Engine, compiled: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: `deserialize` demands bytes that `Component::serialize` or `Engine::precompile_component` produced, unmodified.
    // From `apart.rs` they come through a pipe that no other process has, from a process that runs the same executable as this
    // one and does nothing else, with a checksum over all of them. Otherwise `compiled` was read by `read_entry` from a file that belongs to the effective user, that no other user can write, in a folder that no
    // other user can enter. The only code that writes such files under the key looked up is `write_entry`, called
    // with the output of `serialize`. The checksum over all of it has just been compared, so it is neither cut nor
    // damaged. An attacker who can forge an entry under these conditions already runs code as this user.
    // `deserialize` itself checks that the bytes fit this engine.
    unsafe { Component::deserialize(engine, compiled) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, SystemTime};

    use super::*;

    const EMPTY: &str = "(component)";

    fn setup() -> (tempfile::TempDir, Engine, Digest, Component) {
        let engine = Engine::default();
        let bytes = wat::parse_str(EMPTY).unwrap();
        let component = Component::new(&engine, &bytes).unwrap();
        (tempfile::tempdir().unwrap(), engine, Digest::of(&bytes), component)
    }

    fn limits(cache_entries: u32) -> Limits {
        Limits { cache_entries, ..Limits::default() }
    }

    fn only_entry(folder: &Path) -> PathBuf {
        let names: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        names[0].clone()
    }

    #[test]
    fn what_was_put_is_found_and_what_was_damaged_is_not() {
        let (tmp, engine, digest, component) = setup();
        let cache = Cache::open(&tmp.path().join("a/b"), &engine, &limits(4)).unwrap();
        assert!(cache.get(&engine, &digest).is_none());
        cache.put(&digest, &component);
        assert!(cache.get(&engine, &digest).is_some());
        assert!(cache.get(&engine, &Digest::of(b"other")).is_none());

        let path = only_entry(&cache.folder);
        let whole = fs::read(&path).unwrap();
        for damaged in [&whole[..whole.len() - 1], &whole[..40], &b""[..]] {
            fs::write(&path, damaged).unwrap();
            assert!(cache.get(&engine, &digest).is_none());
        }
        for at in [0, 9, 50, 200] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&path, flipped).unwrap();
            assert!(cache.get(&engine, &digest).is_none(), "byte {at}");
        }
        cache.put(&digest, &component);
        assert!(cache.get(&engine, &digest).is_some(), "a damaged entry is replaced");
    }

    #[test]
    fn what_others_could_have_written_is_refused() {
        let (tmp, engine, digest, component) = setup();
        let folder = tmp.path().join("c");
        let cache = Cache::open(&folder, &engine, &limits(4)).unwrap();
        cache.put(&digest, &component);

        let path = only_entry(&folder);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(cache.get(&engine, &digest).is_none(), "a file that the group may write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(cache.get(&engine, &digest).is_some());

        fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(cache.get(&engine, &digest).is_none(), "a folder that the group may enter");
        let error = Cache::open(&folder, &engine, &limits(4)).unwrap_err().to_string();
        assert!(
            error.contains("has mode 0750; accepted is a folder that only its owner may enter"),
            "{error}"
        );
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();

        let elsewhere = tmp.path().join("entry");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(cache.get(&engine, &digest).is_none(), "a link");

        let link = tmp.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert!(Cache::open(&link, &engine, &limits(4)).unwrap_err().to_string().contains("is not a folder"));
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let (tmp, engine, _, component) = setup();
        let cache = Cache::open(&tmp.path().join("c"), &engine, &limits(3)).unwrap();
        for i in 0..5_u8 {
            cache.put(&Digest::of(&[i]), &component);
        }
        assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 3);
        assert!(cache.get(&engine, &Digest::of(&[4])).is_some());
    }

    #[test]
    fn the_bytes_of_all_entries_are_bounded() {
        let (tmp, engine, digest, component) = setup();
        let folder = tmp.path().join("c");
        Cache::open(&folder, &engine, &limits(9)).unwrap().put(&digest, &component);
        let each = fs::metadata(only_entry(&folder)).unwrap().len();
        for (cache_bytes, left) in [(3 * each, 3), (3 * each - 1, 2), (0, 1)] {
            let cache = Cache::open(&folder, &engine, &Limits { cache_bytes, ..limits(9) }).unwrap();
            for i in 0..5_u8 {
                cache.put(&Digest::of(&[i]), &component);
            }
            assert_eq!(fs::read_dir(&folder).unwrap().count(), left, "{cache_bytes} bytes");
        }
    }

    #[test]
    fn an_entry_in_use_outlives_newer_ones() {
        let (tmp, engine, _, component) = setup();
        let cache = Cache::open(&tmp.path().join("c"), &engine, &limits(3)).unwrap();
        for i in 0..3_u8 {
            let digest = Digest::of(&[i]);
            cache.put(&digest, &component);
            let written = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(i));
            File::open(cache.path(&cache.key(&digest))).unwrap().set_modified(written).unwrap();
        }
        assert!(cache.get(&engine, &Digest::of(&[0])).is_some());
        cache.put(&Digest::of(&[3]), &component);
        let left = [0, 1, 2, 3].map(|i| cache.get(&engine, &Digest::of(&[i])).is_some());
        assert_eq!(left, [true, false, true, true]);
    }
}
