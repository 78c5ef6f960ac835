//! A reader with a limit for input files: a file beyond the limit is an error, and is never truncated.
//!
//! This module does not know the content.

use std::io::{self, Read};

/// Fails as soon as more than the permitted number of bytes has been read.
pub(crate) struct Bounded<R> {
    input: R,
    most: u64,
    left: u64,
}

impl<R> Bounded<R> {
    pub(crate) fn new(input: R, most: u64) -> Self {
        Bounded { input, most, left: most }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(buffer)?;
        let Some(left) = self.left.checked_sub(n as u64) else {
            let message = format!("more than {} bytes, the most that is read", self.most);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        };
        self.left = left;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_an_error_and_not_cut() {
        let mut text = String::new();
        assert_eq!(Bounded::new(&b"12345"[..], 5).read_to_string(&mut text).unwrap(), 5);
        let error = Bounded::new(&b"123456"[..], 5).read_to_string(&mut text).unwrap_err();
        assert_eq!(error.to_string(), "more than 5 bytes, the most that is read");
    }
}
