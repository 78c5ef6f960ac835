//! Arguments of `fluxgate policy shadow`, `diff`, `promote` and `watch`.

use clap::Args;

use super::Target;

/// `fluxgate policy shadow`.
#[derive(Debug, Args)]
pub(crate) struct ShadowCmd {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The candidate's name; without it, the shadows there are.
    pub(crate) name: Option<String>,
    /// For the policy of this queue instead of the default one.
    #[arg(long, value_name = "QUEUE", requires = "name")]
    pub(crate) queue: Option<String>,
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
    /// The queue it is a shadow for; needed only if it is one for several.
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
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
    /// The queue it is a shadow for; needed only if it is one for several.
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
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

/// `fluxgate policy watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchCmd {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) every: f64,
    /// Only once: the sums since the policy began.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON, a line for each look.
    #[arg(long)]
    pub(crate) json: bool,
}
