//! Work that takes too long for the service's own turn: it is handed out, done elsewhere, and comes back.
//!
//! A work item is a closure with everything that it needs; its result is a closure with the next step of the service. So the
//! beginning of the work, the work and its consequence stand beside one another in the code. Must never know which kinds of work there are.

use std::fmt;

use crate::host::Host;
use crate::service::Service;

type Run = Box<dyn FnOnce(&dyn Host) -> Then + Send>;
type Then = Box<dyn FnOnce(&mut Service) + Send>;

/// Work to be done, on any thread, at any time, or never.
pub struct Work {
    name: &'static str,
    run: Run,
}

/// Work that was done. It does nothing until it is handed to [`Service::finished`].
pub struct Finished {
    name: &'static str,
    then: Then,
}

impl Work {
    /// Work of this name; `then` is the step of the service that takes the result of `run`.
    pub(crate) fn new<T: Send + 'static>(
        name: &'static str,
        run: impl FnOnce(&dyn Host) -> T + Send + 'static,
        then: impl FnOnce(&mut Service, T) + Send + 'static,
    ) -> Work {
        let run: Run = Box::new(move |host| {
            let result = run(host);
            Box::new(move |service| then(service, result))
        });
        Work { name, run }
    }

    /// The kind of the work, in a word: `compile`, `reload`, `shadow`, `forecast`, `question`, `groups`, `policy-states`, `audit-trail`
    /// or `drop`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Does the work. It may take long; the result is for the service that handed it out.
    pub fn run(self, host: &dyn Host) -> Finished {
        Finished { name: self.name, then: (self.run)(host) }
    }
}

impl Finished {
    /// As [`Work::name`].
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Hands the result to the service.
    pub(crate) fn then(self, service: &mut Service) {
        (self.then)(service);
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Work({})", self.name)
    }
}

impl fmt::Debug for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Finished({})", self.name)
    }
}
