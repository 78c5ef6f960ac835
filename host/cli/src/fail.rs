//! Exit codes of the binary: 0 success, 1 failure, 2 usage; after `job --wait` as the job did.

/// An error in the arguments, for exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// A usage error.
pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// A job that was waited for and did not succeed, for its own exit code.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct JobFailed {
    /// The job's exit code, 128 and the number of the signal that ended it, or 1 if it never ran.
    pub(crate) code: u8,
    /// The end of the job in words.
    pub(crate) text: String,
}

/// An error with its causes. A cause is left out if the text before it ends with that cause.
pub(crate) fn text(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.ends_with(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

/// The exit code of an error.
pub(crate) fn code(error: &anyhow::Error) -> u8 {
    if let Some(job) = error.downcast_ref::<JobFailed>() {
        return job.code;
    }
    if error.downcast_ref::<Usage>().is_some() { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("x.swf: {0}")]
        struct Told(#[source] std::io::Error);
        let cause = || std::io::Error::other("no such file");
        assert_eq!(text(&Told(cause()).into()), "x.swf: no such file");
        let error = Err::<(), _>(Told(cause())).context("replay").unwrap_err();
        assert_eq!(text(&error), "replay: x.swf: no such file");
        let error = Err::<(), _>(cause()).context("x.swf").context("replay").unwrap_err();
        assert_eq!(text(&error), "replay: x.swf: no such file");
        assert_eq!((code(&error), code(&usage("x"))), (1, 2));
    }
}
