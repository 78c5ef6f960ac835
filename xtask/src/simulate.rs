//! `cargo xtask simulate`: the whole scheduler under faults from seeds, built with optimisation and every check.
//!
//! Must never know what a seed is.

use anyhow::Result;

use crate::house::House;
use crate::policies;

/// The profile of its build: optimised, with assertions and overflow checks.
const PROFILE: &str = "simulation";

/// Builds the simulation and runs it with these arguments; the program itself refuses wrong ones.
pub(crate) fn run(house: &House, arguments: &[String]) -> Result<()> {
    let build = ["--profile", PROFILE, "--package", "fluxgate-simulation", "--bins"];
    policies::build_beside(house, &[], house.cargo("build").args(build))?;
    let binary = house.target().join(PROFILE).join("fluxgate-simulation");
    house.program(&binary).args(arguments).run()
}
