//! Arguments of Fluxion's modules, as they stand in start-up files: `KEY=VALUE` words, quoted where a value has blanks.
//!
//! Must never know what a key means.

use std::collections::BTreeMap;

use super::ARGS_BYTES_MAX;
use super::options::canonical;
use super::report::{Report, quoted};

/// The name of this source in lines.
pub(super) const PLACE: &str = "--args";

/// The values by key. A key that is given twice has one value, or is an error: a module refuses it.
pub(super) fn parse<S: AsRef<str>>(args: &[S], report: &mut Report) -> BTreeMap<String, String> {
    let mut given: BTreeMap<String, String> = BTreeMap::new();
    let bytes: usize = args.iter().map(|text| text.as_ref().len()).sum();
    if bytes > ARGS_BYTES_MAX {
        report.error(PLACE, format!("{bytes} bytes"), format!("expected at most {ARGS_BYTES_MAX} bytes"));
        return given;
    }
    for text in args.iter().map(AsRef::as_ref) {
        let words = match words(text) {
            Ok(words) => words,
            Err(why) => {
                report.error(PLACE, quoted(text), why);
                continue;
            }
        };
        for word in words {
            let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
                report.error(PLACE, quoted(&word), "expected KEY=VALUE words");
                continue;
            };
            let key = canonical(key);
            match given.get(key) {
                Some(before) if before != value => {
                    let also = format!("given before as {}; a module takes a key once", quoted(before));
                    report.error(format!("{PLACE} {key}"), quoted(value), also);
                }
                _ => {
                    given.insert(key.to_owned(), value.to_owned());
                }
            }
        }
    }
    given
}

/// Words at blanks; a part in single or double quotes keeps its blanks.
fn words(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut open: Option<char> = None;
    for c in text.chars() {
        match open {
            Some(quote) if c == quote => open = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                open = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if open.is_some() { Err("a quote is not closed") } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_blanks_outside_of_quotes() {
        let cut = |text| words(text).unwrap();
        assert_eq!(cut("a=1  b=2\tc=3 "), ["a=1", "b=2", "c=3"]);
        assert_eq!(cut(r#"a="x y" 'b=p  q' c="#), ["a=x y", "b=p  q", "c="]);
        assert_eq!(cut(""), Vec::<String>::new());
        assert!(words("a='x").is_err());
    }
}
