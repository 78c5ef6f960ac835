//! Compiling in a process of its own: the running program starts itself again, hands it the component, and takes native code
//! back.
//!
//! A component is foreign, and a compiler is a large program. The effects of a component on the compiler end with that process. The
//! kernel bounds its processor time (`compile-seconds`) and its memory (`compile-bytes`), it has no file open but three pipes, and it
//! dies with the program that started it. A component whose code does not come back within the bounds is refused, as is one that the
//! compiler refuses.
//!
//! A program that wants this calls [`for_parent`] when its first argument is [`ARGUMENT`], before anything else.
//!
//! Must never know the folder of the cache, or what a component is for.

use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::cache::{ENTRY_BYTES_MAX, deserialize};
use crate::error::LoadError;
use crate::limits::{Limits, MESSAGE_BYTES_MAX, one_line};
use crate::loader::{flat, settings};

/// The first argument with which a program is started as a compiler.
pub const ARGUMENT: &str = "--compile-a-component";

/// First bytes of what a compiler takes and gives; the number is the version of this layout.
const MAGIC: &[u8; 8] = b"fxgcmp 1";
/// The program that runs, also where its file was replaced.
const SELF: &str = "/proc/self/exe";
/// Most threads of one compiler.
const THREADS_MAX: &str = "4";
/// Files that a compiler may have open: its pipes, and what the kernel tells of processors.
const FILES_MAX: u64 = 32;
/// Longest description of the limits, bytes.
const LIMITS_BYTES_MAX: u64 = 64 << 10;

/// The byte that marks native code, and the one that marks a refusal.
const CODE: u8 = b'+';
const REFUSED: u8 = b'-';

/// Compiles a component in another process.
pub(crate) fn compile(engine: &Engine, limits: &Limits, bytes: &[u8]) -> Result<Component, LoadError> {
    let broken = |what: &str, error: &dyn std::fmt::Display| LoadError::Compiler {
        problem: format!("{what}: {error}"),
    };
    let mut child = Command::new(SELF)
        .arg(ARGUMENT)
        .env_clear()
        .env("RAYON_NUM_THREADS", THREADS_MAX)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| broken("cannot be started", &error))?;
    // The answer decides: a compiler that ended early may not have taken the whole component.
    let sent = child.stdin.take().map(|mut pipe| send(&mut pipe, limits, bytes));
    let answer = child.stdout.take().map(|mut pipe| receive(&mut pipe));
    // Nothing is read beyond the largest answer, so a compiler that writes more would wait for ever.
    let _ = child.kill();
    let ended = child.wait().map_err(|error| broken("is lost", &error))?;
    match answer {
        Some(Ok(Answer::Code(code))) => {
            deserialize(engine, &code).map_err(|error| broken("gave code that does not load", &flat(&error)))
        }
        Some(Ok(Answer::Refused(message))) => Err(LoadError::Invalid { message }),
        Some(Err(error)) => Err(over(limits, ended).unwrap_or_else(|| match sent {
            Some(Err(error)) => broken("did not take the component", &error),
            _ => broken("gave no answer", &error),
        })),
        None => Err(broken("has no pipe", &ended)),
    }
}

/// The error of a compiler that a signal ended; `None` if it ended by itself.
fn over(limits: &Limits, ended: ExitStatus) -> Option<LoadError> {
    let signal = Signal::try_from(ended.signal()?).ok()?;
    match signal {
        Signal::SIGXCPU => Some(LoadError::CompileLimit {
            bound: "compile-seconds",
            what: format!("{} seconds of processor time", limits.compile_seconds),
        }),
        // An allocation that fails ends the process so.
        Signal::SIGABRT => Some(LoadError::CompileLimit {
            bound: "compile-bytes",
            what: format!("{} bytes of memory", limits.compile_bytes),
        }),
        other => Some(LoadError::Compiler { problem: format!("was ended by {other}") }),
    }
}

enum Answer {
    Code(Vec<u8>),
    Refused(String),
}

fn send(pipe: &mut impl Write, limits: &Limits, bytes: &[u8]) -> io::Result<()> {
    let limits = serde_json::to_vec(limits)?;
    pipe.write_all(MAGIC)?;
    pipe.write_all(&(limits.len() as u64).to_le_bytes())?;
    pipe.write_all(&limits)?;
    pipe.write_all(&(bytes.len() as u64).to_le_bytes())?;
    pipe.write_all(bytes)?;
    pipe.flush()
}

