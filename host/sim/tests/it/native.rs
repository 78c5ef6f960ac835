//! Native policies, written against the engine's public API alone: any pass, and that of EASY.

use std::sync::Arc;

use fluxgate_engine::{Abilities, Anew, Pass, Policy, PolicyError, Refusal};

/// A policy of this name with a function as its pass.
pub(crate) struct Does(pub(crate) &'static str, pub(crate) fn(&mut Pass) -> Result<(), PolicyError>);

impl Policy for Does {
    fn name(&self) -> &str {
        self.0
    }

    fn abilities(&self) -> Abilities {
        Abilities { scheduling: true, ..Abilities::default() }
    }

    fn anew(&self) -> Option<Anew> {
        let Does(name, run) = *self;
        Some(Arc::new(move || Ok(Box::new(Does(name, run)))))
    }

    fn run(&mut self, mut pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        let result = (self.1)(&mut pass);
        (pass, result)
    }
}

fn pass_of_easy(pass: &mut Pass) -> Result<(), PolicyError> {
    loop {
        let Some(candidate) = pass.next() else { return Ok(()) };
        match pass.start(candidate, None)? {
            Ok(()) => {}
            Err(Refusal::Limit) => return Ok(()),
            Err(_) => {
                // No reservation possible: the job needs nodes that are down. Others may pass it.
                let _ = pass.reserve(candidate)?;
                break;
            }
        }
    }
    while let Some(candidate) = pass.next_fitting() {
        if pass.start(candidate, None)? == Err(Refusal::Limit) {
            break;
        }
    }
    Ok(())
}

/// EASY.
pub(crate) fn easy() -> Does {
    Does("easy-native", pass_of_easy)
}
