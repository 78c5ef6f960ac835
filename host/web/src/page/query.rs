//! The part of an address after `?`: names and values.
//!
//! Must never know which names a page takes.

/// Most pairs of an address.
const PAIRS_MAX: usize = 32;

/// Names and values in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

/// Text with `%41` and `+` as they are meant; bytes that are no UTF-8 are replaced.
pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = |at: usize| after.get(at).and_then(|c| (*c as char).to_digit(16));
        rest = after;
        match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            (b'+', ..) => bytes.push(b' '),
            (other, ..) => bytes.push(*other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The reverse.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

impl Query {
    /// Read `a=1&b=2`.
    pub(crate) fn read(text: &str) -> Query {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).take(PAIRS_MAX);
        Query(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decoded(name), decoded(value)))
                .collect(),
        )
    }

    /// A value; empty ones are as good as none.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The same with another value; without one the name is left out.
    pub(crate) fn with(&self, name: &str, value: &str) -> Query {
        let mut pairs: Vec<_> = self.0.iter().filter(|(known, _)| known != name).cloned().collect();
        if !value.is_empty() {
            pairs.push((name.to_owned(), value.to_owned()));
        }
        Query(pairs)
    }

    /// The address of `path` with it.
    pub(crate) fn on(&self, path: &str) -> String {
        let pairs: Vec<String> = self
            .0
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
            .collect();
        if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_being_read_and_written() {
        let query = Query::read("queue=a%26b&text=x+%C6%92&empty=&bad=%zz%4");
        assert_eq!(
            (query.get("queue"), query.get("text"), query.get("empty")),
            (Some("a&b"), Some("x ƒ"), None)
        );
        assert_eq!(query.get("bad"), Some("%zz%4"));
        let again = query.on("/queue");
        assert_eq!(again, "/queue?queue=a%26b&text=x%20%C6%92&bad=%25zz%254");
        assert_eq!(Query::read(again.split_once('?').unwrap().1).on("/queue"), again);
        assert_eq!(query.with("queue", "").with("text", "").with("bad", "").on("/queue"), "/queue");
    }
}