fn receive(pipe: &mut impl Read) -> io::Result<Answer> {
    let bad = |problem: &str| io::Error::new(io::ErrorKind::InvalidData, problem.to_owned());
    let mut head = [0; MAGIC.len() + 1];
    pipe.read_exact(&mut head)?;
    if head[..MAGIC.len()] != *MAGIC {
        return Err(bad("it is another program"));
    }
    let mut sum = [0; 32];
    pipe.read_exact(&mut sum)?;
    let body = part(pipe, ENTRY_BYTES_MAX)?;
    if Sha256::digest(&body)[..] != sum {
        return Err(bad("the answer is damaged"));
    }
    match head[MAGIC.len()] {
        CODE => Ok(Answer::Code(body)),
        REFUSED => Ok(Answer::Refused(one_line(&String::from_utf8_lossy(&body), MESSAGE_BYTES_MAX))),
        _ => Err(bad("the answer is of no kind")),
    }
}

/// A length and this many bytes.
fn part(pipe: &mut impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    pipe.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too long"));
    }
    let mut bytes = Vec::new();
    pipe.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// The work of a compiler: takes limits and a component from standard input, gives native code to standard output. To be called
/// by a program whose first argument is [`ARGUMENT`], before it starts a thread. The resource limits of the process stay lowered.
///
/// The exit code is a failure if standard input has no such request or the answer cannot be written. A component that the compiler
/// refuses is an answer, and a success.
pub fn for_parent() -> ExitCode {
    match answer(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "{ARGUMENT} is for the program itself, with a component on standard input: {error}"
            );
            ExitCode::FAILURE
        }
    }
}

fn answer(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let bad = |problem: &str| io::Error::new(io::ErrorKind::InvalidData, problem.to_owned());
    let parent = getppid();
    set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        return Err(bad("the program that asked has ended"));
    }
    let mut magic = [0; MAGIC.len()];
    from.read_exact(&mut magic)?;
    if magic != *MAGIC {
        return Err(bad("no component is there"));
    }
    let limits: Limits = serde_json::from_slice(&part(from, LIMITS_BYTES_MAX)?)?;
    hold(&limits)?;
    let bytes = part(from, limits.component_bytes)?;
    let compiled = Engine::new(&settings(&limits)).and_then(|engine| engine.precompile_component(&bytes));
    let (kind, body) = match compiled {
        Ok(code) => (CODE, code),
        Err(error) => (REFUSED, flat(&error).into_bytes()),
    };
    to.write_all(MAGIC)?;
    to.write_all(&[kind])?;
    to.write_all(&Sha256::digest(&body))?;
    to.write_all(&(body.len() as u64).to_le_bytes())?;
    to.write_all(&body)?;
    to.flush()
}

/// The kernel holds this process to its limits from now on.
fn hold(limits: &Limits) -> io::Result<()> {
    for (resource, soft, hard) in [
        (Resource::RLIMIT_CORE, 0, 0),
        (Resource::RLIMIT_FSIZE, 0, 0),
        (Resource::RLIMIT_NOFILE, FILES_MAX, FILES_MAX),
        (Resource::RLIMIT_AS, limits.compile_bytes, limits.compile_bytes),
        (Resource::RLIMIT_CPU, limits.compile_seconds, limits.compile_seconds.saturating_add(1)),
    ] {
        setrlimit(resource, soft, hard)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_and_a_damaged_one_does_not() {
        let mut whole = Vec::new();
        whole.extend(MAGIC);
        whole.push(REFUSED);
        whole.extend(Sha256::digest(b"no\nway"));
        whole.extend(6_u64.to_le_bytes());
        whole.extend(b"no\nway");
        assert!(matches!(receive(&mut &whole[..]), Ok(Answer::Refused(message)) if message == "no way"));
        for at in 0..whole.len() {
            assert!(receive(&mut &whole[..at]).is_err(), "{at}");
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            // The kind stands in front of the checksum, and '+' and '-' differ by more than a bit.
            assert!(receive(&mut &flipped[..]).is_err(), "{at}");
        }
    }

    #[test]
    fn a_request_is_read_back() {
        let mut sent = Vec::new();
        send(&mut sent, &Limits::default(), b"component").unwrap();
        let mut rest = &sent[MAGIC.len()..];
        let limits: Limits = serde_json::from_slice(&part(&mut rest, LIMITS_BYTES_MAX).unwrap()).unwrap();
        assert_eq!(limits, Limits::default());
        assert_eq!(part(&mut rest, 8).unwrap_err().to_string(), "too long");
    }
}
