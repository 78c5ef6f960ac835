//! `fluxgate replay --serve`: a client on a socket drives a run. It is told the events as JSON lines; after those of an
//! instant the run waits for a command, a line of text.
//!
//! | command | the run |
//! |---|---|
//! | `next` | goes on to the end of the next instant |
//! | `until TIME` | goes on while the next instant is at TIME or before, in seconds of the workload's time base |
//! | `end` | goes on to its end without waiting |
//! | `stop` | ends now, without figures |
//!
//! The line at which the run waits has `"waits":true` beside the keys of its instant. One user may connect, the one of this
//! process, and one client.
//!
//! Must never know how a run is made.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fluxgate_sim::driver::SimError;
use fluxgate_sim::events::{Event, Instant, Listener};
use fluxgate_wire::server::{self, Access};
use nix::sys::socket::{getsockopt, sockopt};
use serde_json::json;

use super::events::write;

/// Longest command of a client that drives a replay, in bytes.
pub(crate) const COMMAND_BYTES_MAX: usize = 256;

const ACCEPTED: &str = "`next`, `until TIME`, `end` and `stop`";

/// A socket that is listened on. Its file is removed when this is dropped.
pub(super) struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The file may be removed already.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Socket {
    /// Listens on a path, for the user of this process alone.
    pub(super) fn bind(path: &Path) -> Result<Socket> {
        let listener = server::listen(path, 0o600).context("--serve")?;
        Ok(Socket { listener, path: path.to_owned() })
    }

    /// Waits for the client. Other users are turned away.
    pub(super) fn accept(self) -> Result<Client> {
        let name = self.path.display().to_string();
        let access = Access::owner_only();
        loop {
            let (stream, _) = self.listener.accept().with_context(|| name.clone())?;
            let peer = getsockopt(&stream, sockopt::PeerCredentials).with_context(|| name.clone())?;
            if access.judge(peer.uid()).is_ok() {
                let read = BufReader::new(stream.try_clone().with_context(|| name.clone())?);
                let (out, goes, told) = (BufWriter::new(stream), Goes::ToNext, None);
                return Ok(Client { read, out, goes, told, name, _socket: self });
            }
            tracing::warn!(uid = peer.uid(), "connection refused");
        }
    }
}

/// The point up to which a run goes without waiting.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Goes {
    ToNext,
    Until(f64),
    ToEnd,
}

/// A command of a client.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Command {
    Go(Goes),
    Stop,
}

impl Command {
    fn parse(line: &str) -> Option<Command> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["next"] => Some(Command::Go(Goes::ToNext)),
            ["end"] => Some(Command::Go(Goes::ToEnd)),
            ["stop"] => Some(Command::Stop),
            ["until", time] => {
                let time = time.parse().ok().filter(|time: &f64| time.is_finite())?;
                Some(Command::Go(Goes::Until(time)))
            }
            _ => None,
        }
    }
}

/// The client that drives a run.
pub(super) struct Client {
    read: BufReader<UnixStream>,
    out: BufWriter<UnixStream>,
    goes: Goes,
    /// The reason for an early end of the run.
    told: Option<io::ErrorKind>,
    name: String,
    _socket: Socket,
}

impl Client {
    /// The next command. Other lines are answered with an error. Fails when the client has gone.
    fn command(&mut self) -> io::Result<Command> {
        loop {
            let mut line = Vec::new();
            let most = COMMAND_BYTES_MAX as u64 + 1;
            let read = (&mut self.read).take(most).read_until(b'\n', &mut line)?;
            if read == 0 {
                let message = format!("{}: the client went away while the run waited for it", self.name);
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
            }
            if line.len() > COMMAND_BYTES_MAX {
                let message = format!("found a longer command, accepted are {COMMAND_BYTES_MAX} bytes");
                self.refuse(&message)?;
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{}: {message}", self.name)));
            }
            let text = String::from_utf8_lossy(&line);
            match Command::parse(&text) {
                Some(command) => return Ok(command),
                None => self.refuse(&format!("found {:?}, accepted are {ACCEPTED}", text.trim()))?,
            }
        }
    }

    fn refuse(&mut self, message: &str) -> io::Result<()> {
        writeln!(self.out, "{}", json!({"event": "error", "error": message}))?;
        self.out.flush()
    }

    /// Waits at the end of an instant.
    fn wait(&mut self, instant: &Instant) -> io::Result<()> {
        let Instant { time, waiting, busy, next } = *instant;
        let line = json!({
            "event": "instant", "time": time, "waiting": waiting, "busy": busy, "next": next, "waits": true,
        });
        loop {
            writeln!(self.out, "{line}")?;
            self.out.flush()?;
            match self.command()? {
                // Nothing happens until then.
                Command::Go(Goes::Until(until)) if until < next => {}
                Command::Go(goes) => {
                    self.goes = goes;
                    return Ok(());
                }
                Command::Stop => {
                    self.told = Some(io::ErrorKind::Interrupted);
                    return Err(io::Error::new(io::ErrorKind::Interrupted, "stopped by the client"));
                }
            }
        }
    }

    /// Tells the client the event, and waits where the client asked for it.
    fn tell(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Instant(instant) => {
                let waits = match self.goes {
                    Goes::ToNext => true,
                    Goes::Until(until) => until < instant.next,
                    Goes::ToEnd => false,
                };
                if waits { self.wait(instant) } else { write(&mut self.out, event) }
            }
            Event::Over { .. } => {
                write(&mut self.out, event)?;
                self.out.flush()
            }
            _ => write(&mut self.out, event),
        }
    }

    /// True if the run ended because the client said so.
    pub(super) fn stopped(&self) -> bool {
        self.told == Some(io::ErrorKind::Interrupted)
    }
}

impl Listener for Client {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match self.tell(event) {
            // A client need not listen to the end of a run that does not wait any more.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self.goes == Goes::ToEnd => Ok(()),
            told => told,
        }
    }
}

/// True if an error of a run is that of a listener which ended it.
pub(super) fn ended(error: &anyhow::Error) -> bool {
    let found = error.downcast_ref::<SimError>();
    matches!(found, Some(SimError::Output(why)) if why.kind() == io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn res_59_commands() {
        let until = |time| Some(Command::Go(Goes::Until(time)));
        let rows = [
            ("next\n", Some(Command::Go(Goes::ToNext))),
            ("  end\r\n", Some(Command::Go(Goes::ToEnd))),
            ("stop", Some(Command::Stop)),
            ("until 12.5\n", until(12.5)),
            ("until 1e9\n", until(1e9)),
            ("until\n", None),
            ("until noon\n", None),
            ("until inf\n", None),
            ("next next\n", None),
            ("\n", None),
        ];
        for (text, expected) in rows {
            assert_eq!(Command::parse(text), expected, "{text:?}");
        }
    }
}
