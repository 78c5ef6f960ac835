//! Figures of a page of OpenMetrics, by name and labels.
//!
//! Must never know what a figure means.

use std::collections::BTreeMap;

/// Most samples that are read.
const SAMPLES_MAX: usize = 20_000;

/// A sample of a family: its labels and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// The samples of this name; lines that are none are passed over.
pub(crate) fn samples(page: &str, name: &str) -> Vec<Sample> {
    let of = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None if rest.starts_with(' ') => (BTreeMap::new(), rest),
            None => return None,
        };
        Some(Sample { labels, value: value.split_whitespace().next()?.parse().ok()? })
    };
    page.lines().filter_map(of).take(SAMPLES_MAX).collect()
}

/// Labels up to the closing brace, and the rest of the line.
fn labels(mut rest: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut found = BTreeMap::new();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Some((found, after));
        }
        let (name, after) = rest.split_once("=\"")?;
        let (mut value, mut escaped, mut end) = (String::new(), false, None);
        for (at, c) in after.char_indices() {
            match (escaped, c) {
                (true, 'n') => value.push('\n'),
                (true, c) => value.push(c),
                (false, '\\') => {}
                (false, '"') => {
                    end = Some(at);
                    break;
                }
                (false, c) => value.push(c),
            }
            escaped = !escaped && c == '\\';
        }
        found.insert(name.to_owned(), value);
        rest = &after[end? + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_as_they_were_meant() {
        let page =
            "# HELP a_b x\na_b{queue=\"x,}\\\"\\\\y\",reason=\"busy\"} 3.0\na_b 4\na_bc 5\na_b{broken 6\n";
        let found = samples(page, "a_b");
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].labels["queue"].as_str(), found[0].value), ("x,}\"\\y", 3.0));
        assert_eq!((found[1].labels.len(), found[1].value), (0, 4.0));
    }
}
