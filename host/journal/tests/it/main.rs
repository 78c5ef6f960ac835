//! The journal on a real disk, and on one that fails.

mod common;
mod faults;
mod faulty;
mod files;
mod rerun;
