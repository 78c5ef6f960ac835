//! `cargo xtask deny`: licenses, duplicate versions, banned crates and sources, by the rules of `deny.toml`.
//!
//! Advisories are not checked: their database is fetched from elsewhere.

use anyhow::Result;

use crate::house::House;
use crate::toolchain::on_path;

/// The version that is installed below `target/` where cargo-deny is not on the search path.
const VERSION: &str = "0.20.2";

/// Checks the whole dependency graph.
pub(crate) fn run(house: &House) -> Result<()> {
    let mut program = std::path::PathBuf::from("cargo-deny");
    if !on_path("cargo-deny") {
        let room = house.target().join("tools");
        program = room.join("bin/cargo-deny");
        if !program.is_file() {
            eprintln!(
                "Installing cargo-deny {VERSION} into {}; this is done once and takes minutes.",
                room.display()
            );
            let install = house.cargo("install").args([
                "--quiet",
                "--debug",
                "--locked",
                "--version",
                VERSION,
                "cargo-deny",
            ]);
            // Without optimisation, because it runs only for seconds.
            install.arg("--root").arg(&room).env("CARGO_TARGET_DIR", room.join("build")).run()?;
        }
    }
    house.program(program).args(["--all-features", "check", "bans", "licenses", "sources"]).run()
}
