//! `fluxgate install`: all files of Fluxgate for a site, below a prefix, and their removal.
//!
//! The plan is made first and in full, then carried out by `write.rs` as one: either all of it is there
//! afterwards, or nothing has changed. A manifest remembers what was written, so that no file of others is ever
//! overwritten or removed.
//!
//! This module must never talk to an instance.

mod plan;
mod write;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;

use crate::fail::usage;
use crate::render;
use plan::Layout;
use write::{Action, Done, Manifest};

/// `fluxgate install`.
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing is changed unless all of it can be. Files of others are never overwritten, and files \
    below etc and unit files that were changed since they were installed are kept."
)]
pub(crate) struct Install {
    /// Where to. In the prefix of a Flux its next instances load the scheduler by themselves.
    #[arg(long, value_name = "DIR")]
    pub(crate) prefix: PathBuf,
    /// Folder of configuration. Default: etc in the prefix, or /etc for /usr.
    #[arg(long, value_name = "DIR")]
    pub(crate) sysconfdir: Option<PathBuf>,
    /// Put the files below this folder as if it were the root of the file system, for packages: what manages packages keeps the
    /// list of files, and none is written.
    #[arg(long, value_name = "DIR", conflicts_with = "uninstall")]
    pub(crate) root: Option<PathBuf>,
    /// Folder with the .wasm policies to install. Default: `policies` beside this program, then those inside it.
    #[arg(long, env = "FLUXGATE_POLICIES", value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
    /// Only say what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove what was installed.
    #[arg(long)]
    pub(crate) uninstall: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate install`.
///
/// `cli` is the command line that man pages and completions are made of.
pub(crate) fn run(args: &Install, cli: &mut clap::Command) -> Result<()> {
    let layout = layout(args)?;
    let (done, notes) = if args.uninstall {
        (write::uninstall(&layout, args.dry_run)?, Vec::new())
    } else {
        let files = plan::files(&layout, args.policies.as_deref(), cli)?;
        match layout.root {
            Some(_) => (write::stage(&layout, files, args.dry_run)?, Vec::new()),
            None => (write::install(&layout, &files, args.dry_run)?, plan::notes(&layout)),
        }
    };
    if args.json {
        let files: Vec<_> =
            done.iter().map(|d| json!({"path": d.path, "action": d.action.name(), "what": d.what})).collect();
        return render::json(
            &json!({"prefix": layout.prefix, "dry_run": args.dry_run, "files": files, "notes": notes}),
        );
    }
    for Done { path, action, what } in &done {
        let word = match (action, args.dry_run) {
            (Action::Write, true) => "would write",
            (Action::Remove, true) => "would remove",
            (action, _) => action.name(),
        };
        let what = if what.is_empty() { String::new() } else { format!("  ({what})") };
        render::line(format!("{word} {}{what}", path.display()))?;
    }
    for note in notes {
        render::line(format!("note: {note}"))?;
    }
    Ok(())
}

/// The folders of an installation. A path stands in unit files, TOML and Python and must mean the same in all of them.
fn layout(args: &Install) -> Result<Layout> {
    let clean = |flag: &str, path: &Path| -> Result<PathBuf> {
        let text = path.to_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let odd = |c: char| c.is_whitespace() || c.is_control() || "\"'\\%$".contains(c);
        match text {
            Some(text) if !text.contains(odd) => std::path::absolute(path).context(text),
            _ => Err(usage(format!(
                "{flag} {:?}: expected a path without blanks, quotes, backslashes, % and $",
                path.display().to_string()
            ))),
        }
    };
    let prefix = clean("--prefix", &args.prefix)?;
    if prefix.exists() && !prefix.is_dir() {
        bail!("--prefix {}: not a folder", prefix.display());
    }
    let etc = match &args.sysconfdir {
        Some(dir) => clean("--sysconfdir", dir)?,
        // As everywhere: what is installed in /usr is configured in /etc.
        None if prefix == Path::new("/usr") => PathBuf::from("/etc"),
        None => prefix.join("etc"),
    };
    let root = args.root.as_deref().map(std::path::absolute).transpose().context("--root")?;
    if root.as_ref().is_some_and(|root| !root.is_dir()) {
        bail!("--root {}: not a folder", root.unwrap_or_default().display());
    }
    Ok(Layout { manifest: Manifest::path(&prefix), prefix, etc, root })
}
