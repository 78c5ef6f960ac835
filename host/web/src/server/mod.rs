//! The server: its socket, its connections and their bounds.
//!
//! - `door.rs`: access of viewers.
//! - `routes.rs`: answers by address.
//! - `body.rs`: bodies of answers and requests.
//!
//! Must never know what a page says.

mod body;
mod door;
mod routes;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::header::HeaderName;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::stat::{Mode, umask};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

use crate::answers::Answers;
use crate::page::Chrome;
use crate::past::Times;
use crate::source::{Past, Source};
use routes::Server;

/// Most connections at a time; others wait.
const CONNECTIONS_MAX: usize = 512;
/// Most bytes of the head of a request.
const HEAD_MAX: usize = 16 * 1024;
/// Longest time for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// The place where the server listens. As text, an address with a port, or `unix:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A port of this host: 127.0.0.1 or `[::1]`. Port 0 takes a free one.
    Port(SocketAddr),
    /// A socket of the file system, mode 0600; 0660 behind a proxy.
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.is_empty() {
                true => Err("unix: expected a path after it".to_owned()),
                false => Ok(Listen::Unix(path.into())),
            };
        }
        let address: SocketAddr =
            text.parse().map_err(|_| format!("found {text:?}, expected 127.0.0.1:PORT or unix:PATH"))?;
        match address.ip().is_loopback() {
            true => Ok(Listen::Port(address)),
            false => Err(format!(
                "{address} can be reached from other hosts: listen on 127.0.0.1 or on a unix socket, and let a proxy or \
                 ssh lead there"
            )),
        }
    }
}

/// The options of the server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The place where the server listens.
    pub listen: Listen,
    /// The name of the instance on pages.
    pub instance: String,
    /// The word before a command on pages: `fluxgate`, or `flux gate`.
    pub program: String,
    /// True if changes are served too: of jobs, and of the policy that decides.
    pub control: bool,
    /// The header in which a proxy tells the viewer's name. Only for a socket of the file system, which its group may use then.
    pub behind_proxy: Option<String>,
    /// The user of a name, for reservations.
    pub user_of: fn(&str) -> Option<u32>,
}

/// The reason why a server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket cannot be made.
    #[error("cannot listen on {0}: {1}")]
    Listen(String, io::Error),
    /// Another server listens there.
    #[error("{0}: another server listens there already")]
    Taken(PathBuf),
    /// There is a file of that name that is no socket.
    #[error("{0} is there and no socket; it is not replaced")]
    NoSocket(PathBuf),
    /// A client of a port could tell any name.
    #[error("behind a proxy only a socket of the file system is listened on")]
    ProxyOnPort,
    /// The text is no name of a header.
    #[error("{0:?} is no name of a header")]
    Header(String),
}

fn clock() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Serves the answers of `source` until `stop` is ready. `announce` gets the address to open, and a new one whenever a key was
/// used. Pages of the past are those of `past`.
///
/// # Errors
/// [`ServeError`]: the socket cannot be made, another server listens there, or the header of a proxy is not accepted.
pub async fn serve(
    options: Options,
    source: impl Source,
    past: Option<Box<dyn Past>>,
    announce: impl Fn(&str) + Send + Sync + 'static,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let header =
        options.behind_proxy.map(|name| name.parse::<HeaderName>().map_err(|_| ServeError::Header(name)));
    let header = header.transpose()?;
    if header.is_some() && matches!(options.listen, Listen::Port(_)) {
        return Err(ServeError::ProxyOnPort);
    }
    let listener = Listener::bind(&options.listen, header.is_some()).await?;
    let began = Instant::now();
    let answers = Answers::new(source, Box::new(move || began.elapsed())).with_control(options.control);
    let answers = Arc::new(answers);
    let times = Times::new(past);
    let chrome = Chrome { instance: options.instance, program: options.program, past: times.is_there() };
    let door = door::Door::new(listener.address(), header.is_some());
    announce(&door.invitation().unwrap_or_else(|| match &options.listen {
        Listen::Unix(path) => format!("unix:{}", path.display()),
        Listen::Port(address) => format!("http://{address}/"),
    }));
    let server = Arc::new(Server::new(
        (answers, times),
        chrome,
        (door, header),
        began,
        (clock, options.user_of),
        Box::new(announce),
    ));
    let accepting = accept(&listener, &server);
    tokio::select! {
        () = accepting => {}
        () = stop => {}
    }
    if let Listener::Unix(_, path) = &listener {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

enum Listener {
    Port(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    async fn bind(listen: &Listen, proxied: bool) -> Result<Listener, ServeError> {
        match listen {
            Listen::Port(address) => {
                let failed = |error| ServeError::Listen(address.to_string(), error);
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                let address = listener.local_addr().map_err(failed)?;
                Ok(Listener::Port(listener, address))
            }
            Listen::Unix(path) => {
                clear(path)?;
                // The socket must never be open to others, not even before its mode is set.
                let closed = if proxied { 0o117 } else { 0o177 };
                let before = umask(Mode::from_bits_truncate(closed));
                let listener = UnixListener::bind(path);
                umask(before);
                let failed = |error| ServeError::Listen(path.display().to_string(), error);
                Ok(Listener::Unix(listener.map_err(failed)?, path.clone()))
            }
        }
    }

    fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Port(_, address) => Some(*address),
            Listener::Unix(..) => None,
        }
    }
}

/// Remove a socket on which no process listens any more.
fn clear(path: &Path) -> Result<(), ServeError> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        return Err(ServeError::NoSocket(path.to_owned()));
    }
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(ServeError::Taken(path.to_owned()));
    }
    std::fs::remove_file(path).map_err(|error| ServeError::Listen(path.display().to_string(), error))
}

async fn accept(listener: &Listener, server: &Arc<Server>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        macro_rules! connection {
            ($stream:expr) => {{
                let (server, stream) = (Arc::clone(server), $stream);
                tokio::spawn(async move {
                    let service = service_fn(|request| routes::answer(Arc::clone(&server), request));
                    let served = http1::Builder::new()
                        .timer(TokioTimer::new())
                        .header_read_timeout(HEAD_TIME)
                        .max_buf_size(HEAD_MAX)
                        .serve_connection(TokioIo::new(stream), service);
                    if let Err(error) = served.await {
                        tracing::debug!("connection of a viewer: {error}");
                    }
                    drop(place);
                });
            }};
        }
        let accepted = match listener {
            Listener::Port(listener, _) => listener.accept().await.map(|(stream, _)| connection!(stream)),
            Listener::Unix(listener, _) => listener.accept().await.map(|(stream, _)| connection!(stream)),
        };
        if let Err(error) = accepted {
            // Too many open files, for instance: others end meanwhile.
            tracing::warn!("cannot take a connection: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_67_only_this_host_is_listened_on() {
        assert_eq!("127.0.0.1:0".parse(), Ok(Listen::Port("127.0.0.1:0".parse().unwrap())));
        assert_eq!("[::1]:80".parse(), Ok(Listen::Port("[::1]:80".parse().unwrap())));
        assert_eq!("unix:/run/web".parse(), Ok(Listen::Unix("/run/web".into())));
        for (bad, word) in [
            ("0.0.0.0:80", "other hosts"),
            ("192.0.2.1:80", "other hosts"),
            ("80", "127.0.0.1"),
            ("unix:", "path"),
        ] {
            let error = bad.parse::<Listen>().unwrap_err();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }
}
