//! A disk in memory with random faults: short writes, a full disk, errors of every call, bytes and files lost in a
//! crash, flipped bits. [`Disk`] says what a crash may leave.

use std::collections::BTreeMap;
use std::io::{Cursor, Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use fluxgate_journal::disk::Content;
use fluxgate_journal::{Disk, DiskFile, OpenError};

#[derive(Debug, Clone, Default)]
struct Inode {
    bytes: Vec<u8>,
    /// The content at the last sync.
    durable: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    dice: u64,
    /// One call in this many fails; 0 for none.
    fail_in: u64,
    capacity: usize,
    inodes: Vec<Inode>,
    /// The folder after each change since its last sync, the oldest first.
    folders: Vec<BTreeMap<PathBuf, usize>>,
    claimed: bool,
}

/// The disk; see the module. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct Faulty(Arc<Mutex<State>>);

#[derive(Debug)]
struct Handle(Faulty, usize);

impl State {
    fn dice(&mut self, sides: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % sides
    }

    fn fails(&mut self) -> Result<()> {
        match self.fail_in > 0 && self.dice(self.fail_in) == 0 {
            true => Err(Error::other("input/output error")),
            false => Ok(()),
        }
    }

    fn folder(&self) -> &BTreeMap<PathBuf, usize> {
        self.folders.last().unwrap()
    }

    fn inode(&self, path: &Path) -> Result<usize> {
        self.folder().get(path).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn change(&mut self, change: impl FnOnce(&mut BTreeMap<PathBuf, usize>) -> Option<usize>) {
        let mut folder = self.folder().clone();
        change(&mut folder);
        self.folders.push(folder);
    }

    fn used(&self) -> usize {
        self.folder().values().map(|inode| self.inodes[*inode].bytes.len()).sum()
    }
}

impl Faulty {
    pub fn new(seed: u64, capacity: usize) -> Faulty {
        let folders = vec![BTreeMap::new()];
        Faulty(Arc::new(Mutex::new(State { dice: seed, capacity, folders, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// From now on one call in this many fails; 0 for none.
    pub fn fail_in(&self, calls: u64) {
        self.state().fail_in = calls;
    }

    /// Sets the capacity in bytes.
    pub fn set_capacity(&self, bytes: usize) {
        self.state().capacity = bytes;
    }

    /// Bytes of all files.
    pub fn used(&self) -> usize {
        self.state().used()
    }

    /// The process that wrote was killed: its lock is gone.
    pub fn unclaim(&self) {
        self.state().claimed = false;
    }

    /// A loss of power.
    pub fn crash(&self) {
        let mut state = self.state();
        state.claimed = false;
        let folders = state.folders.len() as u64;
        let kept = state.dice(folders) as usize;
        state.folders = vec![state.folders.swap_remove(kept)];
        for at in 0..state.inodes.len() {
            let Inode { mut bytes, durable } = state.inodes[at].clone();
            // Cut anywhere after the durable part, or with zeros in place of some blocks.
            let fresh = bytes.len().saturating_sub(durable.len()) as u64;
            let cut = durable.len().min(bytes.len()) + state.dice(fresh + 1) as usize;
            if state.dice(2) == 0 {
                bytes.truncate(cut);
            } else {
                for block in bytes[cut..].chunks_mut(512) {
                    if state.dice(2) == 0 {
                        block.fill(0);
                    }
                }
            }
            state.inodes[at] = Inode { durable: bytes.clone(), bytes };
        }
    }

    /// Flips a bit of a file.
    pub fn flip(&self) {
        let mut state = self.state();
        let full: Vec<usize> =
            state.folder().values().copied().filter(|inode| !state.inodes[*inode].bytes.is_empty()).collect();
        if full.is_empty() {
            return;
        }
        let inode = full[state.dice(full.len() as u64) as usize];
        let length = state.inodes[inode].bytes.len() as u64;
        let at = state.dice(length) as usize;
        let bit = state.dice(8);
        state.inodes[inode].bytes[at] ^= 1 << bit;
    }
}

impl Disk for Faulty {
    fn claim(&mut self, folder: &Path) -> std::result::Result<(), OpenError> {
        let mut state = self.state();
        match std::mem::replace(&mut state.claimed, true) {
            true => Err(OpenError::Taken(folder.to_owned())),
            false => Ok(()),
        }
    }

    fn list(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let mut state = self.state();
        state.fails()?;
        if state.inode(folder).is_ok() {
            return Err(ErrorKind::NotADirectory.into());
        }
        Ok(state.folder().keys().rev().cloned().collect())
    }

    fn open(&self, path: &Path) -> Result<(Content, u64)> {
        let mut state = self.state();
        state.fails()?;
        let bytes = state.inodes[state.inode(path)?].bytes.clone();
        let length = bytes.len() as u64;
        Ok((Box::new(Cursor::new(bytes)), length))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.fails()?;
        if state.inode(path).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let inode = state.inodes.len();
        state.inodes.push(Inode::default());
        state.change(|folder| folder.insert(path.to_owned(), inode));
        Ok(Box::new(Handle(self.clone(), inode)))
    }

    fn truncate(&self, path: &Path, bytes: u64) -> Result<()> {
        let inode = self.state().inode(path)?;
        Handle(self.clone(), inode).truncate(bytes)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut state = self.state();
        state.fails()?;
        state.inode(path)?;
        state.change(|folder| folder.remove(path));
        Ok(())
    }

    fn sync(&self, _: &Path) -> Result<()> {
        let mut state = self.state();
        state.fails()?;
        state.folders = vec![state.folder().clone()];
        Ok(())
    }
}

impl DiskFile for Handle {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut state = self.0.state();
        let failed = state.fails();
        let room = state.capacity.saturating_sub(state.used());
        let all = failed.is_ok() && bytes.len() <= room;
        let written = if all { bytes.len() } else { state.dice(bytes.len().min(room) as u64 + 1) as usize };
        state.inodes[self.1].bytes.extend_from_slice(&bytes[..written]);
        match all {
            true => Ok(()),
            false => failed.and_then(|()| Err(ErrorKind::StorageFull.into())),
        }
    }

    fn truncate(&mut self, bytes: u64) -> Result<()> {
        let mut state = self.0.state();
        state.fails()?;
        state.inodes[self.1].bytes.truncate(bytes as usize);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let mut state = self.0.state();
        state.fails()?;
        let inode = &mut state.inodes[self.1];
        inode.durable.clone_from(&inode.bytes);
        Ok(())
    }
}
