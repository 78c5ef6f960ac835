//! The name under which this program runs: `fluxgate`, or `flux gate` when Flux starts it as a subcommand.
//!
//! Flux hands on the bare word (`gate`) as the name of the program. Help, usage and errors then speak of `flux
//! gate`, and commands that have nothing to do with the surrounding instance are left out of the help.

use std::path::Path;
use std::sync::OnceLock;

/// Commands for the embedded instance, and the commands in their place for a Flux.
pub(crate) const EMBEDDED: &[(&str, &str)] =
    &[("up", "flux start"), ("down", "flux shutdown"), ("submit", "flux submit"), ("demo", "fluxgate demo")];

/// True if Flux started this program as `flux gate`.
pub(crate) fn as_subcommand() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| std::env::args_os().next().is_some_and(|name| is_subcommand(Path::new(&name))))
}

fn is_subcommand(name: &Path) -> bool {
    name.file_name().is_some_and(|name| name == "flux-gate" || name == "gate")
}

/// The name of this program.
pub(crate) fn name() -> &'static str {
    if as_subcommand() { "flux gate" } else { "fluxgate" }
}

/// The error of a command that does nothing here.
pub(crate) fn elsewhere(command: &str) -> anyhow::Error {
    let instead = EMBEDDED.iter().find(|(name, _)| *name == command).map_or("flux", |(_, instead)| *instead);
    anyhow::anyhow!(
        "{command} is for Fluxgate's embedded instance, and this one is a Flux's: use '{instead}'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flux_hands_on_the_bare_word() {
        for (name, subcommand) in [
            ("gate", true),
            ("flux-gate", true),
            ("/usr/libexec/flux/cmd/flux-gate", true),
            ("fluxgate", false),
            ("/usr/bin/fluxgate", false),
            ("gate/fluxgate", false),
            ("", false),
        ] {
            assert_eq!(is_subcommand(Path::new(name)), subcommand, "{name}");
        }
    }
}
