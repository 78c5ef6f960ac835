//! Excerpts of foreign text in error messages.

/// Longest excerpt, in characters.
const EXCERPT_CHARS_MAX: usize = 60;

/// `text` as it may appear in a message: at most [`EXCERPT_CHARS_MAX`] characters, then an ellipsis.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(excerpt("short"), "short");
        let long = "ƒ".repeat(EXCERPT_CHARS_MAX + 1);
        assert_eq!(excerpt(&long), format!("{}…", "ƒ".repeat(EXCERPT_CHARS_MAX)));
    }
}
