//! One arena of memory for a process that runs for months.
//!
//! The C library gives each thread an arena of its own. The threads of a scheduler take turns, and what one frees another could
//! use; with an arena each, every one of them grows to its own largest size, and after ten thousand swaps the process had a
//! quarter more than after a thousand. The number of arenas is taken from the environment when a process begins, so this one
//! begins again.
//!
//! Must never know what the process is for. Where it cannot begin again it goes on, with more memory.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Where glibc looks; other C libraries do not.
const ARENAS: &str = "MALLOC_ARENA_MAX";

/// Begin again with one arena, unless somebody said how many. To be called before there are threads; descriptors, arguments
/// and the number of the process stay.
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
    // It comes back only if it failed.
    let _ = again.args(args).env(ARENAS, "1").exec();
}
