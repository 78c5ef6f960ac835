//! Files of the scheduler: its configuration, and its own state.
//!
//! Must never know what is in them.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use fluxgate_sched::settings::{CONFIG_BYTES_MAX, parse_config};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::fail::usage;

/// The text of a configuration file.
///
/// # Errors
/// A fault in reading the file, with its name.
pub(crate) fn config_text(path: &Path) -> Result<String> {
    let name = || path.display().to_string();
    let file = File::open(path).with_context(name)?;
    let mut text = String::new();
    file.take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text).with_context(name)?;
    Ok(text)
}

/// A Flux configuration file (TOML) as the object that a broker would make of it.
///
/// # Errors
/// A fault of the file, with its name, and the line if it is no TOML.
pub(crate) fn read_config(path: &Path) -> Result<Value> {
    parse_config(&config_text(path)?).with_context(|| path.display().to_string())
}

/// The settings of `--config` flags: `KEY=VALUE`, or a TOML file with more of them. Later ones win.
///
/// # Errors
/// A flag that is neither, or a fault of a file, with its name.
pub(crate) fn settings(flags: &[String]) -> Result<Vec<(String, String)>> {
    let mut all: Vec<(String, String)> = Vec::new();
    for flag in flags {
        let more = match flag.contains('=') {
            true => crate::values::settings(std::slice::from_ref(flag))?,
            false if !Path::new(flag).exists() => {
                return Err(usage(format!(
                    "--config {flag}: expected KEY=VALUE or a TOML file; there is no such file"
                )));
            }
            false => table(flag, read_config(Path::new(flag)).context("--config")?)?,
        };
        for (key, value) in more {
            all.retain(|(known, _)| *known != key);
            all.push((key, value));
        }
    }
    Ok(all)
}

/// The pairs of a table without tables in it.
fn table(file: &str, config: Value) -> Result<Vec<(String, String)>> {
    let Value::Object(pairs) = config else { bail!("--config {file}: expected a table, found {config}") };
    let pair = |(key, value): (String, Value)| match value {
        Value::String(text) => Ok((key, text)),
        Value::Number(_) | Value::Bool(_) => Ok((key, value.to_string())),
        other => bail!("--config {file}: {key}: expected text, a number or a truth value, found {other}"),
    };
    pairs.into_iter().map(pair).collect()
}

/// The SHA-256 of a file in hexadecimal digits.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn sha256(path: &Path) -> io::Result<String> {
    let (mut hasher, mut file) = (Sha256::new(), File::open(path)?);
    let mut part = vec![0; 1 << 16];
    loop {
        match file.read(&mut part)? {
            0 => break,
            read => hasher.update(&part[..read]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// At most `bytes_max` bytes of a file that belongs to this user and that no other user may write; `None` when there is none.
///
/// # Errors
/// It is not such a file, or cannot be read.
pub(crate) fn read_private(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let meta = file.metadata()?;
    ensure!(meta.is_file(), "it is no file");
    let owner = nix::unistd::geteuid().as_raw();
    if meta.uid() != owner {
        bail!("it belongs to user {}, and not to {owner}", meta.uid());
    }
    ensure!(meta.mode() & 0o022 == 0, "others than its owner may write it");
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Write a file that only its owner can read, whole or not at all, and make its folder if need be. It is on the disk when
/// this returns.
///
/// # Errors
/// An error of the file system.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut draft = tempfile::NamedTempFile::new_in(folder)?;
    draft.write_all(bytes)?;
    draft.as_file().sync_all()?;
    draft.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_private_file_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made/on/the/way/file");
        assert_eq!(read_private(&path, 100).unwrap(), None);
        write_private(&path, b"one").unwrap();
        write_private(&path, b"other").unwrap();
        assert_eq!(read_private(&path, 100).unwrap().unwrap(), b"other");
        assert_eq!(read_private(&path, 2).unwrap().unwrap(), b"ot");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let refused = |path: &Path| read_private(path, 100).unwrap_err().to_string();
        assert!(refused(&path).contains("others than its owner"));
        assert!(refused(dir.path()).contains("no file"));
    }

    #[test]
    fn settings_are_pairs_or_files_and_the_last_one_wins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.toml");
        fs::write(&path, "depth = 4\nage = true\nby = \"size\"\n").unwrap();
        let file = path.to_str().unwrap().to_owned();
        let of = |flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let all = settings(&flags).map_err(|error| format!("{error:#}"))?;
            Ok::<_, String>(all.into_iter().collect::<std::collections::BTreeMap<_, _>>())
        };
        let map = of(&["depth=1", &file, "by=x=y"]).unwrap();
        assert_eq!((&*map["depth"], &*map["age"], &*map["by"]), ("4", "true", "x=y"));
        fs::write(&path, "depth = [4]\n").unwrap();
        assert!(of(&[&file]).unwrap_err().contains("depth"));
        assert!(of(&["=1"]).unwrap_err().contains("KEY=VALUE"));
        assert!(of(&["nosuch.toml"]).unwrap_err().contains("nosuch.toml"));
    }

    #[test]
    fn a_configuration_file_is_checked_and_its_faults_name_it() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let good = write("a.toml", "[sched-fluxgate]\npolicy = \"fcfs\"\n");
        assert_eq!(read_config(&good).unwrap()["sched-fluxgate"]["policy"], "fcfs");
        let said = |path: &Path| format!("{:#}", read_config(path).unwrap_err());
        let bad = said(&write("b.toml", "[sched-fluxgate]\npolicy = \n"));
        assert!(bad.contains("b.toml") && bad.contains("line 2"), "{bad}");
        assert!(said(&dir.path().join("none.toml")).contains("none.toml"));
        let large = write("c.toml", &"#".repeat((CONFIG_BYTES_MAX + 1) as usize));
        assert!(said(&large).contains("more than"));
    }
}
