//! A policy's folder in any language: `fluxgate-policy.toml` has the commands that build and test it, and this module
//! runs them.
//!
//! This module knows neither a compiler nor how a component is run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use serde::Deserialize;

use crate::scaffold::Language;
use crate::wrap::{WrapError, is_core_module, wrap};

/// Name of the file that describes a folder.
pub const FILE: &str = "fluxgate-policy.toml";

/// A policy's folder.
#[derive(Debug, Clone)]
pub struct Project {
    folder: PathBuf,
    said: Said,
    language: Language,
}

/// The file. Further keys are ignored.
#[derive(Debug, Clone, Deserialize)]
struct Said {
    name: String,
    language: String,
    build: String,
    test: Option<String>,
}

/// A folder cannot be built or tested.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The file is missing or invalid.
    #[error("{}: {reason}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The error.
        reason: String,
    },
    /// A command could not be started.
    #[error("cannot run `{what}` of {}: {error}", folder.display())]
    Start {
        /// `build` or `test`.
        what: &'static str,
        /// The policy's folder.
        folder: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A command failed; its output has been shown.
    #[error("`{what}` of {} failed ({status}); its command is in {FILE}. Needed for {language}: {packages}", folder.display())]
    Failed {
        /// `build` or `test`.
        what: &'static str,
        /// The policy's folder.
        folder: PathBuf,
        /// Its exit status.
        status: ExitStatus,
        /// The language's name.
        language: &'static str,
        /// The packages of its tools.
        packages: &'static str,
    },
    /// `build` succeeded, but left no component.
    #[error("`build` of {} left no {}", folder.display(), output.display())]
    Nothing {
        /// The policy's folder.
        folder: PathBuf,
        /// The file expected.
        output: PathBuf,
    },
    /// The result of the build is no policy.
    #[error("{}: {error}", file.display())]
    Wrap {
        /// The file.
        file: PathBuf,
        /// The error.
        error: WrapError,
    },
    /// A file could not be written or read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

impl Project {
    /// Reads the file [`FILE`] of a folder.
    ///
    /// # Errors
    /// [`ProjectError::File`]: the file cannot be read, a key is missing or unknown, or its name or language is not accepted.
    pub fn read(folder: &Path) -> Result<Self, ProjectError> {
        let file = folder.join(FILE);
        let wrong = |reason: String| ProjectError::File { file: file.clone(), reason };
        let text = fs::read_to_string(&file).map_err(|error| {
            let hint = "this is not a policy's folder; `fluxgate policy new` makes one";
            wrong(if error.kind() == io::ErrorKind::NotFound { hint.to_owned() } else { error.to_string() })
        })?;
        let said: Said = toml::from_str(&text).map_err(|error| wrong(error.to_string().trim().to_owned()))?;
        crate::scaffold::check_name(&said.name).map_err(&wrong)?;
        let language = Language::named(&said.language).map_err(&wrong)?;
        let folder = folder.canonicalize().map_err(|error| wrong(error.to_string()))?;
        Ok(Project { folder, said, language })
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.said.name
    }

    /// Its language.
    pub fn language(&self) -> Language {
        self.language
    }

    /// The default folder of results: `build` in the folder.
    pub fn default_out(&self) -> PathBuf {
        self.folder.join("build")
    }

    /// Runs the command `build` with `out` as the variable OUT, makes a component of a core module, and returns its path,
    /// `out/NAME.wasm`. `out` is created if it is missing.
    ///
    /// # Errors
    /// [`ProjectError`] names the failure, and for a command the packages of its tools.
    pub fn build(&self, out: &Path) -> Result<PathBuf, ProjectError> {
        let out = room(out)?;
        let output = out.join(format!("{}.wasm", self.said.name));
        // Removed first, so that a file found afterwards is new.
        let _ = fs::remove_file(&output);
        self.run("build", &self.said.build, &out)?;
        let bytes = match fs::read(&output) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ProjectError::Nothing { folder: self.folder.clone(), output });
            }
            Err(error) => return Err(ProjectError::Io { path: output, error }),
        };
        if is_core_module(&bytes) {
            let component =
                wrap(&bytes).map_err(|error| ProjectError::Wrap { file: output.clone(), error })?;
            fs::write(&output, component)
                .map_err(|error| ProjectError::Io { path: output.clone(), error })?;
        }
        Ok(output)
    }

    /// Runs the command `test` with `out` as the variable OUT. False if the folder has none.
    ///
    /// # Errors
    /// [`ProjectError`] when they fail or cannot be run.
    pub fn test(&self, out: &Path) -> Result<bool, ProjectError> {
        let Some(command) = &self.said.test else { return Ok(false) };
        self.run("test", command, &room(out)?)?;
        Ok(true)
    }

    fn run(&self, what: &'static str, command: &str, out: &Path) -> Result<(), ProjectError> {
        let folder = &self.folder;
        let status = Command::new("sh").args(["-ec", command]).current_dir(folder).env("OUT", out).status();
        let status = status.map_err(|error| ProjectError::Start { what, folder: folder.clone(), error })?;
        if status.success() {
            return Ok(());
        }
        let (language, packages) = (self.language.name(), self.language.packages());
        Err(ProjectError::Failed { what, folder: folder.clone(), status, language, packages })
    }
}

