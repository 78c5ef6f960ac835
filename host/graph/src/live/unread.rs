//! Unknown resources: those of jobs of which R could not be read (RFC 27 hello), and properties that services set before
//! this scheduler began.
//!
//! The ranks of such a job are known, since the job manager counts them; its resources above nodes (storage, licences,
//! chassis, flow) are not. Nothing is taken there until they are. While properties are not known, a request that other properties
//! would satisfy is satisfiable. Must never know who lists these jobs.

use std::sync::Arc;

use fluxgate_formats::JobId;

use crate::live::request::Request;
use crate::live::resources::Resources;

/// Said behind the properties that a request waits for, while those that services set before are not known.
const UNREAD: &str = "; what services set before could not be read, and is tried again";
/// Most jobs with an R that could not be read which a reason names.
const NAMED_MAX: usize = 3;

impl Request {
    /// True if it takes of vertices above nodes, or of flow.
    pub(crate) fn takes_above(&self) -> bool {
        self.above || self.flow
    }
}

impl Resources {
    /// The jobs that hold resources of which R could not be read, in the place of those of the call before. While there are
    /// any, no request that takes of vertices above nodes, or of flow, fits at any time. False if that changes nothing.
    pub fn set_unread(&mut self, jobs: &[JobId]) -> bool {
        if *self.machine.unread == *jobs {
            return false;
        }
        let known = jobs.is_empty();
        self.machine.unread = Arc::from(jobs);
        if known {
            self.help([], true);
        }
        self.changed(known, true);
        true
    }

    /// The jobs of the last [`set_unread`](Self::set_unread).
    pub fn unread(&self) -> &[JobId] {
        &self.machine.unread
    }

    /// Whether the properties that services set before are not known. While they are not, a request that nodes with other properties
    /// would satisfy is satisfiable. False if that changes nothing.
    pub fn set_properties_unread(&mut self, unread: bool) -> bool {
        let before = std::mem::replace(&mut self.machine.properties_unread, unread);
        if before != unread {
            self.forget_satisfiable();
        }
        before != unread
    }

    /// The value of the last [`set_properties_unread`](Self::set_properties_unread).
    pub fn properties_unread(&self) -> bool {
        self.machine.properties_unread
    }

    /// The properties that a request waits for, with a note while those that services set before are not known.
    pub(crate) fn with_unread(&self, unmet: String) -> String {
        if self.properties_unread() { unmet + UNREAD } else { unmet }
    }

    /// Why a request that takes above nodes waits, if it is because of these jobs.
    pub(crate) fn unread_jobs(&self) -> Option<String> {
        let jobs = self.unread();
        let named: Vec<String> = jobs.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        let more = if jobs.len() > NAMED_MAX { " and others" } else { "" };
        (!jobs.is_empty()).then(|| {
            format!(
                "what {}{more} may hold above nodes is not known, since R could not be read; it is tried again",
                named.join(", ")
            )
        })
    }
}
