//! Reads a journal back: a folder of files in their order, or one file.
//!
//! A file that ends with an incomplete record was cut by a kill; that is no error. Any other change of a file is
//! reported with file and offset, and the rest of that file is not read.
//!
//! Must never write.

use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Content, Disk};
use crate::frame::{Found, Frames};
use crate::local_disk::LocalDisk;
use crate::record::Record;

/// The reason for which a journal, or the rest of one of its files, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Reading failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the disk.
        error: io::Error,
    },
    /// The folder has no file of a journal.
    #[error("{}: there is no journal in this folder", .0.display())]
    Empty(PathBuf),
    /// A file differs from what was written.
    #[error("{}: offset {offset}: {what}; what follows in this file cannot be read", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset in it, bytes.
        offset: u64,
        /// The fault.
        what: String,
    },
}

/// Files of a folder by number, the oldest first.
pub(crate) fn files(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut out = Vec::new();
    for path in disk.list(dir)? {
        let stem =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".journal"));
        let digits = stem.filter(|stem| stem.bytes().all(|byte| byte.is_ascii_digit()));
        if let Some(number) = digits.and_then(|stem| stem.parse().ok()) {
            out.push((number, path));
        }
    }
    out.sort();
    Ok(out)
}

/// The offset of an incomplete record at the end of a file, if there is one.
pub(crate) fn torn(disk: &dyn Disk, path: &Path) -> io::Result<Option<u64>> {
    let (file, length) = disk.open(path)?;
    let mut frames = match Frames::open(BufReader::new(file), length)? {
        Ok((_, frames)) => frames,
        Err(Found::Torn) => return Ok(Some(0)),
        Err(_) => return Ok(None),
    };
    loop {
        match frames.next()? {
            Found::Payload(_) => {}
            Found::Torn => return Ok(Some(frames.offset())),
            Found::End | Found::Damaged(_) => return Ok(None),
        }
    }
}

/// The files of a journal, the oldest first. They are opened when they are read.
#[derive(Debug, Clone)]
pub struct Journal {
    disk: Arc<dyn Disk>,
    files: Vec<PathBuf>,
}

/// A record with its place.
#[derive(Debug)]
pub struct Place {
    /// Index of the file in [`Journal::files`].
    pub file: usize,
    /// Offset in it, bytes.
    pub offset: u64,
    /// The record.
    pub record: Record,
}

/// The items of a journal in order.
#[derive(Debug)]
pub enum Item {
    /// A record.
    Record(Box<Place>),
    /// A file ends here with an incomplete record, because of a kill: index of the file, offset, bytes left out.
    Torn(usize, u64, u64),
    /// The rest of a file cannot be read. The next file follows.
    Damaged(ReadError),
}

impl Journal {
    /// The journal in a folder of this machine, or one file of it.
    ///
    /// # Errors
    /// [`ReadError::Empty`] for a folder without a journal, [`ReadError::Io`] if the folder cannot be read.
    pub fn open(path: &Path) -> Result<Journal, ReadError> {
        Journal::on(Arc::<LocalDisk>::default(), path)
    }

    /// The journal in a folder of this disk, or one file of it.
    ///
    /// # Errors
    /// [`ReadError::Empty`] for a folder without a journal, [`ReadError::Io`] if the folder cannot be read.
    pub fn on(disk: Arc<dyn Disk>, path: &Path) -> Result<Journal, ReadError> {
        let files: Vec<PathBuf> = match files(&*disk, path) {
            Ok(files) => files.into_iter().map(|(_, path)| path).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => vec![path.to_owned()],
            Err(error) => return Err(ReadError::Io { path: path.to_owned(), error }),
        };
        match files.is_empty() {
            true => Err(ReadError::Empty(path.to_owned())),
            false => Ok(Journal { disk, files }),
        }
    }

    /// Its files, the oldest first.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// All of its items, in order.
    pub fn items(&self) -> Items<'_> {
        self.items_from(0)
    }

    /// All items from the file with this index on; none if there is no such file.
    pub fn items_from(&self, file: usize) -> Items<'_> {
        Items { journal: self, file, frames: None }
    }
}

/// The items of a journal in order; see [`Journal::items`].
pub struct Items<'a> {
    journal: &'a Journal,
    file: usize,
    frames: Option<(Frames<BufReader<Content>>, u64)>,
}

impl std::fmt::Debug for Items<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Items")
            .field("journal", self.journal)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Items<'_> {
    fn begin(&mut self) -> io::Result<Result<(), (Found, u64)>> {
        let (file, length) = self.journal.disk.open(&self.journal.files[self.file])?;
        Ok(match Frames::open(BufReader::with_capacity(1 << 16, file), length)? {
            Ok((_, frames)) => {
                self.frames = Some((frames, length));
                Ok(())
            }
            Err(found) => Err((found, length)),
        })
    }

    fn item(&mut self) -> io::Result<Option<Item>> {
        if self.frames.is_none()
            && let Err((found, length)) = self.begin()?
        {
            return Ok(self.ended(found, 0, length));
        }
        let Some((frames, length)) = &mut self.frames else { return Ok(None) };
        let (offset, length) = (frames.offset(), *length);
        let found = match frames.next()? {
            Found::Payload(payload) => match Record::from_payload(&payload) {
                Ok(record) => {
                    return Ok(Some(Item::Record(Box::new(Place { file: self.file, offset, record }))));
                }
                Err(error) => {
                    let item = self.damaged(offset, error.to_string());
                    self.leave();
                    return Ok(Some(item));
                }
            },
            found => found,
        };
        Ok(self.ended(found, offset, length))
    }

    fn ended(&mut self, found: Found, offset: u64, length: u64) -> Option<Item> {
        let item = match found {
            Found::Torn => Some(Item::Torn(self.file, offset, length - offset)),
            Found::Damaged(what) => Some(self.damaged(offset, what.to_owned())),
            Found::End | Found::Payload(_) => None,
        };
        self.leave();
        item
    }

    fn damaged(&self, offset: u64, what: String) -> Item {
        Item::Damaged(ReadError::Damaged { path: self.journal.files[self.file].clone(), offset, what })
    }

    fn leave(&mut self) {
        self.file += 1;
        self.frames = None;
    }
}

impl Iterator for Items<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        while self.file < self.journal.files.len() {
            match self.item() {
                Ok(Some(item)) => return Some(item),
                Ok(None) => {}
                Err(error) => {
                    let path = self.journal.files[self.file].clone();
                    self.leave();
                    return Some(Item::Damaged(ReadError::Io { path, error }));
                }
            }
        }
        None
    }
}
