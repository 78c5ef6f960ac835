//! EASY as a native policy, written against the engine's face alone.

use fluxgate_engine::{
    Abilities, JobColumns, JobEvent, Pass, Policy, PolicyCost, PolicyError, Refusal, SavedState,
};

pub(crate) struct Easy;

fn pass_of_easy(pass: &mut Pass) -> Result<(), PolicyError> {
    loop {
        let Some(candidate) = pass.next() else { return Ok(()) };
        match pass.start(candidate, None)? {
            Ok(()) => {}
            Err(Refusal::Limit) => return Ok(()),
            Err(_) => {
                // No promise possible: the job needs nodes that are down. Others may pass it.
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

impl Policy for Easy {
    fn name(&self) -> &str {
        "easy-native"
    }

    fn abilities(&self) -> Abilities {
        Abilities { scheduling: true, ..Abilities::default() }
    }

    fn keys(&mut self, _now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        Ok(vec![0.0; jobs.len()])
    }

    fn observe(&mut self, _now: f64, _events: &[JobEvent]) -> Result<(), PolicyError> {
        Ok(())
    }

    fn run(&mut self, mut pass: Pass) -> (Pass, Result<(), PolicyError>) {
        let result = pass_of_easy(&mut pass);
        (pass, result)
    }

    fn save(&mut self) -> Result<SavedState, PolicyError> {
        Err(PolicyError::Refused { during: "state.save", message: "there is none".to_owned() })
    }

    fn restore(&mut self, _state: &SavedState) -> Result<(), PolicyError> {
        Ok(())
    }

    fn cost(&self) -> PolicyCost {
        PolicyCost::default()
    }
}
