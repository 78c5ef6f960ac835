//! One arena of memory for a process that runs for months.
//!
//! The C library gives each thread an arena of its own. The threads of a scheduler take turns, and memory that one frees
//! could serve another; with an arena each, every arena grows to its own largest size, and after ten thousand swaps the
//! process had a quarter more memory than after a thousand. A process reads the number of arenas from its environment when
//! it starts, so this one executes itself again.
//!
//! This module must never know the purpose of the process. If it cannot be executed again it goes on, with more memory.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The variable that glibc reads; other C libraries do not.
const ARENAS: &str = "MALLOC_ARENA_MAX";

/// Executes the program again with one arena, unless the environment sets a number. To be called before there are threads;
/// descriptors, arguments and the process id stay.
pub(crate) fn one() {
    if env::var_os(ARENAS).is_some() {
        return;
    }
    let Ok(program) = env::current_exe() else { return };
    let mut args = env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = args.next() {
        again.arg0(name);
    }
    // `exec` returns only if it failed.
    let _ = again.args(args).env(ARENAS, "1").exec();
}
