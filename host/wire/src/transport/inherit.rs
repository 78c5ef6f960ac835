//! An inherited connection: the broker passes a module process one end of a socket pair and names it `fd://N`.
//!
//! The one place of this crate with `unsafe`: duplicating a descriptor by its number. The inherited descriptor itself stays open
//! until the process ends.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;

use nix::libc;
use nix::sys::socket::{AddressFamily, SockaddrLike, SockaddrStorage, getsockname};
use tokio::net::UnixStream;

use super::connect::ConnectError;
use super::{Connection, Options};

impl Connection {
    /// Takes over the connection that `uri` (`fd://N`) names. To be called once per descriptor, early in the process.
    /// `greeted`: the peer's authentication byte was read before, by a program that then executed this one.
    ///
    /// # Errors
    /// [`ConnectError`] when the address names no descriptor above 2, the descriptor is not open or no UNIX socket, or the other side
    /// refuses.
    pub async fn inherit(uri: &str, greeted: bool, options: Options) -> Result<Connection, ConnectError> {
        let bad = |reason| ConnectError::BadUri { uri: uri.to_owned(), reason };
        let number = uri.strip_prefix("fd://").ok_or_else(|| bad("this is no inherited descriptor"))?;
        let fd: RawFd = number.parse().map_err(|_| bad("no number of a descriptor"))?;
        if fd <= 2 {
            return Err(bad("descriptors 0, 1 and 2 are for input, output and errors"));
        }
        let path = PathBuf::from(uri);
        let owned = duplicate(fd).ok_or_else(|| bad("this descriptor is not open"))?;
        let address = getsockname::<SockaddrStorage>(owned.as_raw_fd());
        let family = address.ok().and_then(|address| address.family());
        if family != Some(AddressFamily::Unix) {
            return Err(bad("this descriptor is no UNIX socket"));
        }
        let io = |source| ConnectError::Io { path: path.clone(), source };
        let stream = StdStream::from(owned);
        stream.set_nonblocking(true).map_err(io)?;
        let stream = UnixStream::from_std(stream).map_err(io)?;
        if greeted {
            Ok(Connection::serve(stream, options))
        } else {
            Connection::handshake(stream, &path, options).await
        }
    }
}

/// A descriptor of this process's own for what this number is open for, closed when the process executes another program;
/// `None` if it is not open. The number itself stays open, and is closed with its owner.
#[allow(unsafe_code)]
fn duplicate(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: the calls reach no memory, and no descriptor is closed or becomes another.
    let new = unsafe {
        libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3)
    };
    // SAFETY: the descriptor was made just now, so that nothing else owns it.
    (new >= 0).then(|| unsafe { OwnedFd::from_raw_fd(new) })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::IntoRawFd;

    use serde_json::json;

    use super::*;
    use crate::message::Message;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn r5_1_a_pair_is_taken_over_with_or_without_greeting() {
        for greeted in [false, true] {
            run(async {
                let (ours, mut theirs) = StdStream::pair().unwrap();
                if !greeted {
                    theirs.write_all(&[0]).unwrap();
                }
                let uri = format!("fd://{}", ours.into_raw_fd());
                let connection = Connection::inherit(&uri, greeted, Options::default()).await.unwrap();
                theirs.set_nonblocking(true).unwrap();
                let mut broker = Connection::serve(UnixStream::from_std(theirs).unwrap(), Options::default());
                connection.outbox.send(&Message::request("a.b").with_json(&json!({"x": 1}))).unwrap();
                assert_eq!(broker.inbox.recv().await.unwrap().topic(), "a.b");
            });
        }
    }

    #[test]
    fn what_is_no_socket_is_refused_in_words() {
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let uri = format!("fd://{}", file.into_raw_fd());
        for (uri, word) in [
            (uri.as_str(), "no UNIX socket"),
            ("fd://99999", "not open"),
            ("fd://x", "no number"),
            ("fd://1", "for input, output and errors"),
            ("local:///run/flux/local", "no inherited descriptor"),
        ] {
            let error = run(Connection::inherit(uri, false, Options::default())).unwrap_err().to_string();
            assert!(error.contains(word), "{uri}: {error}");
        }
    }
}
