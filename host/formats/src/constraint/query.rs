//! The constraint query syntax of RFC 35, as people write it: `rank:3`, `host:a[1-4]`, `-gpu|ssd`, `(fast and big) or not old`.
//!
//! A term is `OPERATOR:VALUE`, or a value alone, which names properties. Operators are `properties` (`property`), `host`
//! (`hosts`, `hostlist`) and `rank` (`ranks`). Terms beside each other are joined by `and`. Quotes keep blanks and signs
//! together. Must never know which nodes there are.

use std::iter::Peekable;
use std::vec::IntoIter;

use crate::constraint::{CONSTRAINT_DEPTH_MAX, CONSTRAINT_TERMS_MAX, Constraint, PROPERTY_FORBIDDEN, Prop};
use crate::hostlist::Hostlist;
use crate::idset::Idset;

/// The fault for which a text is no constraint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// A quote does not end.
    #[error("{0}: the quote does not end")]
    Quote(String),
    /// Something else was expected.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// The text expected.
        expected: &'static str,
        /// The text found, or "the end".
        found: String,
    },
    /// The operator of a term is unknown.
    #[error("{0:?} is no operator; accepted are properties, host, hosts, hostlist, rank and ranks")]
    Operator(String),
    /// The value of a term is none for its operator.
    #[error("{term:?}: {why}")]
    Value {
        /// The term.
        term: String,
        /// The reason.
        why: String,
    },
    /// It is deeper, or has more terms, than is accepted.
    #[error("it is deeper than {CONSTRAINT_DEPTH_MAX} levels, or has more than {CONSTRAINT_TERMS_MAX} terms")]
    TooLarge,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Open,
    Close,
    And,
    Or,
    Not,
    Term(String),
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Open => "(",
            Token::Close => ")",
            Token::And => "and",
            Token::Or => "or",
            Token::Not => "not",
            Token::Term(term) => term,
        }
    }
}

/// The tokens of a text; a word that is `and`, `or` or `not` without quotes is an operator.
fn tokens(text: &str) -> Result<Vec<Token>, QueryError> {
    let mut found = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(&next) = rest.peek() {
        match next {
            c if c.is_whitespace() => drop(rest.next()),
            '(' | ')' => {
                found.push(if next == '(' { Token::Open } else { Token::Close });
                rest.next();
            }
            '&' | '|' => {
                rest.next();
                rest.next_if_eq(&next);
                found.push(if next == '&' { Token::And } else { Token::Or });
            }
            '-' => {
                found.push(Token::Not);
                rest.next();
            }
            _ => {
                let (mut term, mut quoted) = (String::new(), false);
                while let Some(c) = rest.next_if(|c| !c.is_whitespace() && !"()&|".contains(*c)) {
                    if c != '"' && c != '\'' {
                        term.push(c);
                        continue;
                    }
                    quoted = true;
                    loop {
                        match rest.next() {
                            Some(end) if end == c => break,
                            Some(inner) => term.push(inner),
                            None => return Err(QueryError::Quote(text.to_owned())),
                        }
                    }
                }
                found.push(match term.as_str() {
                    "and" if !quoted => Token::And,
                    "or" if !quoted => Token::Or,
                    "not" if !quoted => Token::Not,
                    _ => Token::Term(term),
                });
            }
        }
        if found.len() > CONSTRAINT_TERMS_MAX {
            return Err(QueryError::TooLarge);
        }
    }
    Ok(found)
}

struct Parser {
    tokens: Peekable<IntoIter<Token>>,
}

impl Parser {
    fn any(&mut self, depth: usize) -> Result<Constraint, QueryError> {
        let mut list = vec![self.all(depth)?];
        while self.tokens.next_if_eq(&Token::Or).is_some() {
            list.push(self.all(depth)?);
        }
        Ok(if list.len() == 1 { list.remove(0) } else { Constraint::Or(list) })
    }

    fn all(&mut self, depth: usize) -> Result<Constraint, QueryError> {
        let mut list: Vec<Constraint> = vec![self.one(depth)?];
        loop {
            let joined = self.tokens.next_if_eq(&Token::And).is_some();
            if !joined && matches!(self.tokens.peek(), None | Some(Token::Or | Token::Close)) {
                break;
            }
            match (self.one(depth)?, list.last_mut()) {
                // Properties beside each other are one term.
                (Constraint::Properties(more), Some(Constraint::Properties(props))) => props.extend(more),
                (next, _) => list.push(next),
            }
        }
        Ok(if list.len() == 1 { list.remove(0) } else { Constraint::And(list) })
    }

