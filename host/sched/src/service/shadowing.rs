//! Shadows go on their rounds and come back.
//!
//! Must never let anything of them reach the engine.

use super::Service;
use crate::shadows::Round;

impl Service {
    /// Shadows that have notes leave with them.
    pub(super) fn start_shadows(&mut self) {
        let (rounds, done) = self.shadows.leaving();
        for round in rounds {
            self.start_work("shadow", |host| round.run(&|| host.elapsed()), Service::shadow_returned);
        }
        if !done.is_empty() {
            self.start_work("drop", move |_| drop(done), |_, ()| {});
        }
    }

    fn shadow_returned(&mut self, mut round: Round) {
        for (request, answer) in std::mem::take(&mut round.answers) {
            self.send(match answer {
                Ok(found) => request.ok(&found),
                Err((errnum, why)) => request.error(errnum, &why),
            });
        }
        self.shadows.returned(round);
    }
}
