//! `fluxgate config migrate`: the settings of the graph scheduler as ours, with a line for each of them.
//!
//! Reads and writes files; must never know what a key becomes.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use fluxgate_sched::fluxion::{self, Level, Migration};
use fluxgate_sched::settings::{CONFIG_BYTES_MAX, Settings, TABLE, parse_config};
use serde_json::{Map, Value, json};

use crate::fail::usage;
use crate::files::read_config;
use crate::render;

/// Most files of a folder of configuration.
const FILES_MAX: usize = 1024;
/// The path that is standard input.
const STDIN: &str = "-";

/// `fluxgate config migrate`.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// The configuration of Flux: a TOML file, a folder whose *.toml files are merged as Flux merges them, a .json file, or
    /// - for standard input ('flux config get | flux gate config migrate -'). Without it only --args are translated.
    #[arg(value_name = "PATH", required_unless_present = "args")]
    path: Option<PathBuf>,
    /// Arguments of the modules of the graph scheduler, as start-up files have them; they override its tables. May be given
    /// several times. A value with blanks is quoted inside: --args "match-policy='policy=low node_exclusive=true'".
    #[arg(long, value_name = "KEY=VALUE ...")]
    args: Vec<String>,
    /// A warning is a failure too: exit code 1, and no table is made.
    #[arg(long)]
    strict: bool,
    /// Write the table into this file, readable by all, and not to standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON: lines, counts, and the table as text.
    #[arg(long)]
    json: bool,
}

/// Carry it out. Every error but that of --strict has exit code 2.
pub(super) fn run(args: &Migrate) -> Result<()> {
    let done = translate(args).map_err(|error| usage(format!("{error:#}")))?;
    let (errors, warnings) = (done.count(Level::Error), done.count(Level::Warn));
    let strict = args.strict && warnings > 0;
    let toml = done.toml().filter(|_| !strict);
    if let (Some(path), Some(toml)) = (&args.output, &toml) {
        write(path, toml).map_err(|error| usage(format!("{}: {error:#}", path.display())))?;
    }
    print(args, &done, toml.as_deref())?;
    let from = name(args);
    if errors > 0 {
        return Err(usage(format!(
            "{from}: {errors} of the settings cannot be translated; nothing was made"
        )));
    }
    ensure!(!strict, "{from}: {warnings} warnings, and --strict; nothing was made");
    Ok(())
}

fn name(args: &Migrate) -> String {
    match &args.path {
        None => "--args".to_owned(),
        Some(path) if path == Path::new(STDIN) => "standard input".to_owned(),
        Some(path) => path.display().to_string(),
    }
}

/// Reads and translates; the result is known to load.
fn translate(args: &Migrate) -> Result<Migration> {
    let config = args.path.as_deref().map_or(Ok(Value::Null), read)?;
    let done = fluxion::migrate(&config, &args.args);
    if let Some(toml) = done.toml() {
        loads(&toml, &config).context("the table that was made does not load")?;
    }
    Ok(done)
}

fn loads(toml: &str, config: &Value) -> Result<()> {
    let mut made = parse_config(toml)?;
    if let (Some(made), Some(queues)) = (made.as_object_mut(), config.get("queues")) {
        made.insert("queues".to_owned(), queues.clone());
    }
    Settings::from_config(&made)?;
    Ok(())
}

fn print(args: &Migrate, done: &Migration, toml: Option<&str>) -> Result<()> {
    if args.json {
        let count = |level| done.count(level);
        return render::json(&json!({
            "lines": done.lines,
            "errors": count(Level::Error),
            "warnings": count(Level::Warn),
            "toml": toml,
        }));
    }
    for line in &done.lines {
        render::line(line)?;
    }
    match (toml, &args.output) {
        (None, _) => Ok(()),
        (Some(_), Some(path)) => render::line(format!("[{TABLE}] written to {}", path.display())),
        (Some(toml), None) => render::line(format!("\n{}", toml.trim_end())),
    }
}

/// The configuration at a path, as Flux would have it.
fn read(path: &Path) -> Result<Value> {
    if path == Path::new(STDIN) {
        return stdin().context("standard input");
    }
    if path.is_dir() {
        return folder(path);
    }
    if path.extension().is_some_and(|end| end == "json") {
        let text = crate::files::config_text(path)?;
        return object(&text).with_context(|| path.display().to_string());
    }
    read_config(path)
}

/// JSON, or TOML, which cannot begin as a JSON object does.
fn stdin() -> Result<Value> {
    let mut text = String::new();
    std::io::stdin().take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.trim_start().starts_with('{') { object(&text) } else { parse_config(&text) }
}

fn object(text: &str) -> Result<Value> {
    ensure!(text.len() as u64 <= CONFIG_BYTES_MAX, "more than {CONFIG_BYTES_MAX} bytes");
    match serde_json::from_str(text)? {
        object @ Value::Object(_) => Ok(object),
        _ => bail!("expected an object of tables, as 'flux config get' prints it"),
    }
}

/// All *.toml files of a folder in the order of their names; a later one adds to tables and replaces other values.
fn folder(path: &Path) -> Result<Value> {
    let name = || path.display().to_string();
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(name)? {
        let file = entry.with_context(name)?.path();
        let hidden = file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && file.extension().is_some_and(|end| end == "toml") {
            files.push(file);
        }
        ensure!(files.len() <= FILES_MAX, "{}: more than {FILES_MAX} files", name());
    }
    ensure!(!files.is_empty(), "{}: there are no *.toml files", name());
    files.sort();
    let mut whole = Map::new();
    for file in &files {
        if let Value::Object(tables) = read_config(file)? {
            merge(&mut whole, tables);
        }
    }
    Ok(Value::Object(whole))
}

fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(there)), Value::Object(more)) => merge(there, more),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// The whole text or nothing.
fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mode = Permissions::from_mode(0o644);
    let mut draft = tempfile::Builder::new().permissions(mode).tempfile_in(folder)?;
    draft.write_all(text.as_bytes())?;
    draft.as_file().sync_all()?;
    draft.persist(path).map_err(|error| anyhow!(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_folder_are_merged_as_flux_merges_them() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        put("b.toml", "[t]\nb = 2\nc = 2\n[t.deep]\ny = 1\n[u]\nx = [2]\n");
        put("a.toml", "[t]\na = 1\nb = 1\n[t.deep]\nx = 1\n[u]\nx = [1, 1]\n");
        put("c.txt", "no configuration");
        put(".d.toml", "[t]\na = 9\n");
        let whole = read(dir.path()).unwrap();
        let deep = json!({"x": 1, "y": 1});
        assert_eq!(whole, json!({"t": {"a": 1, "b": 2, "c": 2, "deep": deep}, "u": {"x": [2]}}));
        put("e.toml", "[t\n");
        let why = format!("{:#}", read(dir.path()).unwrap_err());
        assert!(why.contains("e.toml") && why.contains("line 1"), "{why}");
        let none = tempfile::tempdir().unwrap();
        assert!(read(none.path()).unwrap_err().to_string().contains("no *.toml"));
    }

    #[test]
    fn json_is_told_by_its_name_and_must_be_an_object() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flux.json");
        fs::write(&path, r#"{"queues": {}}"#).unwrap();
        assert_eq!(read(&path).unwrap(), json!({"queues": {}}));
        fs::write(&path, "[1]").unwrap();
        let why = format!("{:#}", read(&path).unwrap_err());
        assert!(why.contains("flux.json") && why.contains("expected an object"), "{why}");
    }

    #[test]
    fn a_file_is_written_whole_and_can_be_read_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.toml");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o600, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left");
    }
}
