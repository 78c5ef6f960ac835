//! A zip archive, as wheels are: files in the order in which they are added, deflated by the library that this program is built
//! with, so that the bytes do not depend on the machine.
//!
//! Must never know what is archived.

use std::io::Write;

use anyhow::{Context, Result};
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// Versions of the format: deflated files, made on Unix.
const NEEDED: u16 = 20;
const MADE_BY: u16 = (3 << 8) | NEEDED;
/// Deflated, with names in UTF-8.
const DEFLATED: u16 = 8;
const UTF8: u16 = 1 << 11;
/// The first day of the format, 1980-01-01: an installer of a wheel sets times of its own.
const DATE: u16 = (1 << 5) | 1;
/// A regular file, in the mode of Unix.
const REGULAR: u32 = 0o100_000;

/// An archive that is being written.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    /// The entries of the list at the end.
    list: Vec<u8>,
    files: u16,
}

impl Archive {
    /// Add a file with these permissions.
    pub(super) fn add(&mut self, name: &str, content: &[u8], mode: u32) -> Result<()> {
        let begin = narrow(self.bytes.len(), name)?;
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
        deflated.write_all(content)?;
        let deflated = deflated.finish()?;
        let mut crc = Crc::new();
        crc.update(content);
        let mut common = Vec::new();
        // Needed version, flags, method, time, date.
        for field in [NEEDED, UTF8, DEFLATED, 0, DATE] {
            common.extend(field.to_le_bytes());
        }
        for field in [crc.sum(), narrow(deflated.len(), name)?, narrow(content.len(), name)?] {
            common.extend(field.to_le_bytes());
        }
        let length = u16::try_from(name.len()).context("a name is too long")?;
        // Lengths of the name and of further fields.
        for field in [length, 0] {
            common.extend(field.to_le_bytes());
        }
        self.bytes.extend(b"PK\x03\x04");
        self.bytes.extend(&common);
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(deflated);
        self.list.extend(b"PK\x01\x02");
        self.list.extend(MADE_BY.to_le_bytes());
        self.list.extend(common);
        // Comment, first disk, attributes of the text.
        self.list.extend([0; 6]);
        self.list.extend(((REGULAR | mode) << 16).to_le_bytes());
        self.list.extend(begin.to_le_bytes());
        self.list.extend(name.as_bytes());
        self.files = self.files.checked_add(1).context("too many files for a zip archive")?;
        Ok(())
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        let begin = narrow(self.bytes.len(), "the list")?;
        let length = narrow(self.list.len(), "the list")?;
        self.bytes.extend(self.list);
        self.bytes.extend(b"PK\x05\x06");
        // This disk, and that of the list.
        self.bytes.extend([0; 4]);
        for field in [self.files, self.files] {
            self.bytes.extend(field.to_le_bytes());
        }
        for field in [length, begin] {
            self.bytes.extend(field.to_le_bytes());
        }
        // No comment.
        self.bytes.extend([0; 2]);
        Ok(self.bytes)
    }
}

fn narrow(length: usize, name: &str) -> Result<u32> {
    u32::try_from(length).with_context(|| format!("{name}: a zip archive has less than 4 GiB"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_archive_is_read_by_others_and_is_the_same_each_time() {
        let made = || {
            let mut archive = Archive::default();
            archive.add("a/one", b"one one one one one one one", 0o644).unwrap();
            archive.add("two", &[7; 100_000], 0o755).unwrap();
            archive.finish().unwrap()
        };
        let bytes = made();
        assert!(bytes == made() && bytes.len() < 1000, "{} bytes", bytes.len());
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.zip");
        std::fs::write(&file, bytes).unwrap();
        let code = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\n\
            print(z.testzip(), z.read('a/one').decode(), len(z.read('two')),\n\
            *(oct(i.external_attr >> 16) for i in z.infolist()), z.infolist()[0].date_time)";
        let Ok(read) = Command::new("python3").args(["-c", code]).arg(&file).output() else {
            return fluxgate_testing::skipped(fluxgate_testing::Need::Program, "no python3 to read it");
        };
        let said = String::from_utf8_lossy(&read.stdout);
        let errors = String::from_utf8_lossy(&read.stderr);
        let expected = "None one one one one one one one 100000 0o100644 0o100755 (1980, 1, 1, 0, 0, 0)\n";
        assert_eq!(said, expected, "{errors}");
    }
}
