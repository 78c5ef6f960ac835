//! The layout of a file: a header, then frames of length, checksums and payload.
//!
//! A file begins with [`MAGIC`] and its number (u64). A frame is the length of the payload (u32), the CRC-32 of the
//! payload (u32), the lower half of the CRC-32 of these eight bytes (u16), and the payload; numbers are
//! little-endian. The length has a checksum of its own, so an incomplete frame (the process was killed), which ends
//! with the file, differs from a damaged one.
//!
//! Must never know the content of a payload.

use std::io::{self, Read};

/// First bytes of a file of a journal; the digit is the version of the format.
pub const MAGIC: &[u8; 8] = b"FLUXGJ1\n";
/// Bytes before the first frame.
pub const HEADER_BYTES: u64 = 16;
/// Bytes before a payload.
pub const FRAME_BYTES: u64 = 10;
/// Longest payload, bytes: a checkpoint of many million jobs.
pub const PAYLOAD_BYTES_MAX: u32 = 1 << 30;

/// The header of the file with this number.
pub fn header(number: u64) -> [u8; HEADER_BYTES as usize] {
    let mut out = [0; HEADER_BYTES as usize];
    out[..8].copy_from_slice(MAGIC);
    out[8..].copy_from_slice(&number.to_le_bytes());
    out
}

/// Appends a frame to `out`; `false`, without a change, if the payload is longer than [`PAYLOAD_BYTES_MAX`].
pub fn push(payload: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(length) = u32::try_from(payload.len()) else { return false };
    if length > PAYLOAD_BYTES_MAX {
        return false;
    }
    let mut head = [0; FRAME_BYTES as usize];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..8].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let check = crc32fast::hash(&head[..8]) as u16;
    head[8..].copy_from_slice(&check.to_le_bytes());
    out.extend_from_slice(&head);
    out.extend_from_slice(payload);
    true
}

/// The content of a file at an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A payload.
    Payload(Vec<u8>),
    /// The end of the file.
    End,
    /// An incomplete record begins here: the writer was killed, or power was lost.
    Torn,
    /// Bytes that differ from those written: the fault in words.
    Damaged(&'static str),
}

/// The frames of a file of known length, in order.
#[derive(Debug)]
pub struct Frames<R> {
    from: R,
    /// The offset of the next frame.
    offset: u64,
    length: u64,
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |n, byte| n << 8 | u32::from(*byte))
}

impl<R: Read> Frames<R> {
    /// Reads the header; `length` is that of the file in bytes. Returns the number of the file and its frames, or the fault of the
    /// header: [`Found::Torn`] or [`Found::Damaged`].
    ///
    /// # Errors
    /// The error of the reader.
    pub fn open(mut from: R, length: u64) -> io::Result<Result<(u64, Frames<R>), Found>> {
        if length < HEADER_BYTES {
            return Ok(Err(Found::Torn));
        }
        let mut head = [0; HEADER_BYTES as usize];
        from.read_exact(&mut head)?;
        if head.iter().all(|byte| *byte == 0) {
            return Ok(Err(Found::Torn));
        }
        if &head[..8] != MAGIC {
            return Ok(Err(Found::Damaged("this is no journal, or one of another version")));
        }
        let mut file = [0; 8];
        file.copy_from_slice(&head[8..]);
        Ok(Ok((u64::from_le_bytes(file), Frames { from, offset: HEADER_BYTES, length })))
    }

    /// The offset of the next frame, bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next frame. Anything but a payload ends the file: further calls find [`Found::End`].
    ///
    /// # Errors
    /// The error of the reader.
    #[allow(clippy::should_implement_trait)] // it returns errors
    pub fn next(&mut self) -> io::Result<Found> {
        let found = self.read()?;
        match &found {
            Found::Payload(payload) => self.offset += FRAME_BYTES + payload.len() as u64,
            _ => self.length = self.offset,
        }
        Ok(found)
    }

    fn read(&mut self) -> io::Result<Found> {
        let left = self.length - self.offset;
        if left == 0 {
            return Ok(Found::End);
        }
        if left < FRAME_BYTES {
            return Ok(Found::Torn);
        }
        let mut head = [0; FRAME_BYTES as usize];
        self.from.read_exact(&mut head)?;
        if number(&head[8..]) != crc32fast::hash(&head[..8]) & 0xffff {
            return Ok(if head == [0; FRAME_BYTES as usize] && self.rest_is_zero()? {
                // The length of the file is durable, but its content is not.
                Found::Torn
            } else {
                Found::Damaged("the length of a record fails its checksum")
            });
        }
        let length = number(&head[..4]);
        if length > PAYLOAD_BYTES_MAX {
            return Ok(Found::Damaged("a record is longer than any can be"));
        }
        if u64::from(length) > left - FRAME_BYTES {
            return Ok(Found::Torn);
        }
        let mut payload = vec![0; length as usize];
        self.from.read_exact(&mut payload)?;
        if crc32fast::hash(&payload) == number(&head[4..8]) {
            return Ok(Found::Payload(payload));
        }
        // The last record after a loss of power: its end was not written.
        let last = left == FRAME_BYTES + u64::from(length);
        if last && payload.last() == Some(&0) {
            return Ok(Found::Torn);
        }
        Ok(Found::Damaged("a record fails its checksum"))
    }

    fn rest_is_zero(&mut self) -> io::Result<bool> {
        let mut block = [0; 4096];
        loop {
            match self.from.read(&mut block)? {
                0 => return Ok(true),
                n if block[..n].iter().any(|byte| *byte != 0) => return Ok(false),
                _ => {}
            }
        }
    }
}
