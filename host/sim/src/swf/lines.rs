//! Lines of a text, one in memory at a time, each up to a bound.
//!
//! This module does not know the meaning of a line.

use std::io::{self, BufRead, Read};

use super::{BadLine, MAX_LINE_BYTES, SwfError};

/// The lines of a reader, numbered from 1.
pub(crate) struct Lines<R> {
    input: R,
    number: u64,
    buffer: Vec<u8>,
    /// Longest line in bytes.
    most: usize,
    /// True after the end, or after an error of the system.
    done: bool,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Lines::up_to(input, MAX_LINE_BYTES)
    }

    /// The same with another bound of bytes for a line.
    pub(crate) fn up_to(input: R, most: usize) -> Self {
        Lines { input, number: 0, buffer: Vec::with_capacity(512), most, done: false }
    }

    /// The number of the last line read, 0 before the first.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next non-empty line for which `parse` has a result, with its number; `None` at the end, and after an error
    /// of the system. `file` is the name in error texts.
    pub(crate) fn next_of<T>(
        &mut self,
        file: &str,
        mut parse: impl FnMut(&[u8], u64) -> Option<Result<T, BadLine>>,
    ) -> Option<Result<T, SwfError>> {
        while !self.done {
            let number = self.number + 1;
            let made = match self.next_line() {
                Ok(None) => {
                    self.done = true;
                    None
                }
                Ok(Some(Ok([]))) => None,
                Ok(Some(Ok(line))) => parse(line, number),
                Ok(Some(Err(bad))) => Some(Err(bad)),
                Err(source) => {
                    self.done = true;
                    return Some(Err(SwfError::Io { file: file.to_owned(), line: self.number, source }));
                }
            };
            if let Some(made) = made {
                return Some(made.map_err(|bad| SwfError::Bad { file: file.to_owned(), bad }));
            }
        }
        None
    }

    /// The next line without surrounding white space; `None` at the end. A line that is too long is read to its end and
    /// not stored.
    fn next_line(&mut self) -> io::Result<Option<Result<&[u8], BadLine>>> {
        self.buffer.clear();
        let most = self.most as u64 + 1;
        let n = (&mut self.input).take(most).read_until(b'\n', &mut self.buffer)?;
        if n == 0 {
            return Ok(None);
        }
        self.number += 1;
        let whole = self.buffer.last() == Some(&b'\n');
        if !whole && n as u64 == most {
            self.skip_rest_of_line()?;
        }
        if self.buffer.len() > self.most {
            let found = "a longer line".to_owned();
            let accepted = match self.most {
                MAX_LINE_BYTES => "a line of at most 65536 bytes",
                _ => "a line of at most 1048576 bytes",
            };
            return Ok(Some(Err(BadLine { line: self.number, field: None, found, accepted })));
        }
        Ok(Some(Ok(self.buffer.trim_ascii())))
    }

    fn skip_rest_of_line(&mut self) -> io::Result<()> {
        loop {
            let chunk = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                chunk => chunk?,
            };
            if chunk.is_empty() {
                return Ok(());
            }
            let end = chunk.iter().position(|&b| b == b'\n');
            let used = end.map_or(chunk.len(), |at| at + 1);
            self.input.consume(used);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}
