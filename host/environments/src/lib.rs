//! Training environments: a run of the simulator that stops at each decision and goes on with an action from outside.
//!
//! The engine, its gate and the driver are those of a replay. The policy of such a run is a
//! [`player::Player`], which ends the pass at a question; with the answer another pass is made at the same time. So
//! nothing waits in the middle of a pass, an environment is one object without threads, and an episode depends on jobs,
//! machine, parameters and actions alone.
//!
//! - [`episode`]: one sequence of jobs from its first decision to its end.
//! - [`player`]: a policy whose passes may end with a question.
//! - [`deciding`]: decisions about rows of jobs, and how actions are carried out.
//! - [`reserving`]: the decision to start, reserve or leave a job, beside a plan of free cores.
//! - [`weighing`]: weights of the policy multifactor for the next period.
//! - [`reward`]: metrics as rewards, at the end or step by step.
//! - [`world`]: the engine's pass, as the pass of trained policies needs it.
//! - [`native_twin`]: a policy of the SDK as a policy of the engine, without a component.
//!
//! This crate knows neither Python nor networks' weights.

#![forbid(unsafe_code)]

pub mod deciding;
pub mod episode;
pub mod native_twin;
pub mod player;
pub mod reserving;
pub mod reward;
pub mod weighing;
pub mod world;
