//! The files to install with their contents. Nothing is written here.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap_complete::Shell;
use fluxgate_sched::settings::{KEYS, Settings, TABLE};

use crate::policy_source::PolicySource;

/// The folders.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) prefix: PathBuf,
    pub(crate) etc: PathBuf,
    pub(crate) manifest: PathBuf,
    /// Files are put below this folder as if it were the root of the file system.
    pub(crate) root: Option<PathBuf>,
}

impl Layout {
    /// The place of a file of this path.
    pub(crate) fn place(&self, path: &Path) -> PathBuf {
        match &self.root {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        }
    }

    fn binary(&self) -> PathBuf {
        self.prefix.join("bin/fluxgate")
    }

    /// True if a Flux is installed in this prefix.
    fn has_flux(&self) -> bool {
        self.place(&self.prefix.join("libexec/flux/cmd")).is_dir()
    }

    /// Beside Flux's own modules the bare name `sched-fluxgate` finds it; elsewhere its path does.
    fn shim(&self) -> PathBuf {
        let modules = self.prefix.join("lib/flux/modules");
        let dir = if self.place(&modules).is_dir() { modules } else { self.prefix.join("lib/fluxgate") };
        dir.join("sched-fluxgate.py")
    }

    fn example(&self) -> PathBuf {
        self.prefix.join("share/doc/fluxgate/sched-fluxgate.toml")
    }

    fn filled(&self, template: &str) -> Vec<u8> {
        let text = |path: PathBuf| path.display().to_string();
        template
            .replace("@BINARY@", &text(self.binary()))
            .replace("@SHIM@", &text(self.shim()))
            .replace("@EXAMPLE@", &text(self.example()))
            .into_bytes()
    }
}

/// The content of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// These bytes, with this mode.
    Bytes(Vec<u8>, u32),
    /// A symbolic link to this.
    Link(PathBuf),
}

/// One thing to install.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
    /// A few words on the file.
    pub(crate) what: &'static str,
    /// Administrators change it: their version stays.
    pub(crate) theirs: bool,
}

/// All files of an installation.
///
/// # Errors
/// If this program or the policies cannot be read.
pub(crate) fn files(layout: &Layout, policies: Option<&Path>, cli: &mut clap::Command) -> Result<Vec<File>> {
    let mut files = Vec::new();
    let mut add = |path: PathBuf, content: Content, what: &'static str, theirs: bool| {
        files.push(File { path, content, what, theirs });
    };
    let text = |bytes: Vec<u8>| Content::Bytes(bytes, 0o644);
    let (prefix, share) = (&layout.prefix, layout.prefix.join("share"));

    let program = std::env::current_exe().context("cannot find this program")?;
    let bytes = std::fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
    add(layout.binary(), Content::Bytes(bytes, 0o755), "the program", false);
    if layout.has_flux() {
        let link = Content::Link("../../../bin/fluxgate".into());
        add(prefix.join("libexec/flux/cmd/flux-gate"), link, "'flux gate'", false);
        let help = text(include_bytes!("../../../share/help.json").to_vec());
        add(share.join("flux/help.d/fluxgate.json"), help, "'flux help'", false);
    } else {
        add(prefix.join("bin/flux-gate"), Content::Link("fluxgate".into()), "'flux gate'", false);
    }

    let source = PolicySource::open(policies)?;
    let found = source.files();
    if found.is_empty() {
        bail!("there are no policies to install; name their folder with --policies");
    }
    // One of them misbehaves on demand, for tests.
    for (name, path) in found.into_iter().filter(|(name, _)| name != "broken") {
        let bytes = source.read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        add(prefix.join(format!("lib/fluxgate/policies/{name}.wasm")), text(bytes), "a policy", false);
    }

    for (name, page) in man_pages(cli)? {
        add(share.join("man/man1").join(name), text(page), "a man page", false);
    }
    for (shell, place) in [
        (Shell::Bash, "bash-completion/completions/fluxgate"),
        (Shell::Zsh, "zsh/site-functions/_fluxgate"),
        (Shell::Fish, "fish/vendor_completions.d/fluxgate.fish"),
    ] {
        let mut script = Vec::new();
        clap_complete::generate(shell, cli, "fluxgate", &mut script);
        add(share.join(place), text(script), "completions", false);
    }

    let alerts = text(include_bytes!("../../../share/alerts.yml").to_vec());
    add(share.join("fluxgate/alerts.yml"), alerts, "alert rules for Prometheus", false);
    let grafana = text(include_bytes!("../../../share/grafana.json").to_vec());
    add(share.join("fluxgate/grafana.json"), grafana, "a dashboard for Grafana", false);
    add(layout.example(), text(example().into_bytes()), "an example of all settings", false);
    add(
        prefix.join("lib/systemd/system/fluxgate-sched.service"),
        text(layout.filled(include_str!("../../../share/fluxgate-sched.service"))),
        "a unit for the external scheduler",
        true,
    );
    let shim = layout.filled(include_str!("../../../share/sched-fluxgate.py"));
    add(layout.shim(), text(shim), "the broker module", false);
    for (name, module) in [
        ("sched-fluxion-resource.py", include_str!("../../../share/sched-fluxion-resource.py")),
        ("sched-fluxion-feasibility.py", include_str!("../../../share/sched-fluxion-feasibility.py")),
        ("sched-fluxion-qmanager.py", include_str!("../../../share/sched-fluxion-qmanager.py")),
    ] {
        let path = prefix.join("lib/fluxgate/graph-scheduler").join(name);
        add(path, text(layout.filled(module)), "a module under a name of the graph scheduler", false);
    }
    let modprobe = layout.etc.join("flux/modprobe");
    let drop_in = layout.filled(include_str!("../../../share/modprobe.toml"));
    add(modprobe.join("modprobe.d/fluxgate.toml"), text(drop_in), "loads it in flux-modprobe", true);
    let fall_back = layout.filled(include_str!("../../../share/rc1.py"));
    add(modprobe.join("rc1.d/fluxgate.py"), text(fall_back), "falls back when the program is gone", true);
    Ok(files)
}

