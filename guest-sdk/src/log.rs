//! The host's log. In a component a message goes to the host, which bounds rate and size; natively it goes to standard
//! error, or to the sink of [`set_sink`].

/// The severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// An operation failed.
    Error,
    /// An unexpected state.
    Warn,
    /// Information.
    Info,
    /// For the author.
    Debug,
}

/// Writes one message; the first 4096 bytes are kept.
pub fn write(level: Level, message: &str) {
    backend::write(level, message);
}

/// Writes an error.
pub fn error(message: &str) {
    write(Level::Error, message);
}

/// Writes a warning.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Writes an information.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Writes a debug message.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

#[cfg(target_arch = "wasm32")]
mod backend {
    use super::Level;
    use crate::bindings::host_log;

    pub(super) fn write(level: Level, message: &str) {
        let level = match level {
            Level::Error => host_log::Level::Error,
            Level::Warn => host_log::Level::Warn,
            Level::Info => host_log::Level::Info,
            Level::Debug => host_log::Level::Debug,
        };
        host_log::write(level, message);
    }
}

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

    /// Natively: sends this thread's messages to this sink instead of standard error; `None` resets it.
    pub fn set_sink(sink: Option<Sink>) {
        SINK.with(|slot| *slot.borrow_mut() = sink);
    }

    // A failing test shows standard error.
    #[allow(clippy::print_stderr)]
    pub(super) fn write(level: Level, message: &str) {
        SINK.with(|slot| match slot.borrow_mut().as_mut() {
            Some(sink) => sink(level, message),
            None => eprintln!("policy: {level:?}: {message}"),
        });
    }
}
