//! The words with which a sentence of a comment begins: a noun of the field is its subject (job, node, reservation, pass), which a
//! reader from another site understands at once. Must never know the subject of a file.

/// Words with which no sentence begins: they stand for a noun that the sentence does not name.
const NO_SUBJECTS: [&str; 8] =
    ["What", "Who", "Whoever", "Whose", "Nobody", "Somebody", "Anybody", "Everybody"];

/// Marks after which a sentence, or a part of one with a subject of its own, begins.
const ENDS: [&str; 3] = [". ", "; ", ": "];

/// The sentences of comments that begin with one of these words.
pub(super) fn judge(name: &str, text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        let comment = comment.trim_start_matches(['/', '!', ' ', '-']);
        let begins = ENDS.iter().flat_map(|end| comment.match_indices(end).map(|(at, _)| at + end.len()));
        for begin in [0].into_iter().chain(begins) {
            let word = comment[begin..].split(' ').next().unwrap_or_default();
            if NO_SUBJECTS.contains(&word) {
                breaches
                    .push(format!("{name}:{}: `{word}` is no subject: name the job, node ...", number + 1));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_its_subject() {
        let fine = "//! Jobs that wait.\n    // A job tells what it waits for. A node has what it needs.\nlet a = \"What is it\";\n";
        assert!(judge("a.rs", fine).is_empty());
        let bad = "//! What jobs wait for.\n  /// It is fine. Whoever comes waits: Nobody sees it.\n//! - Who holds it.\n";
        let breaches = judge("a.rs", bad);
        let places: Vec<&str> = breaches.iter().filter_map(|breach| breach.split('`').nth(1)).collect();
        assert_eq!(places, ["What", "Whoever", "Nobody", "Who"]);
        assert!(breaches[1].starts_with("a.rs:2: "));
    }
}
