//! Lines to systemd's journal with fields of their own: `MESSAGE_ID` and `PRIORITY` beside the text.
//!
//! The journal takes fields over a socket, a line a datagram (systemd.io/JOURNAL_NATIVE_PROTOCOL). The text is the whole line, since
//! that is what `journalctl` shows; the layer of the tracing project makes it of the message alone, without id and fields.
//! Must never know what a line means.

use std::io;
use std::os::unix::net::UnixDatagram;

use fluxgate_wire::logging::Severity;
use nix::sys::stat::fstat;

/// The socket of the journal of the host.
const SOCKET: &str = "/run/systemd/journal/socket";
/// The environment variable that names the stream of a service, as `DEVICE:INODE`.
const STREAM: &str = "JOURNAL_STREAM";
/// Longest text of a line for systemd's journal, bytes; what follows is cut. A datagram takes no more by default.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The journal of systemd.
#[derive(Debug)]
pub(crate) struct Journal(UnixDatagram);

impl Journal {
    /// The journal, if standard error of this process is one of its streams and it listens for fields.
    pub(crate) fn of_stderr() -> Option<Journal> {
        let found = fstat(io::stderr()).ok()?;
        let named = std::env::var(STREAM).ok()?;
        (named == format!("{}:{}", found.st_dev, found.st_ino)).then(|| Journal::at(SOCKET).ok()).flatten()
    }

    /// The journal that listens on this socket.
    ///
    /// # Errors
    /// No journal listens there.
    fn at(path: &str) -> io::Result<Journal> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        // A journal that is stuck must not stop the scheduler.
        socket.set_nonblocking(true)?;
        Ok(Journal(socket))
    }

    /// Sends a line; `id` is empty where it has none.
    ///
    /// # Errors
    /// The journal is gone or does not keep up.
    pub(crate) fn send(&self, severity: Severity, id: &str, text: &str) -> io::Result<()> {
        let mut datagram = Vec::with_capacity(text.len().min(TEXT_BYTES_MAX) + 128);
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        field(&mut datagram, "MESSAGE", &text[..end]);
        field(&mut datagram, "PRIORITY", &(severity as u8).to_string());
        field(&mut datagram, "SYSLOG_IDENTIFIER", "fluxgate");
        if !id.is_empty() {
            field(&mut datagram, "MESSAGE_ID", id);
        }
        self.0.send(&datagram).map(drop)
    }
}

/// A field with its length in front, so that its value may have lines.
fn field(datagram: &mut Vec<u8>, name: &str, value: &str) {
    datagram.extend(name.as_bytes());
    datagram.push(b'\n');
    datagram.extend((value.len() as u64).to_le_bytes());
    datagram.extend(value.as_bytes());
    datagram.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_96_the_journal_of_systemd_gets_the_id_of_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let reader = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::at(path.to_str().unwrap()).unwrap();
        let id = fluxgate_log::Id::PolicyFailed.journal();
        journal.send(Severity::Error, id, "FG-1203 two\nlines").unwrap();
        let mut bytes = [0; 512];
        let length = reader.recv(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes[..length]);
        assert!(text.starts_with("MESSAGE\n\u{11}\0\0\0\0\0\0\0FG-1203 two\nlines\nPRIORITY\n"), "{text:?}");
        assert!(text.ends_with(&format!("MESSAGE_ID\n \0\0\0\0\0\0\0{id}\n")), "{text:?}");
        assert!(id.ends_with("1203"));
        // A line beyond all bounds is cut between characters.
        journal.send(Severity::Info, "", &"é".repeat(TEXT_BYTES_MAX)).unwrap();
        let mut bytes = vec![0; 2 * TEXT_BYTES_MAX];
        let length = reader.recv(&mut bytes).unwrap();
        assert!(length < TEXT_BYTES_MAX + 128, "{length}");
        assert!(std::str::from_utf8(&bytes[16..16 + TEXT_BYTES_MAX]).is_ok());
        // A socket without a journal, and a journal that does not read.
        assert!(Journal::at("/nonexistent/socket").is_err());
        for _ in 0..10_000 {
            if journal.send(Severity::Info, "", "text").is_err() {
                return;
            }
        }
        panic!("a journal that does not read is waited for");
    }
}
