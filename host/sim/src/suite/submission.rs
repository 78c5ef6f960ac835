//! A submission to a suite: a folder with a component and the file [`FILE`], which says what it is and where its source is.
//!
//! ```toml
//! name = "Night owl"
//! component = "night-owl.wasm"
//! weights-sha256 = "…"           # of the file of weights, for a trained network
//! source = "https://example.org/night-owl"
//! license = "Apache-2.0"
//! suite = "own-sequences"
//! suite-version = 1
//! settings = "annotate=false"    # may be missing
//! sampled = 10                   # may be missing: seeds of a policy that also decides by chance
//! ```
//!
//! This module reads no files, and does not know components.

use serde::Deserialize;

use super::{Entry, Suite, check_seeds};
use crate::words::named;

/// The name of the file.
pub const FILE: &str = "submission.toml";

/// Largest such file, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 16;

/// Longest text in it, in bytes.
pub const TEXT_MAX: usize = 1_000;

/// The file of a submission; see the [module](self).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Submission {
    /// The name of the policy in tables.
    pub name: String,
    /// The file of the component, in the folder.
    pub component: String,
    /// SHA-256 of the weights that the component was made of, 64 hexadecimal digits in lower case; `None` for a policy without weights.
    pub weights_sha256: Option<String>,
    /// A link to the source.
    pub source: String,
    /// The license of the source, as an SPDX expression.
    pub license: String,
    /// The name of the suite.
    pub suite: String,
    /// Version of the suite.
    pub suite_version: u32,
    /// Settings of the policy, KEY=VALUE,..; empty without any.
    #[serde(default)]
    pub settings: String,
    /// See [`Entry::sampled`].
    pub sampled: Option<u32>,
}

impl Submission {
    /// Reads a file. Its texts are not checked; see [`Submission::faults`].
    ///
    /// # Errors
    /// The text is no such file; the field, what was found and what is accepted.
    pub fn parse(text: &str) -> Result<Submission, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The faults of its texts, each in a sentence; empty if there are none.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let texts = [
            ("name", &self.name),
            ("component", &self.component),
            ("source", &self.source),
            ("license", &self.license),
        ];
        for (field, text) in texts {
            if text.trim().is_empty() || text.len() > TEXT_MAX || text.contains(char::is_control) {
                faults
                    .push(format!("{field}: found `{text}`, accepted are 1 to {TEXT_MAX} bytes on one line"));
            }
        }
        if self.name.contains(['=', '\'']) {
            faults.push(format!("name: found `{}`, accepted is a text without = and '", self.name));
        }
        if self.component.contains(['/', '\\']) || !self.component.ends_with(".wasm") {
            let found = &self.component;
            faults.push(format!(
                "component: found `{found}`, accepted is the name of a .wasm file in the folder"
            ));
        }
        if !["https://", "http://"].iter().any(|scheme| self.source.starts_with(scheme)) {
            faults.push(format!("source: found `{}`, accepted is a link with https://", self.source));
        }
        let expression = |c: char| c.is_ascii_alphanumeric() || " .-+()".contains(c);
        if !self.license.chars().all(expression) {
            let found = &self.license;
            faults.push(format!(
                "license: found `{found}`, accepted is an SPDX expression, such as Apache-2.0"
            ));
        }
        let hex =
            |text: &&String| text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if let Some(bad) = self.weights_sha256.as_ref().filter(|text| !hex(text)) {
            faults.push(format!("weights-sha256: found `{bad}`, accepted are 64 digits 0-9a-f"));
        }
        if !self.settings.is_empty() && named(&self.policy()).1.is_empty() {
            faults.push(format!("settings: found `{}`, accepted is KEY=VALUE,..", self.settings));
        }
        faults.extend(check_seeds(self.sampled).err());
        faults
    }

    /// The reason why it is not for this suite; `None` if it is.
    pub fn not_for(&self, suite: &Suite) -> Option<String> {
        if suite.name != self.suite {
            return Some(format!("suite: found `{}`, but the suite is {}", self.suite, suite.name));
        }
        let (found, accepted) = (self.suite_version, suite.version);
        (found != accepted).then(|| {
            format!("suite-version: found {found}, accepted is {accepted}, the version of {}", suite.name)
        })
    }

    /// The component with its settings, as an entry names a policy.
    pub fn policy(&self) -> String {
        match self.settings.as_str() {
            "" => self.component.clone(),
            settings => format!("{}:{settings}", self.component),
        }
    }

    /// Its entry in each task.
    pub fn entry(&self) -> Entry {
        Entry { sampled: self.sampled, ..Entry::new(&self.name, &self.policy()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"Night owl\"\ncomponent = \"owl.wasm\"\nsource = \"https://example.org/owl\"\n\
         license = \"Apache-2.0 OR MIT\"\nsuite = \"own-sequences\"\nsuite-version = 1\nsettings = \"depth=4\"\nsampled = 10\n";

    #[test]
    fn res_56_faults_of_a_submission_have_words() {
        let read = Submission::parse(TEXT).unwrap();
        assert_eq!(read.faults(), [""; 0]);
        assert_eq!((read.policy().as_str(), read.entry().sampled), ("owl.wasm:depth=4", Some(10)));
        let faults =
            |from: &str, to: &str| Submission::parse(&TEXT.replace(from, to)).unwrap().faults().join("; ");
        assert!(faults("Night owl", "").starts_with("name: found ``, accepted are 1 to 1000 bytes"));
        assert!(faults("Night owl", "a=b").contains("without = and '"));
        assert!(faults("owl.wasm", "../owl.wasm").contains("component: found `../owl.wasm`"));
        assert!(
            faults("https://example.org/owl", "my disk")
                .contains("source: found `my disk`, accepted is a link")
        );
        assert!(faults("Apache-2.0 OR MIT", "free?").contains("license: found `free?`, accepted is an SPDX"));
        assert!(faults("depth=4", "depth").contains("settings: found `depth`"));
        assert!(faults("sampled = 10", "sampled = 3").contains("accepted are 10 to 1000 seeds"));
        assert!(faults("sampled = 10", "weights-sha256 = \"ab\"").contains("weights-sha256: found `ab`"));
        assert!(Submission::parse(&TEXT.replace("license", "licence")).unwrap_err().contains("licence"));
        assert!(Submission::parse("name = 1").unwrap_err().contains("invalid type"));
        let suite = Suite::shipped("own-sequences").unwrap();
        assert_eq!(read.not_for(&suite), None);
        let old = Submission { suite_version: 99, ..read.clone() };
        assert!(old.not_for(&suite).unwrap().contains("suite-version: found 99, accepted is 1"));
        assert!(
            read.not_for(&Suite::shipped("own-windows").unwrap())
                .unwrap()
                .contains("but the suite is own-windows")
        );
    }
}
