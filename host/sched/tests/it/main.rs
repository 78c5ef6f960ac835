//! The service as a state machine: one thread, no sockets, no sleeping; each test moves the messages, the work and the time.

mod clock;
mod components;
mod metrics;
mod policies;
mod questions;
mod queue_starts;
mod reloads;
mod reservations;
mod restarts;
mod said;
mod schedule;
mod shadows;
mod site_jobs;
mod vertices;
mod world;
