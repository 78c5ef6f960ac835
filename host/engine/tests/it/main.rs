//! The engine as its drivers see it: one test program, a module for each subject.

mod annotated;
mod audit;
mod bounds;
mod checkpoint;
mod common;
mod either;
mod estimate;
mod failing;
mod fitting;
mod forecast;
mod groups;
mod hold;
mod interrupt;
mod memory;
mod parking;
mod placement;
mod questions;
mod queues;
mod ranking;
mod reconfigure;
mod rules;
mod scheduling;
mod shadow;
mod vertices;
mod window_members;
mod windows;
