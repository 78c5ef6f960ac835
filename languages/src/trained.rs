//! The training data of a policy: logs by hash, and the jobs of each.
//!
//! Must never know files or networks.

use std::fmt;

/// Jobs of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trained {
    /// SHA-256 of the log as it was published, 64 hexadecimal digits in lower case.
    pub log: String,
    /// Smallest and largest number of the jobs that were seen, as the log numbers them; `None` for all its jobs.
    pub jobs: Option<(u64, u64)>,
}

impl Trained {
    /// Reads `HASH` or `HASH:FIRST-LAST`. Hexadecimal digits may be in upper case.
    ///
    /// # Errors
    /// The text found and what is accepted.
    pub fn parse(text: &str) -> Result<Trained, String> {
        let (log, jobs) = text.split_once(':').map_or((text, None), |(log, jobs)| (log, Some(jobs)));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let range = |text: &str| {
            let (first, last) = text.split_once('-').filter(|(a, b)| digits(a) && digits(b))?;
            let both = (first.parse().ok()?, last.parse().ok()?);
            (both.0 <= both.1).then_some(both)
        };
        let hash = log.len() == 64 && log.bytes().all(|byte| byte.is_ascii_hexdigit());
        let jobs = jobs.map(range);
        if !hash || jobs == Some(None) {
            return Err(format!(
                "found `{text}`, accepted is SHA-256 in 64 hexadecimal digits, with or without :FIRST-LAST, the numbers of \
                 the first and the last job"
            ));
        }
        Ok(Trained { log: log.to_ascii_lowercase(), jobs: jobs.flatten() })
    }

    /// Reads a list with commas between its items; an empty text is an empty list.
    ///
    /// # Errors
    /// The error of the first item that is not accepted.
    pub fn list(text: &str) -> Result<Vec<Trained>, String> {
        text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(Trained::parse).collect()
    }

    /// True if jobs with these numbers, smallest and largest, of the log with this SHA-256 (in lower case) may be among those
    /// that were seen.
    pub fn saw(&self, log: &str, (first, last): (u64, u64)) -> bool {
        self.log == log && self.jobs.is_none_or(|(from, to)| from <= last && first <= to)
    }
}

impl fmt::Display for Trained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.log)?;
        self.jobs.map_or(Ok(()), |(first, last)| write!(f, ":{first}-{last}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn res_49_logs_and_the_jobs_of_them() {
        let hash = "ab".repeat(32);
        let found = Trained::list(&format!("{hash}, {}:5-70", hash.to_uppercase())).unwrap();
        assert_eq!(found[0], Trained { log: hash.clone(), jobs: None });
        assert_eq!(found[1], Trained { log: hash.clone(), jobs: Some((5, 70)) });
        assert_eq!(found[1].to_string(), format!("{hash}:5-70"));
        assert!(found[0].saw(&hash, (900, 999)) && !found[0].saw(&"cd".repeat(32), (900, 999)));
        for (jobs, seen) in
            [((1, 4), false), ((1, 5), true), ((6, 8), true), ((70, 90), true), ((71, 90), false)]
        {
            assert_eq!(found[1].saw(&hash, jobs), seen, "{jobs:?}");
        }
        assert_eq!(Trained::list(""), Ok(vec![]));
        for bad in [
            "abc",
            &format!("{hash}:"),
            &format!("{hash}:7"),
            &format!("{hash}:7-5"),
            &format!("{hash}:+5-7"),
        ] {
            let error = Trained::list(bad).unwrap_err();
            assert!(error.starts_with(&format!("found `{bad}`, accepted is SHA-256")), "{error}");
        }
    }
}
