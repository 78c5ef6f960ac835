//! Training environments: a run of the simulator that stops at each decision and goes on with an action from outside.
//!
//! The engine, its gate and the driver are those of a replay. The policy of such a run ([`world`]) makes its passes by a
//! [`deciding::Decider`], which ends the pass at a question; with the answer another pass is made at the same time. So
//! nothing waits in the middle of a pass, an environment is one object without threads, and an episode depends on jobs,
//! machine, parameters and actions alone.
//!
//! - [`episode`]: one sequence of jobs from its first decision to its end.
//! - [`deciding`]: which decisions are asked, and how actions are carried out.
//! - [`reward`]: metrics as rewards, at the end or step by step.
//! - [`world`]: the engine's pass, as the pass of trained policies needs it.
//!
//! This crate knows neither Python nor networks' weights.

#![forbid(unsafe_code)]

pub mod deciding;
pub mod episode;
pub mod reward;
pub mod world;