    fn one(&mut self, depth: usize) -> Result<Constraint, QueryError> {
        if depth >= CONSTRAINT_DEPTH_MAX {
            return Err(QueryError::TooLarge);
        }
        match self.tokens.next() {
            Some(Token::Not) => Ok(Constraint::Not(vec![self.one(depth + 1)?])),
            Some(Token::Open) => {
                let inner = self.any(depth + 1)?;
                match self.tokens.next() {
                    Some(Token::Close) => Ok(inner),
                    other => Err(expected("a closing parenthesis", other.as_ref())),
                }
            }
            Some(Token::Term(term)) => read(&term),
            other => Err(expected("a property, host:HOSTS or rank:RANKS", other.as_ref())),
        }
    }
}

fn expected(expected: &'static str, found: Option<&Token>) -> QueryError {
    QueryError::Expected {
        expected,
        found: found.map_or("the end".to_owned(), |token| format!("{:?}", token.text())),
    }
}

fn read(term: &str) -> Result<Constraint, QueryError> {
    let bad = |why: String| QueryError::Value { term: term.to_owned(), why };
    match term.split_once(':') {
        None => properties(term).map_err(bad),
        Some(("properties" | "property", names)) => properties(names).map_err(bad),
        Some(("host" | "hosts" | "hostlist", hosts)) => {
            Hostlist::parse(hosts).map(Constraint::Hostlist).map_err(|e| bad(e.to_string()))
        }
        Some(("rank" | "ranks", ranks)) => {
            ranks.parse::<Idset>().map(Constraint::Ranks).map_err(|e| bad(e.to_string()))
        }
        Some((other, _)) => Err(QueryError::Operator(other.to_owned())),
    }
}

fn properties(names: &str) -> Result<Constraint, String> {
    let property = |text: &str| {
        let name = text.strip_prefix('^').unwrap_or(text);
        if name.is_empty() || name.contains(PROPERTY_FORBIDDEN) {
            return Err(format!("{text:?} is no property"));
        }
        Ok(Prop { name: name.to_owned(), negated: name.len() < text.len() })
    };
    names.split(',').map(property).collect::<Result<_, _>>().map(Constraint::Properties)
}

impl Constraint {
    /// Reads the query syntax of RFC 35. An empty text is [`Constraint::All`].
    ///
    /// # Errors
    /// See [`QueryError`].
    pub fn parse(text: &str) -> Result<Constraint, QueryError> {
        let tokens = tokens(text)?;
        if tokens.is_empty() {
            return Ok(Constraint::All);
        }
        let mut parser = Parser { tokens: tokens.into_iter().peekable() };
        let read = parser.any(0)?;
        match parser.tokens.next() {
            None => Ok(read),
            left => Err(expected("and, or, or the end", left.as_ref())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_people_write() {
        let p = |name: &str| json!({"properties": [name]});
        let rows: [(&str, Value); 14] = [
            ("", json!({})),
            ("gpu", p("gpu")),
            ("gpu,^old", json!({"properties": ["gpu", "^old"]})),
            ("gpu fast", json!({"properties": ["gpu", "fast"]})),
            ("+pdat", p("+pdat")),
            ("rank:3", json!({"ranks": ["3"]})),
            ("ranks:0-2,5", json!({"ranks": ["0-2,5"]})),
            ("host:a", json!({"hostlist": ["a"]})),
            ("hosts:n[1-3]", json!({"hostlist": ["n[1-3]"]})),
            ("-gpu|ssd", json!({"or": [{"not": [p("gpu")]}, p("ssd")]})),
            ("not (a or b) and c", json!({"and": [{"not": [{"or": [p("a"), p("b")]}]}, p("c")]})),
            ("a && b || rank:1", json!({"or": [{"properties": ["a", "b"]}, {"ranks": ["1"]}]})),
            ("'and'", p("and")),
            ("a -host:x", json!({"and": [p("a"), {"not": [{"hostlist": ["x"]}]}]})),
        ];
        for (text, value) in rows {
            let read = Constraint::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(read.to_value(), value, "{text}");
            assert_eq!(Constraint::from_value(&value).unwrap(), read, "{text}");
        }
    }

    #[test]
    fn what_is_refused_and_how() {
        for (text, words) in [
            ("(a", "expected a closing parenthesis, found the end"),
            ("a)", "expected and, or, or the end, found \")\""),
            ("a or", "found the end"),
            ("-", "found the end"),
            ("foo:3", "\"foo\" is no operator"),
            ("rank:x", "\"rank:x\": "),
            ("host:a[", "\"host:a[\": "),
            ("'a", "the quote does not end"),
            ("a,,b", "\"\" is no property"),
            (&"-".repeat(70), "deeper than"),
        ] {
            let error = Constraint::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
