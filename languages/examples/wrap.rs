//! `wrap MODULE COMPONENT`: makes a component of a core module. For `cargo xtask policies`, which must not be built
//! with the component encoder inside.

use std::path::PathBuf;
use std::process::ExitCode;

#[allow(clippy::print_stderr, reason = "a program for the command line")]
fn main() -> ExitCode {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [module, component] = files.as_slice() else {
        eprintln!("usage: wrap MODULE COMPONENT");
        return ExitCode::FAILURE;
    };
    let made = std::fs::read(module)
        .map_err(|error| error.to_string())
        .and_then(|bytes| fluxgate_languages::wrap(&bytes).map_err(|error| error.to_string()))
        .and_then(|bytes| std::fs::write(component, bytes).map_err(|error| error.to_string()));
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", module.display());
            ExitCode::FAILURE
        }
    }
}
