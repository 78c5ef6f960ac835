//! The one binary: commands, rendering, signals, and the scheduler's main loop.
//!
//! Uses the other crates through their public faces only.

#![forbid(unsafe_code)]

mod arena;
mod args;
mod audit_trail;
mod calendar;
mod client;
mod clock;
mod cmd;
mod directory;
mod driver;
mod embedded;
mod fail;
mod files;
mod invoked;
mod journald;
mod logging;
mod machine;
mod module;
mod once;
mod place;
mod policy_source;
mod render;
mod service_manager;
mod spelling;
mod values;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Before all else: this process may do nothing but compile.
    if std::env::args_os().nth(1).is_some_and(|first| first == fluxgate_policy::apart::ARGUMENT) {
        return fluxgate_policy::apart::for_parent();
    }
    // A broker that starts this program as a module says so in the environment, not in arguments.
    if let Some(birth) = module::Birth::find() {
        arena::one();
        return module::run(birth);
    }
    // clap ends with exit code 2 on its own for what it cannot parse.
    match cmd::run(cmd::cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = fail::code(&error);
            // A closed standard error is no reason to panic.
            let error = render::shown(fail::text(&error));
            let _ = writeln!(std::io::stderr(), "{}: {error}", invoked::name());
            ExitCode::from(code)
        }
    }
}
