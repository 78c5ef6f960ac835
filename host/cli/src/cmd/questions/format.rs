//! Format strings for lists, as `flux jobs -o` takes them: `{id:>12} {queue} {reason}`.
//!
//! A field is `{NAME}` or `{NAME:[<^>][WIDTH][.PRECISION]}`; everything else stands as it is, `{{` and `}}` are braces. Must never
//! know what a field means.

use anyhow::Result;

use crate::fail::usage;

/// A part of a format string.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Field { name: String, align: char, width: usize, precision: Option<usize> },
}

/// A format string that was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Format(Vec<Part>);

impl Format {
    /// Reads a format string with these fields.
    pub(crate) fn parse(text: &str, fields: &[&str]) -> Result<Format> {
        let wrong = |why: String| usage(format!("--format {text:?}: {why}"));
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '{' | '}' if rest.next_if_eq(&c).is_some() => plain.push(c),
                '{' => {
                    let mut field = String::new();
                    loop {
                        match rest.next() {
                            Some('}') => break,
                            Some(c) => field.push(c),
                            None => return Err(wrong("a { is not closed".to_owned())),
                        }
                    }
                    let (name, spec) = field.split_once(':').unwrap_or((&field, ""));
                    if !fields.contains(&name) {
                        return Err(wrong(format!(
                            "{name:?} is no field; accepted are {}",
                            fields.join(", ")
                        )));
                    }
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                    parts.push(
                        read(name, spec)
                            .ok_or_else(|| wrong(format!("{spec:?}: expected like >12 or <8.8")))?,
                    );
                }
                '}' => return Err(wrong("a } closes nothing".to_owned())),
                c => plain.push(c),
            }
        }
        parts.push(Part::Text(plain));
        Ok(Format(parts))
    }

    /// A line with these values.
    pub(crate) fn line(&self, value: impl Fn(&str) -> String) -> String {
        let mut line = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => line += text,
                Part::Field { name, align, width, precision } => {
                    let mut text = value(name);
                    if let Some(most) = precision {
                        text = text.chars().take(*most).collect();
                    }
                    line += &match align {
                        '>' => format!("{text:>width$}"),
                        '^' => format!("{text:^width$}"),
                        _ => format!("{text:<width$}"),
                    };
                }
            }
        }
        line.trim_end().to_owned()
    }
}

fn read(name: &str, spec: &str) -> Option<Part> {
    let align = spec.chars().next().filter(|c| "<^>".contains(*c));
    let spec = align.map_or(spec, |align| &spec[align.len_utf8()..]);
    let (width, precision) = spec.split_once('.').map_or((spec, None), |(w, p)| (w, Some(p)));
    let width = if width.is_empty() { 0 } else { width.parse().ok().filter(|width| *width <= 1000)? };
    let precision = match precision {
        Some(text) => Some(text.trim_end_matches('s').parse().ok()?),
        None => None,
    };
    Some(Part::Field { name: name.to_owned(), align: align.unwrap_or('<'), width, precision })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_77_format_strings_are_as_in_flux_jobs() {
        let line =
            |text: &str| Format::parse(text, &["id", "name"]).map(|f| f.line(|field| format!("<{field}>")));
        assert_eq!(
            line("{id:>6}|{name:<8}|{name:^10}|{id:.2}|{{}}").unwrap(),
            "  <id>|<name>  |  <name>  |<i|{}"
        );
        for (bad, words) in [
            ("{x}", "accepted are id, name"),
            ("{id", "not closed"),
            ("}", "closes nothing"),
            ("{id:x}", "expected like"),
        ] {
            let error = line(bad).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
