//! The file of a checkpoint of a replay: the identity of the run, its state, and the history of its observers.
//!
//! A file is [`MAGIC`] and gzip members, whose content is a sequence of frames: the length (u32, little-endian) and MessagePack.
//! The first frame is the [`Identity`], the second the state, the others are the history. The checksums of gzip find damage. A file
//! is written beside its name and then renamed, so it is whole or not there.
//!
//! This module does not know how a run goes on.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::iter::Peekable;
use std::path::Path;

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bounded::Bounded;
use crate::driver::{Saved, SimError};
use crate::history::{self, History};
use crate::observe::Observer;
use crate::workload::Job;

/// First bytes of a file; the digit is the version of the format.
pub const MAGIC: &[u8; 8] = b"FLUXGRC1";
/// Largest content of a checkpoint, in bytes before compression: that of a run of about 500 million jobs.
pub const CONTENT_BYTES_MAX: u64 = 64 << 30;
/// Longest frame of a checkpoint, in bytes: the state of many million waiting jobs.
pub const FRAME_BYTES_MAX: u32 = 1 << 30;

/// The run that a checkpoint is of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Version of the program that wrote the checkpoint.
    pub version: String,
    /// The log, by the SHA-256 of its content.
    pub log: String,
    /// Part of the log; empty for all of it.
    pub part: String,
    /// Options on which the run depends, each with its value.
    pub options: BTreeMap<String, String>,
    /// The default policy as the user named it.
    pub policy: String,
    /// Settings of it that are not in its name.
    pub config: Vec<String>,
    /// The policies of single queues as the user named them.
    pub queue_policies: Vec<String>,
    /// The policies that decide: for each queue with a policy of its own, and for all others (the empty name), a text that only
    /// equal policies with equal settings have.
    pub deciders: BTreeMap<String, String>,
}

impl Identity {
    /// Refuses a checkpoint of another run than `here`. Policies may differ.
    ///
    /// # Errors
    /// [`CheckpointError::Differs`] names the first difference: the version, the log, the part or an option.
    pub fn check(&self, here: &Identity) -> Result<(), CheckpointError> {
        let differs = |what: &str, found: &str, accepted: &str| {
            let [what, found, accepted] = [what, found, accepted].map(str::to_owned);
            Err(CheckpointError::Differs { what, found, accepted })
        };
        for (what, found, accepted) in [
            ("the version of the program", &self.version, &here.version),
            ("the log (SHA-256)", &self.log, &here.log),
            ("the part of the log", &self.part, &here.part),
        ] {
            if found != accepted {
                return differs(what, found, accepted);
            }
        }
        for name in self.options.keys().chain(here.options.keys()) {
            let [found, accepted] = [self, here].map(|of| of.options.get(name).map_or("", String::as_str));
            if found != accepted {
                return differs(name, found, accepted);
            }
        }
        Ok(())
    }
}

/// A checkpoint cannot be written or read, or a run cannot go on from it.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The bytes are no checkpoint, or one of another version of the format.
    #[error("found no checkpoint of a replay, or one of another version of the format")]
    Strange,
    /// The file cannot be read, or its bytes are not those that were written.
    #[error("the checkpoint is damaged or cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The checkpoint cannot be written.
    #[error("the checkpoint cannot be written: {0}")]
    Write(#[source] io::Error),
    /// A frame is longer than any can be.
    #[error("the checkpoint is damaged: found a frame of {0} bytes, accepted are {FRAME_BYTES_MAX}")]
    Long(u64),
    /// A frame has another content than its place says.
    #[error("the checkpoint is damaged: {0}")]
    Content(String),
    /// The parts of the checkpoint contradict each other, or the run; or the run has forecasts, which are not kept.
    #[error("the checkpoint does not fit: {0}")]
    State(String),
    /// It is of another run.
    #[error(
        "the checkpoint is of another run: {what}: found {found:?} in the checkpoint and {accepted:?} here"
    )]
    Differs {
        /// The field that differs, in words.
        what: String,
        /// In the checkpoint.
        found: String,
        /// In this run.
        accepted: String,
    },
    /// Places of jobs are asked for, which the run that wrote it did not have.
    #[error(
        "the checkpoint has no places of jobs, which --schedule, --report and --flow need: write it in a run that has one of them"
    )]
    Places,
}

/// Appends a frame.
pub(crate) fn frame(content: &impl Serialize, out: &mut Vec<u8>) -> Result<(), CheckpointError> {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut writer = rmp_serde::Serializer::new(&mut *out).with_struct_map();
    content.serialize(&mut writer).map_err(|error| CheckpointError::Write(io::Error::other(error)))?;
    let length = (out.len() - begin - 4) as u64;
    let short = u32::try_from(length).ok().filter(|length| *length <= FRAME_BYTES_MAX);
    let short = short.ok_or(CheckpointError::Long(length))?;
    out[begin..begin + 4].copy_from_slice(&short.to_le_bytes());
    Ok(())
}

