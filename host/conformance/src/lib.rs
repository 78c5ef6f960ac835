//! Checks for any policy component, whatever language it was written in.
//!
//! ```no_run
//! use fluxgate_conformance::check;
//! use fluxgate_policy::{Config, Limits, Loader};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let loader = Loader::new(Limits::default(), None)?;
//! let report = check(&loader, &std::fs::read("mine.wasm")?, &Config::new());
//! assert!(report.passed(), "{report:#?}");
//! # Ok(())
//! # }
//! ```
//!
//! The kit runs small worlds on the engine with a fresh instance of the component as the policy, and compares the
//! decisions. All input is fixed: the same component and limits give the same report, on any machine, unless a call reaches
//! its deadline. A loader [without a clock](Loader::without_clock) has no deadline.
//!
//! - [`Check`] is one line of the report; [`CHECKS`] names them all.
//! - `world` makes machines and jobs, `drive` runs them, `recorder` records the calls between engine and component.
//! - `behaviour`, `settings` and `states` are the checks of decisions, settings and saved state.
//!
//! This crate must never know sockets, files, commands, or the names of policies.

#![deny(missing_docs)]

mod behaviour;
mod drive;
mod measure;
mod recorder;
mod report;
mod settings;
mod states;
mod world;

use fluxgate_policy::{Compiled, Config, Loader};

pub use measure::{Measured, measure};
pub use report::{CHECKS, Check, Report, Verdict};

use report::Reporter;

/// A component with the settings for its checks.
pub(crate) struct Subject<'a> {
    pub(crate) compiled: &'a Compiled,
    pub(crate) config: &'a Config,
    pub(crate) loader: &'a Loader,
}

/// Runs all checks on a component, with these settings and within the limits of this loader.
///
/// Never fails: a component that cannot be loaded fails the check `contract`, and the others are skipped.
pub fn check(loader: &Loader, bytes: &[u8], config: &Config) -> Report {
    let mut reporter = Reporter::default();
    let compiled = match loader.compile(bytes) {
        Ok(compiled) => compiled,
        Err(error) => {
            reporter.fail("contract", error.to_string());
            return reporter.finish(None);
        }
    };
    check_compiled(loader, &compiled, config, reporter)
}

fn check_compiled(loader: &Loader, compiled: &Compiled, config: &Config, mut reporter: Reporter) -> Report {
    reporter.pass("contract", format!("{} bytes", compiled.size()));
    let subject = Subject { compiled, config, loader };
    if settings::check(&subject, &mut reporter) {
        behaviour::check(&subject, &mut reporter);
        states::check(&subject, &mut reporter);
    }
    reporter.finish(Some(compiled))
}
