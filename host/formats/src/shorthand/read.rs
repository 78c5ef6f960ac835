//! Reading a shape, from left to right.

use super::{ShapeErrorKind as Kind, label_slots};
use crate::jobspec::{Count, DEPTH_MAX, Resource, SLOT, VERTICES_MAX};
use crate::text::excerpt;

/// Where and why reading stopped.
type Stop = (usize, Kind);

/// A character of a type that is not quoted.
pub(super) fn is_type_char(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, '=' | '{' | '}' | '[' | ']' | '/' | ';' | '\'' | '"')
}

/// A character of a key or value that is not quoted.
pub(super) fn is_value_char(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, ':' | ',' | '{' | '}' | '[' | ']' | '\'' | '"')
}

pub(super) fn read(text: &str, label: &str) -> Result<Vec<Resource>, Stop> {
    let mut reader = Reader { text, at: 0, vertices: 0 };
    let mut resources = reader.list(1)?;
    reader.skip_space();
    if reader.at < text.len() {
        return Err((reader.at, Kind::Expected("'/' or the end")));
    }
    label_slots(&mut resources, label).map_err(|kind| (reader.at, kind))?;
    Ok(resources)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    vertices: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest().chars().next()
    }

    fn eat(&mut self, c: char) -> bool {
        let hit = self.peek() == Some(c);
        self.at += if hit { c.len_utf8() } else { 0 };
        hit
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Resource>, Stop> {
        self.skip_space();
        let start = self.at;
        if depth > DEPTH_MAX {
            return Err((start, Kind::TooDeep));
        }
        if !self.eat('[') {
            return Ok(vec![self.vertex(depth)?]);
        }
        let mut vertices = vec![self.vertex(depth)?];
        while self.eat(';') {
            vertices.push(self.vertex(depth)?);
        }
        match self.peek() {
            Some(']') => self.at += 1,
            Some(_) => return Err((self.at, Kind::Expected("';' or ']'"))),
            None => return Err((start, Kind::Unclosed('['))),
        }
        Ok(vertices)
    }

    fn vertex(&mut self, depth: usize) -> Result<Resource, Stop> {
        self.vertices += 1;
        if self.vertices > VERTICES_MAX {
            return Err((self.at, Kind::TooMany));
        }
        self.skip_space();
        let start = self.at;
        let type_ = self.word(is_type_char, "a resource type")?.0;
        if type_.is_empty() {
            return Err((start, Kind::Expected("a resource type")));
        }
        let mut vertex = Resource::new(type_, Count::Fixed(1));
        if self.eat('=') {
            vertex.count = self.count()?;
        }
        if self.peek() == Some('{') {
            self.items(&mut vertex)?;
        }
        if self.eat('/') {
            vertex.with = self.list(depth + 1)?;
        } else if vertex.type_ == SLOT {
            return Err((self.at, Kind::EmptySlot));
        }
        Ok(vertex)
    }

    fn count(&mut self) -> Result<Count, Stop> {
        self.skip_space();
        let bracketed = self.rest().starts_with('[');
        let in_count = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '*' | '^' | ':' | ',');
        let body = &self.rest()[usize::from(bracketed)..];
        let mut length = usize::from(bracketed) + body.find(|c| !in_count(c)).unwrap_or(body.len());
        if bracketed {
            if !self.rest()[length..].starts_with(']') {
                return Err((self.at, Kind::Unclosed('[')));
            }
            length += 1;
        }
        let count = Count::parse(&self.rest()[..length]);
        let count = count.map_err(|error| (self.at + error.at, Kind::Count(error.kind)))?;
        self.at += length;
        Ok(count)
    }

    /// The content of braces: for a slot the label first, then keys and values.
    fn items(&mut self, vertex: &mut Resource) -> Result<(), Stop> {
        let start = self.at;
        self.at += 1;
        if vertex.type_ == SLOT {
            if matches!(self.peek(), Some('+' | '-' | '}')) {
                return Err((self.at, Kind::Expected("the label of the slot first")));
            }
            vertex.label = Some(self.word(is_value_char, "the label of the slot")?.0);
        } else if self.eat('}') {
            return Ok(());
        } else {
            self.item(vertex)?;
        }
        while self.eat(',') {
            self.item(vertex)?;
        }
        match self.peek() {
            Some('}') => self.at += 1,
            Some(_) => return Err((self.at, Kind::Expected("',' or '}'"))),
            None => return Err((start, Kind::Unclosed('{'))),
        }
        Ok(())
    }

    fn item(&mut self, vertex: &mut Resource) -> Result<(), Stop> {
        let sign = match self.peek() {
            Some(sign @ ('+' | '-')) => {
                self.at += 1;
                Some(sign == '+')
            }
            _ => None,
        };
        self.skip_space();
        let start = self.at;
        let key = self.word(is_value_char, "a key")?.0;
        let repeated = |key| Err((start, Kind::RepeatedKey(key)));
        if matches!(key.as_str(), "x" | "exclusive") {
            let exclusive =
                if sign.is_none() && self.eat(':') { self.truth()? } else { sign.unwrap_or(true) };
            return match vertex.exclusive.replace(exclusive) {
                Some(_) => repeated("exclusive"),
                None => Ok(()),
            };
        }
        let (slot, name) = match key.as_str() {
            "unit" => (&mut vertex.unit, "unit"),
            "label" => (&mut vertex.label, "label"),
            "id" => (&mut vertex.id, "id"),
            _ => return Err((start, Kind::UnknownKey(excerpt(&key)))),
        };
        if slot.is_some() {
            return repeated(name);
        }
        if sign.is_some() || !self.eat(':') {
            return Err((self.at, Kind::Expected("':' and a text; only 'exclusive' goes without")));
        }
        self.skip_space();
        let start = self.at;
        let (text, quoted) = self.word(is_value_char, "a text")?;
        // Without quotes, a word that JSON does not read as a text is not a text (RFC 46).
        let word = ["true", "false", "null"].iter().any(|word| text.eq_ignore_ascii_case(word));
        if !quoted && (word || serde_json::from_str::<serde_json::Number>(&text).is_ok()) {
            return Err((start, Kind::Expected("a text; put quotes around it")));
        }
        *slot = Some(text);
        Ok(())
    }

    fn truth(&mut self) -> Result<bool, Stop> {
        self.skip_space();
        let start = self.at;
        let (word, quoted) = self.word(is_value_char, "true or false")?;
        match word.to_ascii_lowercase().as_str() {
            "true" if !quoted => Ok(true),
            "false" if !quoted => Ok(false),
            _ => Err((start, Kind::Expected("true or false"))),
        }
    }

    /// A text in quotes, or of plain characters; and whether it was in quotes.
    fn word(&mut self, plain: fn(char) -> bool, what: &'static str) -> Result<(String, bool), Stop> {
        let quote = self.peek().filter(|c| matches!(c, '\'' | '"'));
        let start = self.at;
        let rest = self.rest();
        let Some(quote) = quote else {
            let length = rest.find(|c| !plain(c)).unwrap_or(rest.len());
            if length == 0 {
                return Err((start, Kind::Expected(what)));
            }
            self.at += length;
            return Ok((rest[..length].to_owned(), false));
        };
        let mut escaped = false;
        let end = rest[1..].find(|c| {
            let ends = c == quote && !escaped;
            escaped = quote == '"' && c == '\\' && !escaped;
            ends
        });
        let end = end.ok_or((start, Kind::Unclosed(quote)))? + 1;
        self.at += end + 1;
        let text = if quote == '"' {
            serde_json::from_str(&rest[..=end]).map_err(|_| (start, Kind::BadString))?
        } else {
            rest[1..end].to_owned()
        };
        Ok((text, true))
    }
}