/// Reads the next frame.
pub(crate) fn next_frame<T: DeserializeOwned>(from: &mut impl Read) -> Result<T, CheckpointError> {
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(CheckpointError::Read)?;
    let length = u32::from_le_bytes(length);
    if length > FRAME_BYTES_MAX {
        return Err(CheckpointError::Long(u64::from(length)));
    }
    let mut content = Vec::new();
    from.by_ref().take(u64::from(length)).read_to_end(&mut content).map_err(CheckpointError::Read)?;
    if content.len() != length as usize {
        return Err(CheckpointError::Read(io::ErrorKind::UnexpectedEof.into()));
    }
    rmp_serde::from_slice(&content).map_err(|error| CheckpointError::Content(error.to_string()))
}

/// Writes a checkpoint. Afterwards the file is whole, or as it was.
pub(crate) fn write(
    path: &Path,
    identity: &Identity,
    saved: &Saved,
    history: &mut History,
) -> Result<(), CheckpointError> {
    let mut content = Vec::new();
    frame(identity, &mut content)?;
    frame(&(saved, history.events()), &mut content)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut write = || {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let mut out = BufWriter::new(&mut file);
        out.write_all(MAGIC)?;
        let mut member = GzEncoder::new(&mut out, Compression::fast());
        member.write_all(&content)?;
        member.finish()?;
        history.write(&mut out)?;
        out.flush()?;
        drop(out);
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error).map(drop)
    };
    write().map_err(CheckpointError::Write)
}

/// A checkpoint that is being read: its identity and state are known.
pub struct Opened {
    /// The run that it is of.
    pub identity: Identity,
    pub(crate) saved: Saved,
    pub(crate) events: u64,
    pub(crate) rest: Box<dyn Read + Send>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("identity", &self.identity)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

impl Opened {
    /// Simulated time of the checkpoint, in seconds in the time base of the workload.
    pub fn now(&self) -> f64 {
        self.saved.now
    }

    /// Tells observers the events before the checkpoint, and takes the jobs that were submitted by then from `jobs`, those of the
    /// log, where they come first.
    ///
    /// # Errors
    /// The rest of the checkpoint is damaged or of another log, or an observer failed.
    pub fn tell(
        self,
        jobs: &mut Peekable<impl Iterator<Item = Job>>,
        observers: &mut [&mut dyn Observer],
    ) -> Result<(), SimError> {
        history::tell(self.rest, self.events, jobs, observers).map(drop)
    }

    /// Number of jobs that were submitted before it.
    pub fn submitted(&self) -> u64 {
        self.saved.submitted
    }
}

/// Opens the checkpoint in a file.
///
/// # Errors
/// [`CheckpointError`]: the file cannot be read, or is no whole checkpoint as far as its state.
pub fn open(path: &Path) -> Result<Opened, CheckpointError> {
    read(File::open(path).map_err(CheckpointError::Read)?)
}

/// Checks all of a checkpoint by its checksums, then reads its identity and state.
///
/// # Errors
/// As [`open`].
pub fn read(mut from: impl Read + Seek + Send + 'static) -> Result<Opened, CheckpointError> {
    let mut magic = [0; MAGIC.len()];
    match from.read_exact(&mut magic) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            return Err(CheckpointError::Read(error));
        }
        Ok(()) if magic == *MAGIC => {}
        _ => return Err(CheckpointError::Strange),
    }
    // A checksum comes after its content, so the whole file is read once before any of it is used.
    let whole = MultiGzDecoder::new(BufReader::new(&mut from));
    io::copy(&mut Bounded::new(whole, CONTENT_BYTES_MAX), &mut io::sink()).map_err(CheckpointError::Read)?;
    from.seek(SeekFrom::Start(MAGIC.len() as u64)).map_err(CheckpointError::Read)?;
    content(MultiGzDecoder::new(BufReader::new(from)))
}

/// Reads the content of a checkpoint, without [`MAGIC`] and compression. Its checksums are not checked.
///
/// # Errors
/// As [`open`].
pub fn content(from: impl Read + Send + 'static) -> Result<Opened, CheckpointError> {
    let mut rest = BufReader::new(Bounded::new(from, CONTENT_BYTES_MAX));
    let identity = next_frame(&mut rest)?;
    let (saved, events) = next_frame(&mut rest)?;
    Ok(Opened { identity, saved, events, rest: Box::new(rest) })
}
