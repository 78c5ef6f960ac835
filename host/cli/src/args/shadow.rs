//! Arguments of `fluxgate policy shadow`, `diff` and `promote`.

use clap::Args;

use super::Target;

/// `fluxgate policy shadow`.
#[derive(Debug, Args)]
pub(crate) struct ShadowCmd {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The candidate's name; without it, the shadows there are.
    pub(crate) name: Option<String>,
    /// End it.
    #[arg(long, requires = "name")]
    pub(crate) stop: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate policy diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffCmd {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The shadow's name.
    pub(crate) name: String,
    /// Only this job, in any FLUID form.
    #[arg(long, value_name = "JOBID")]
    pub(crate) job: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate policy promote`.
#[derive(Debug, Args)]
pub(crate) struct PromoteCmd {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The shadow's name.
    pub(crate) name: String,
    /// Whatever its gate says.
    #[arg(long)]
    pub(crate) force: bool,
    /// Put it on probation for this long (30s, 10m, 2h): it is rolled back when it breaks a rule of the site.
    #[arg(long, value_name = "DURATION")]
    pub(crate) probation: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
