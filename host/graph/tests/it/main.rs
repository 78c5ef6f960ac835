//! The resource graph as the engine and the tools see it.

mod jobspec_cases;
mod placements;
mod rows;
mod satisfiable;
mod sets;
