//! Results of a script, from its output in the Test Anything Protocol.

/// The results of a script.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
    /// Names of the cases that failed.
    pub(super) names: Vec<String>,
    /// The reason why there are no counts, or not of all cases.
    pub(super) cut: Option<String>,
}

impl Counts {
    /// Reads the output of a script. Cases that were skipped, and failures that the script expects, are not counted.
    pub(super) fn read(said: &str) -> Counts {
        let mut counts = Counts::default();
        let mut ended = false;
        for line in said.lines() {
            let lower = line.to_ascii_lowercase();
            if lower.starts_with("ok ") && !lower.contains("# skip") {
                counts.passed += 1;
            } else if lower.starts_with("not ok ") && !lower.contains("# todo") {
                counts.failed += 1;
                counts.names.push(line["not ok ".len()..].to_owned());
            } else if let Some(plan) = line.strip_prefix("1..") {
                ended = true;
                counts.cut = plan
                    .split_once('#')
                    .filter(|(count, _)| count.trim() == "0")
                    .map(|(_, why)| why.trim().to_owned());
            }
        }
        if !ended {
            counts.cut = Some("did not come to its end".to_owned());
        }
        counts
    }

    /// In words, for one cell of a table.
    pub(super) fn told(&self) -> String {
        let mut words = Vec::new();
        if self.passed > 0 || self.cut.is_none() {
            words.push(format!("{} passed", self.passed));
        }
        if self.failed > 0 {
            words.push(format!("{} failed", self.failed));
        }
        words.extend(self.cut.clone());
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let said = "ok 1 - loads\nnot ok 2 - a note\nok 3 # skip no tool (missing TOOL)\nnot ok 4 - old # TODO known breakage\n\
                    # failed 1\n1..4\n";
        let found = Counts::read(said);
        assert_eq!(
            (found.passed, found.failed, found.names.as_slice()),
            (1, 1, &["2 - a note".to_owned()][..])
        );
        assert_eq!(found.cut, None);
        assert_eq!(Counts::read("1..0 # SKIP no gpus\n").cut.as_deref(), Some("SKIP no gpus"));
        assert_eq!(Counts::read("ok 1 - loads\n").cut.as_deref(), Some("did not come to its end"));
    }

    #[test]
    fn results_are_told() {
        let told = |said: &str| Counts::read(said).told();
        assert_eq!(told("ok 1 - a\nok 2 - b\n1..2\n"), "2 passed");
        assert_eq!(told("ok 1 - a\nnot ok 2 - b\n1..2\n"), "1 passed, 1 failed");
        assert_eq!(told("not ok 1 - a\n1..1\n"), "0 passed, 1 failed");
        assert_eq!(told("1..0 # SKIP no gpus\n"), "SKIP no gpus");
        assert_eq!(told("ok 1 - a\n"), "1 passed, did not come to its end");
    }
}
