//! The scheduler service: everything between the conversation with a broker and the engine that schedules.
//!
//! [`Service`] is a state machine. It is handed messages, finished work and the passing of time; it sends messages and
//! starts work through one trait, [`Host`]. A driver with sockets and threads runs it as the scheduler of an instance; a
//! test runs it in one thread, with a clock that it sets itself:
//!
//! ```text
//! message ------> Service::message  --+--> Host::send
//! time ---------> Service::turn       +--> Host::start --> Work::run (elsewhere)
//! Finished -----> Service::finished --+--> Host::store           |
//!        ^                                                       |
//!        '-------------------------------------------------------'
//! ```
//!
//! Inside, [`Settings`](settings::Settings) say what a site wants; the registry knows the policies that can decide, and a
//! history for each policy scope those that did; swapping begins and ends swaps and goes back when a policy fails, after
//! a quarantine. Beside the schedule stand shadows, forecasts, the states that policies learn, and the audit trail: none of
//! them has a say in it.
//!
//! The same messages, times and finished work in the same order give the same messages and work out. This crate must
//! never know clocks, threads, sockets or files: `cargo xtask tidy` holds it to that.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod answers;
mod audit_trail;
mod components;
mod configuration;
mod feasibility_queue;
pub mod fluxion;
mod forecasts;
mod guest_backlog;
mod history;
mod host;
mod job_log;
mod openmetrics;
mod pass_timer;
mod past;
mod pending_swap;
mod policy_choice;
mod policy_state;
mod probation;
mod quarantine;
mod question_budget;
mod registry;
mod responder;
mod service;
pub mod settings;
mod shadows;
mod steady;
mod timing;
mod unwritten_trail;
mod work;

pub use audit_trail::entry as audit_entry;
pub use components::Components;
pub use configuration::Configuration;
pub use host::{Document, Host, Store, Usage};
pub use pass_timer::Cut;
pub use past::{Past, Viewer};
pub use policy_choice::Builtin;
pub use responder::{Checked, Heard, Responder};
pub use service::{NextTurn, Service, ServiceIdentity};
pub use work::{Finished, Work};
