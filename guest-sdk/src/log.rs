//! The host's log. In a component a message goes to the host, which bounds rate and size; natively it goes
//! to standard error, or to where [`set_sink`] says.

/// How important a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something failed.
    Error,
    /// Something is odd.
    Warn,
    /// Worth knowing.
    Info,
    /// For the author.
    Debug,
}

/// Write one message; the first 4096 bytes are kept.
pub fn write(level: Level, message: &str) {
    backend::write(level, message);
}

/// Write an error.
pub fn error(message: &str) {
    write(Level::Error, message);
}

/// Write a warning.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Write an information.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Write a debug message.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

#[cfg(target_arch = "wasm32")]
use crate::abi as backend;

#[cfg(not(target_arch = "wasm32"))]
pub use backend::set_sink;

#[cfg(not(target_arch = "wasm32"))]
mod backend {
    use super::Level;
    use std::cell::RefCell;

    type Sink = Box<dyn FnMut(Level, &str)>;

    thread_local! {
        static SINK: RefCell<Option<Sink>> = const { RefCell::new(None) };
    }

    /// Natively: send this thread's messages here instead of to standard error; `None` undoes it.
    pub fn set_sink(sink: Option<Sink>) {
        SINK.with(|slot| *slot.borrow_mut() = sink);
    }

    // Standard error is what a test shows of a failing policy.
    #[allow(clippy::print_stderr)]
    pub(super) fn write(level: Level, message: &str) {
        SINK.with(|slot| match slot.borrow_mut().as_mut() {
            Some(sink) => sink(level, message),
            None => eprintln!("policy: {level:?}: {message}"),
        });
    }
}
