//! The sections on the top level of a component, by their frames alone. Must never know their content.

use wasmparser::BinaryReader;

/// Bytes before the first section: magic, version, layer.
pub(crate) const HEADER_BYTES: usize = 8;

/// One section.
#[derive(Debug, Clone)]
pub(crate) struct Section<'a> {
    pub(crate) id: u8,
    /// Id, length and content.
    pub(crate) whole: &'a [u8],
    pub(crate) content: BinaryReader<'a>,
}

/// Why the sections end before the bytes do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The section at this offset needs more bytes than are left.
    Truncated {
        /// Offset of the section.
        at: usize,
        /// Bytes that the next part of it needs.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// Its length is no number of 32 bits.
    Length,
}

/// The sections of a component, up to the first that is incomplete.
pub(crate) fn of(bytes: &[u8]) -> impl Iterator<Item = Result<Section<'_>, Broken>> {
    let mut at = HEADER_BYTES;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let found = section(rest, at);
        // An error ends the sections.
        at = found.as_ref().map_or(bytes.len(), |section| at + section.whole.len());
        Some(found)
    })
}

fn section(rest: &[u8], at: usize) -> Result<Section<'_>, Broken> {
    let mut reader = BinaryReader::new(rest, at);
    let id = reader.read_u8().map_err(|_| Broken::Length)?;
    let needed = reader.read_var_u32().map_err(|_| match reader.eof() {
        true => Broken::Truncated { at, needed: 1, left: 0 },
        false => Broken::Length,
    })?;
    let begin = reader.original_position() - at;
    let left = rest.len() - begin;
    match rest.get(begin..begin + needed as usize) {
        Some(content) => {
            let whole = &rest[..begin + content.len()];
            Ok(Section { id, whole, content: BinaryReader::new(content, at + begin) })
        }
        None => Err(Broken::Truncated { at, needed: needed.into(), left: left as u64 }),
    }
}