/// Notes for the administrator.
pub(crate) fn notes(layout: &Layout) -> Vec<String> {
    if layout.has_flux() {
        return vec![
            "the next start of this Flux loads sched-fluxgate; see fluxgate(1) for running ones".into(),
        ];
    }
    vec![
        format!("'flux gate' is found when {} is in PATH", layout.prefix.join("bin").display()),
        format!(
            "no Flux lives in this prefix; its instances load the module with FLUX_MODPROBE_PATH_APPEND={}",
            layout.etc.join("flux/modprobe").display()
        ),
    ]
}

/// Every page by its file name; `flux help gate` is the first one.
fn man_pages(cli: &clap::Command) -> Result<Vec<(String, Vec<u8>)>> {
    let dir = tempfile::tempdir().context("cannot make a temporary folder")?;
    clap_mangen::generate_to(cli.clone(), dir.path()).context("cannot write the man pages")?;
    let mut pages = vec![("flux-gate.1".to_owned(), b".so man1/fluxgate.1\n".to_vec())];
    for entry in std::fs::read_dir(dir.path()).context("cannot read the man pages")? {
        let path = entry.context("cannot read the man pages")?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        pages.push((name, std::fs::read(&path).with_context(|| path.display().to_string())?));
    }
    pages.sort();
    Ok(pages)
}

/// All settings with their defaults, each commented out, so that the file changes nothing.
fn example() -> String {
    let settings = Settings::default();
    let mut text = format!(
        "# Settings of the Fluxgate scheduler, each with its default: a table of the configuration of a Flux\n\
         # instance. 'fluxgate config check --file FILE' checks it, 'flux config reload' brings it into force.\n\
         \n[{TABLE}]\n"
    );
    for key in KEYS {
        let value = match settings.value(key.name) {
            // A path without a default.
            serde_json::Value::Null => format!("\"/opt/fluxgate/{}\"", key.name),
            serde_json::Value::Object(_) => "{ }".to_owned(),
            value => value.to_string(),
        };
        text += &format!("\n# {}: {}.\n# {} = {value}\n", key.meaning, key.accepts, key.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxgate_sched::settings::Source;

    #[test]
    fn the_example_changes_nothing_and_every_line_of_it_is_accepted() {
        let text = example();
        let table: toml::Table = toml::from_str(&text).expect("TOML");
        let config = serde_json::to_value(table).unwrap();
        assert_eq!(Settings::from_config(&config).unwrap(), Settings::default());
        // With the settings let in. A path without a default is left out.
        let named = |name: &str| !Settings::default().value(name).is_null();
        let open: String = text
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if KEYS.iter().any(|key| rest.starts_with(&format!("{} = ", key.name))) => {
                    format!("{rest}\n")
                }
                _ => format!("{line}\n"),
            })
            .filter(|line| {
                named(line.split(" = ").next().unwrap_or_default()) || line.starts_with(['#', '\n', '['])
            })
            .collect();
        let table: toml::Table = toml::from_str(&open).expect("TOML");
        let settings = Settings::from_config(&serde_json::to_value(table).unwrap()).unwrap();
        for key in KEYS.iter().filter(|key| named(key.name)) {
            assert_eq!(settings.source(key.name), Source::Table, "{}", key.name);
            assert_eq!(settings.value(key.name), Settings::default().value(key.name), "{}", key.name);
        }
    }

    #[test]
    fn templates_are_filled() {
        let layout =
            Layout { prefix: "/p".into(), etc: "/p/etc".into(), manifest: "/p/m".into(), root: None };
        for template in [
            include_str!("../../../share/sched-fluxgate.py"),
            include_str!("../../../share/rc1.py"),
            include_str!("../../../share/modprobe.toml"),
            include_str!("../../../share/fluxgate-sched.service"),
        ] {
            let text = String::from_utf8(layout.filled(template)).unwrap();
            assert!(text.contains("/p/") && !text.contains("@B") && !text.contains("@S"), "{text}");
        }
        let drop_in: toml::Table = toml::from_str(
            &String::from_utf8(layout.filled(include_str!("../../../share/modprobe.toml"))).unwrap(),
        )
        .unwrap();
        let module = &drop_in["modules"][0];
        assert_eq!(module["module"].as_str(), Some("/p/lib/fluxgate/sched-fluxgate.py"));
        // sched-simple has 50 and Fluxion 500.
        assert!(module["priority"].as_integer() > Some(500));
    }
}