/// An existing folder, by its absolute path.
fn room(out: &Path) -> Result<PathBuf, ProjectError> {
    let failed = |error| ProjectError::Io { path: out.to_owned(), error };
    fs::create_dir_all(out).map_err(failed)?;
    out.canonicalize().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(text: &str) -> (tempfile::TempDir, Result<Project, ProjectError>) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), text).unwrap();
        let project = Project::read(folder.path());
        (folder, project)
    }

    #[test]
    fn what_the_file_lacks_is_named() {
        for (text, complaint) in [
            ("name = \"x\"\nlanguage = \"c\"\n", "missing field `build`"),
            (
                "name = \"x\"\nlanguage = \"cobol\"\nbuild = \"\"\n",
                "accepted are rust, c, cpp, go, js, ts and python",
            ),
            ("name = \"../x\"\nlanguage = \"c\"\nbuild = \"\"\n", "is no name for a policy"),
            ("name", "fluxgate-policy.toml"),
        ] {
            let error = project(text).1.unwrap_err().to_string();
            assert!(error.contains(complaint), "{error}");
        }
        let nowhere = tempfile::tempdir().unwrap();
        let error = Project::read(nowhere.path()).unwrap_err().to_string();
        assert!(error.contains("not a policy's folder"), "{error}");
    }

    #[test]
    fn what_the_command_leaves_becomes_a_component() {
        // The smallest policy, as a core module.
        let module = wat::parse_str(
            r#"(module
                (memory (export "memory") 1)
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
                (func (export "fluxgate:policy/policy@0.1.0#describe") (result i32) (i32.const 64))
                (func (export "fluxgate:policy/policy@0.1.0#configure") (param i32 i32) (result i32)
                  (i32.const 64)))"#,
        )
        .unwrap();
        let (folder, project) = project(
            "name = \"x\"\nlanguage = \"c\"\nbuild = \"cp x.core $OUT/x.wasm\"\ntest = \"echo ran > $OUT/t\"\n",
        );
        let (project, out) = (project.unwrap(), folder.path().join("some/where"));
        fs::write(folder.path().join("x.core"), module).unwrap();
        let output = project.build(&out).unwrap();
        assert!(output.ends_with("some/where/x.wasm") && !is_core_module(&fs::read(&output).unwrap()));
        assert!(project.test(&out).unwrap());
        assert_eq!(fs::read_to_string(out.join("t")).unwrap(), "ran\n");

        fs::write(folder.path().join("x.core"), b"\0asm\x01\0\0\0").unwrap();
        let error = project.build(&out).unwrap_err().to_string();
        assert!(error.contains("policy@0.1.0#describe"), "{error}");
        fs::remove_file(folder.path().join("x.core")).unwrap();
        let error = project.build(&out).unwrap_err().to_string();
        assert!(error.contains("Needed for c: Debian's clang"), "{error}");
    }

    #[test]
    fn nothing_and_no_test_are_told() {
        let (folder, project) = project("name = \"x\"\nlanguage = \"js\"\nbuild = \"true\"\n");
        let project = project.unwrap();
        let out = project.default_out();
        assert_eq!(out, folder.path().canonicalize().unwrap().join("build"));
        let error = project.build(&out).unwrap_err().to_string();
        assert!(error.contains("left no") && error.contains("x.wasm"), "{error}");
        assert!(!project.test(&out).unwrap());
    }
}
