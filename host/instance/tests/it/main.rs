//! The instance as its clients see it: over the real socket.

mod common;
mod cycle;
mod processes;
mod restart;
mod throughput;
