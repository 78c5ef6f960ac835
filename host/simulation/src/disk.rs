//! The scheduler's disk: full, slow, failing, forgetful, or with a bit that flips; and the documents beside the journal.
//!
//! The possible remains of a loss of power are written down at [`fluxgate_journal::Disk`]. Must never know what is in a file.

use std::collections::BTreeMap;
use std::io::{Cursor, Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluxgate_journal::disk::Content;
use fluxgate_journal::{Disk, DiskFile, OpenError};

use crate::dice::Dice;

/// Bytes that are lost or zeroed together.
const BLOCK: usize = 512;

#[derive(Debug, Clone, Default)]
struct Inode {
    bytes: Vec<u8>,
    /// The content at the last sync.
    durable: Vec<u8>,
    /// The time of the first append that was not synced since, microseconds of the world.
    unsynced: Option<u64>,
}

#[derive(Debug)]
struct State {
    dice: Dice,
    /// Calls in a thousand that fail.
    failing: u64,
    /// Bytes that there is room for.
    room: usize,
    inodes: Vec<Inode>,
    /// The folder after each change since its last sync, the oldest first.
    folders: Vec<BTreeMap<PathBuf, usize>>,
    claimed: bool,
    /// Documents that are replaced as a whole, and the audit trail's number of entries.
    documents: BTreeMap<PathBuf, Vec<u8>>,
    entries: u64,
    /// The world's time.
    now: u64,
    /// A bit was flipped, or blocks were lost that were not synced.
    damaged: bool,
    /// Calls that failed.
    failures: u64,
    /// It was full or failing at some time.
    troubled: bool,
}

/// See the module text. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct Handle(SimulatedDisk, usize);

impl State {
    fn fails(&mut self) -> Result<()> {
        if self.failing > 0 && self.dice.often(self.failing) {
            self.failures += 1;
            return Err(Error::other("input/output error"));
        }
        Ok(())
    }

    fn folder(&self) -> BTreeMap<PathBuf, usize> {
        self.folders.last().cloned().unwrap_or_default()
    }

    fn inode(&self, path: &Path) -> Result<usize> {
        let inode = self.folders.last().and_then(|folder| folder.get(path).copied());
        inode.ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn used(&self) -> usize {
        let files = self.folders.last().into_iter().flat_map(|folder| folder.values());
        files.map(|inode| self.inodes[*inode].bytes.len()).sum()
    }
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new(dice: Dice) -> SimulatedDisk {
        SimulatedDisk(Arc::new(Mutex::new(State {
            dice,
            failing: 0,
            room: usize::MAX,
            inodes: Vec::new(),
            folders: vec![BTreeMap::new()],
            claimed: false,
            documents: BTreeMap::new(),
            entries: 0,
            now: 0,
            damaged: false,
            failures: 0,
            troubled: false,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this many calls in a thousand fail.
    pub fn set_failing(&self, per_mille: u64) {
        let mut state = self.state();
        state.troubled |= per_mille > 0;
        state.failing = per_mille;
    }

    /// From now on there is room for this many bytes more.
    pub fn set_room(&self, more: usize) {
        let mut state = self.state();
        state.troubled |= more < usize::MAX;
        state.room = state.used().saturating_add(more);
    }

    /// It is this time in the world.
    pub fn set_time(&self, now: u64) {
        self.state().now = now;
    }

    /// Was it never full or failing?
    pub fn is_well(&self) -> bool {
        !self.state().troubled
    }

    /// The longest wait of bytes of an existing file for a sync, microseconds.
    pub fn unsynced_for(&self) -> u64 {
        let state = self.state();
        let files = state.folders.last().into_iter().flat_map(|folder| folder.values());
        let since = files.filter_map(|inode| state.inodes[*inode].unsynced);
        since.min().map_or(0, |since| state.now.saturating_sub(since))
    }

    /// The process that used it is gone.
    pub fn released(&self) {
        let mut state = self.state();
        state.claimed = false;
        // Bytes that it did not sync stay unsynced, and wait for no sync any more.
        state.inodes.iter_mut().for_each(|inode| inode.unsynced = None);
    }

    /// Calls that failed, and whether a bit was flipped or blocks were lost.
    pub fn harm(&self) -> (u64, bool) {
        let state = self.state();
        (state.failures, state.damaged)
    }

    /// The power is lost.
    pub fn power_lost(&self) {
        let mut state = self.state();
        let kept = {
            let n = state.folders.len() as u64;
            state.dice.below(n)
        } as usize;
        let folder = state.folders.swap_remove(kept);
        state.folders = vec![folder];
        for at in 0..state.inodes.len() {
            let Inode { mut bytes, durable, .. } = std::mem::take(&mut state.inodes[at]);
            // Cut anywhere behind what is durable, or with zeros in the place of some blocks.
            let fresh = bytes.len().saturating_sub(durable.len()) as u64;
            let cut = durable.len().min(bytes.len()) + state.dice.below(fresh + 1) as usize;
            if state.dice.often(500) {
                bytes.truncate(cut);
            } else {
                state.damaged = true;
                for block in bytes[cut..].chunks_mut(BLOCK) {
                    if state.dice.often(500) {
                        block.fill(0);
                    }
                }
            }
            state.inodes[at] = Inode { durable: bytes.clone(), bytes, unsynced: None };
        }
    }

    /// Flips a bit of a file; false if no file has a byte.
    pub fn flip(&self) -> bool {
        let mut state = self.state();
        let full: Vec<usize> =
            state.folder().into_values().filter(|inode| !state.inodes[*inode].bytes.is_empty()).collect();
        if full.is_empty() {
            return false;
        }
        let inode = *state.dice.pick(&full);
        let length = state.inodes[inode].bytes.len() as u64;
        let (at, bit) = (state.dice.below(length) as usize, state.dice.below(8));
        state.inodes[inode].bytes[at] ^= 1 << bit;
        state.inodes[inode].durable = state.inodes[inode].bytes.clone();
        state.damaged = true;
        true
    }

    /// A document, if there is one.
    pub fn document(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        let mut state = self.state();
        state.fails()?;
        Ok(state.documents.get(path).cloned())
    }

    /// Replaces a document, or removes it.
    pub fn put_document(&self, path: &Path, bytes: Option<&[u8]>) -> Result<()> {
        let mut state = self.state();
        state.fails()?;
        if state.room < state.used() + bytes.map_or(0, <[u8]>::len) {
            return Err(ErrorKind::StorageFull.into());
        }
        match bytes {
            Some(bytes) => drop(state.documents.insert(path.to_owned(), bytes.to_vec())),
            None => drop(state.documents.remove(path)),
        }
        Ok(())
    }

    /// Appends an entry to the audit trail.
    pub fn trail(&self) -> Result<()> {
        let mut state = self.state();
        state.fails()?;
        state.entries += 1;
        Ok(())
    }
}

impl Disk for SimulatedDisk {
    fn claim(&mut self, folder: &Path) -> std::result::Result<(), OpenError> {
        match std::mem::replace(&mut self.state().claimed, true) {
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
        Ok(state.folder().into_keys().rev().collect())
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
        let mut folder = state.folder();
        folder.insert(path.to_owned(), inode);
        state.folders.push(folder);
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
        let mut folder = state.folder();
        folder.remove(path);
        state.folders.push(folder);
        Ok(())
    }

    fn sync(&self, _: &Path) -> Result<()> {
        let mut state = self.state();
        state.fails()?;
        state.folders = vec![state.folder()];
        Ok(())
    }
}

impl DiskFile for Handle {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut state = self.0.state();
        let failed = state.fails();
        let left = state.room.saturating_sub(state.used());
        let whole = failed.is_ok() && bytes.len() <= left;
        let part = bytes.len().min(left) as u64;
        let written = if whole { bytes.len() } else { state.dice.below(part + 1) as usize };
        let now = state.now;
        state.inodes[self.1].bytes.extend_from_slice(&bytes[..written]);
        state.inodes[self.1].unsynced.get_or_insert(now);
        match whole {
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
        inode.unsynced = None;
        Ok(())
    }
}
