//! Arithmetic expressions over the request of a job: parsed once, bounded, evaluated for each job.
//!
//! ```text
//! sum     = product (('+' | '-') product)*
//! product = sign (('*' | '/') sign)*
//! sign    = '-' sign | power
//! power   = atom ('^' sign)?
//! atom    = NUMBER | VARIABLE | FUNCTION '(' test (',' test)* ')' | '(' test ')'
//! test    = sum (('<' | '<=' | '>' | '>=') sum)?
//! ```
//!
//! A comparison is 1 if it holds and 0 otherwise. Logarithms and powers come from a software library, so that a value is
//! the same on every machine. This module knows neither policies nor passes.

use std::fmt;

/// Most bytes of an expression.
pub const BYTES_MAX: usize = 1024;
/// Most numbers, variables, operators and functions of an expression.
pub const TERMS_MAX: usize = 256;
/// Greatest depth of parentheses, signs and powers.
pub const DEPTH_MAX: usize = 32;

/// A property of a job or of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// Submission in seconds, from the origin that is set.
    Submit,
    /// Requested duration in seconds.
    Duration,
    /// Fewest cores.
    Cores,
    /// Fewest nodes, 0 when the request names none.
    Nodes,
    /// Fewest GPUs.
    Gpus,
    /// Seconds since submission.
    Wait,
    /// The time of the pass in seconds, from the origin that is set.
    Now,
    /// RFC 27 priority.
    Priority,
    /// Submitting user.
    User,
    /// Index of the queue.
    Queue,
    /// The longest wait of a waiting job in seconds.
    LongestWait,
    /// The shortest requested duration of a waiting job in seconds.
    ShortestRequest,
}

impl Variable {
    /// All of them by name.
    pub const ALL: [(&'static str, Variable); 12] = [
        ("submit", Variable::Submit),
        ("duration", Variable::Duration),
        ("cores", Variable::Cores),
        ("nodes", Variable::Nodes),
        ("gpus", Variable::Gpus),
        ("wait", Variable::Wait),
        ("now", Variable::Now),
        ("priority", Variable::Priority),
        ("user", Variable::User),
        ("queue", Variable::Queue),
        ("longest-wait", Variable::LongestWait),
        ("shortest-request", Variable::ShortestRequest),
    ];

    /// True if its value for a waiting job changes while the job waits.
    pub fn changes(self) -> bool {
        use Variable::{LongestWait, Now, ShortestRequest, Wait};
        matches!(self, Wait | Now | LongestWait | ShortestRequest)
    }
}

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Min,
    Max,
    Log2,
    Log10,
    Sqrt,
    If,
}

impl Function {
    const ALL: [(&'static str, Function, usize); 6] = [
        ("min", Function::Min, 2),
        ("max", Function::Max, 2),
        ("log2", Function::Log2, 1),
        ("log10", Function::Log10, 1),
        ("sqrt", Function::Sqrt, 1),
        ("if", Function::If, 3),
    ];
}

/// A step of the evaluation on a stack of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Number(f64),
    Variable(Variable),
    Negate,
    Two(char),
    /// `<=` and `>=`.
    OrEqual(char),
    Call(Function),
}

/// A text is no expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Column of the error, from 1.
    pub column: usize,
    /// The text found there.
    pub found: String,
    /// The accepted texts.
    pub accepted: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: found {}, accepted is {}", self.column, self.found, self.accepted)
    }
}

/// An expression; see the [module](self).
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    steps: Vec<Step>,
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// The text is none, or exceeds a bound; the column is that of the error.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        if text.len() > BYTES_MAX {
            let found = format!("{} bytes", text.len());
            return Err(Wrong { column: 1, found, accepted: format!("at most {BYTES_MAX}") });
        }
        let mut parser = Parser { text, at: 0, depth: 0, steps: Vec::new() };
        parser.test()?;
        match parser.peek() {
            None => Ok(Expression { steps: parser.steps }),
            Some(_) => Err(parser.wrong("an operator (+ - * / ^ < <= > >=) or the end")),
        }
    }

    /// True if its value for a waiting job changes while the job waits.
    pub fn changes(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Variable(variable) if variable.changes()))
    }

    /// Its value; NaN where it is not defined, such as the logarithm of a negative number.
    pub fn value(&self, of: impl Fn(Variable) -> f64) -> f64 {
        let mut stack: Vec<f64> = Vec::with_capacity(16);
        for step in &self.steps {
            let mut pop = || stack.pop().unwrap_or(f64::NAN);
            let value = match *step {
                Step::Number(number) => number,
                Step::Variable(variable) => of(variable),
                Step::Negate => -pop(),
                Step::Two(operator) => {
                    let (b, a) = (pop(), pop());
                    match operator {
                        '+' => a + b,
                        '-' => a - b,
                        '*' => a * b,
                        '/' => a / b,
                        '^' => power(a, b),
                        '<' => f64::from(a < b),
                        _ => f64::from(a > b),
                    }
                }
                Step::OrEqual(operator) => {
                    let (b, a) = (pop(), pop());
                    f64::from(if operator == '<' { a <= b } else { a >= b })
                }
                Step::Call(Function::Log2) => libm::log2(pop()),
                Step::Call(Function::Log10) => libm::log10(pop()),
                Step::Call(Function::Sqrt) => libm::sqrt(pop()),
                Step::Call(Function::Min) => {
                    let (b, a) = (pop(), pop());
                    if b < a { b } else { a }
                }
                Step::Call(Function::Max) => {
                    let (b, a) = (pop(), pop());
                    if b > a { b } else { a }
                }
                Step::Call(Function::If) => {
                    let (no, yes, test) = (pop(), pop(), pop());
                    if test == 0.0 { no } else { yes }
                }
            };
            stack.push(value);
        }
        stack.pop().unwrap_or(f64::NAN)
    }
}

/// A power; small whole exponents are products from left to right.
fn power(base: f64, exponent: f64) -> f64 {
    match exponent {
        2.0 => base * base,
        3.0 => base * base * base,
        _ => libm::pow(base, exponent),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    steps: Vec<Step>,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// The next character that is no blank.
    fn peek(&mut self) -> Option<char> {
        let blanks = self.rest().len() - self.rest().trim_start().len();
        self.at += blanks;
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    /// An error at this place.
    fn wrong(&mut self, accepted: impl Into<String>) -> Wrong {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(c) if c.is_ascii_alphanumeric() => {
                let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
                let end = self.rest().find(|c| !word(c)).unwrap_or(self.rest().len());
                format!("`{}`", &self.rest()[..end])
            }
            Some(c) => format!("`{}`", c.escape_default()),
        };
        let column = self.text[..self.at].chars().count() + 1;
        Wrong { column, found, accepted: accepted.into() }
    }

    fn push(&mut self, step: Step) -> Result<(), Wrong> {
        if self.steps.len() >= TERMS_MAX {
            return Err(Wrong {
                column: self.text[..self.at].chars().count() + 1,
                found: format!("more than {TERMS_MAX} numbers, variables and operators"),
                accepted: format!("at most {TERMS_MAX}"),
            });
        }
        self.steps.push(step);
        Ok(())
    }

    fn deeper<T>(&mut self, part: impl FnOnce(&mut Self) -> Result<T, Wrong>) -> Result<T, Wrong> {
        if self.depth >= DEPTH_MAX {
            return Err(
                self.wrong(format!("at most {DEPTH_MAX} parentheses, signs and powers in each other"))
            );
        }
        self.depth += 1;
        let found = part(self);
        self.depth -= 1;
        found
    }

    fn test(&mut self) -> Result<(), Wrong> {
        self.sum()?;
        let Some(operator) = self.peek().filter(|c| "<>".contains(*c)) else { return Ok(()) };
        self.at += 1;
        let or_equal = self.rest().starts_with('=');
        self.at += usize::from(or_equal);
        self.sum()?;
        self.push(if or_equal { Step::OrEqual(operator) } else { Step::Two(operator) })
    }

    fn sum(&mut self) -> Result<(), Wrong> {
        self.product()?;
        while let Some(operator) = self.peek().filter(|c| "+-".contains(*c)) {
            self.at += 1;
            self.product()?;
            self.push(Step::Two(operator))?;
        }
        Ok(())
    }

    fn product(&mut self) -> Result<(), Wrong> {
        self.sign()?;
        while let Some(operator) = self.peek().filter(|c| "*/".contains(*c)) {
            self.at += 1;
            self.sign()?;
            self.push(Step::Two(operator))?;
        }
        Ok(())
    }

    fn sign(&mut self) -> Result<(), Wrong> {
        if self.take('-') {
            self.deeper(Self::sign)?;
            return self.push(Step::Negate);
        }
        self.atom()?;
        if self.take('^') {
            self.deeper(Self::sign)?;
            self.push(Step::Two('^'))?;
        }
        Ok(())
    }

    fn atom(&mut self) -> Result<(), Wrong> {
        if self.take('(') {
            self.deeper(Self::test)?;
            return self.close();
        }
        match self.peek() {
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.name(),
            _ => Err(self.wrong("a number, a variable, a function or `(`")),
        }
    }

    fn close(&mut self) -> Result<(), Wrong> {
        if self.take(')') { Ok(()) } else { Err(self.wrong("an operator or `)`")) }
    }

    fn number(&mut self) -> Result<(), Wrong> {
        let rest = self.rest().as_bytes();
        let digits = |from: usize| rest[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut end = digits(0);
        if rest.get(end) == Some(&b'.') {
            end += 1 + digits(end + 1);
        }
        if matches!(rest.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            end += if exponent > 0 { 1 + sign + exponent } else { 0 };
        }
        let Some(value) = self.rest()[..end].parse().ok().filter(|value: &f64| value.is_finite()) else {
            return Err(self.wrong("a number like 870 or 6.86e6"));
        };
        self.at += end;
        self.push(Step::Number(value))
    }

    fn name(&mut self) -> Result<(), Wrong> {
        // The longest name, since `longest-wait` is one and `wait-submit` is a difference.
        let starts = |name: &str| {
            let after = self.rest().strip_prefix(name);
            after.is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_alphanumeric()))
        };
        let function = Function::ALL.into_iter().find(|(name, ..)| starts(name));
        let variable =
            Variable::ALL.into_iter().filter(|(name, _)| starts(name)).max_by_key(|(name, _)| name.len());
        if let Some((name, variable)) = variable {
            self.at += name.len();
            return self.push(Step::Variable(variable));
        }
        let Some((name, function, arguments)) = function else {
            let variables = Variable::ALL.map(|(name, _)| name).join(", ");
            let functions = Function::ALL.map(|(name, ..)| name).join(", ");
            return Err(self.wrong(format!("a variable ({variables}) or a function ({functions})")));
        };
        self.at += name.len();
        if !self.take('(') {
            return Err(self.wrong(format!("`(` and the arguments of {name}")));
        }
        for argument in 0..arguments {
            if argument > 0 && !self.take(',') {
                return Err(self.wrong(format!("`,`, as {name} has {arguments} arguments")));
            }
            self.deeper(Self::test)?;
        }
        self.close()?;
        self.push(Step::Call(function))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> f64 {
        Expression::parse(text).unwrap().value(|variable| match variable {
            Variable::Submit => 100.0,
            Variable::Duration => 3600.0,
            Variable::Cores => 8.0,
            Variable::Wait => 50.0,
            Variable::LongestWait => 70.0,
            _ => 0.0,
        })
    }

    #[test]
    fn operators_bind_as_in_arithmetic() {
        assert_eq!(value("1 + 2 * 3 - 4 / 2"), 5.0);
        assert_eq!(value("2 ^ 3 ^ 2"), 512.0);
        assert_eq!([value("-2 ^ 2"), value("(-2) ^ 2"), value("2 ^ -1")], [-4.0, 4.0, 0.5]);
        assert_eq!(value("10 - 3 - 2"), 5.0);
        assert_eq!([value("1.5e2"), value(".5"), value("2e-1")], [150.0, 0.5, 0.2]);
        assert!(Expression::parse("2e").is_err() && Expression::parse(".").is_err());
    }

    #[test]
    fn functions_and_variables() {
        assert_eq!(value("sqrt(duration) * cores"), 480.0);
        assert_eq!(value("log10(submit) + log2(cores)"), 5.0);
        assert_eq!(value("min(cores, 3) + max(cores,3)"), 11.0);
        assert_eq!(value("longest-wait-wait"), 20.0);
        assert_eq!([value("if(wait >= 50, 1, 2)"), value("if(wait > 50, 1, 2)")], [1.0, 2.0]);
        assert_eq!([value("2 < 3"), value("3 <= 2")], [1.0, 0.0]);
        assert!(value("log10(0 - 1)").is_nan());
        assert_eq!(value("log10(0)"), f64::NEG_INFINITY);
    }

    #[test]
    fn what_changes_while_a_job_waits() {
        let changes = |text: &str| Expression::parse(text).unwrap().changes();
        assert!(changes("wait / duration") && changes("1 + longest-wait") && changes("now"));
        assert!(!changes("duration * cores + 870 * log10(submit) + user + priority"));
    }

    #[test]
    fn errors_name_the_column_and_what_is_accepted() {
        let of = |text: &str| Expression::parse(text).unwrap_err().to_string();
        assert_eq!(
            of("cores *"),
            "column 8: found the end, accepted is a number, a variable, a function or `(`"
        );
        assert_eq!(
            of("2 cores"),
            "column 3: found `cores`, accepted is an operator (+ - * / ^ < <= > >=) or the end"
        );
        assert_eq!(of("min(cores)"), "column 10: found `)`, accepted is `,`, as min has 2 arguments");
        assert_eq!(of("(cores"), "column 7: found the end, accepted is an operator or `)`");
        assert!(
            of("ram + 1").starts_with("column 1: found `ram`, accepted is a variable (submit, duration,")
        );
        assert!(of("é").starts_with("column 1: found `\\u{e9}`"));
        assert!(of("sqrt cores").contains("`(` and the arguments of sqrt"));
    }

    #[test]
    fn every_bound_is_kept() {
        let of = |text: String| Expression::parse(&text).unwrap_err().to_string();
        assert!(of("1".repeat(BYTES_MAX + 1)).contains("at most 1024"));
        assert!(of(format!("{}1", "(".repeat(500))).contains("at most 32 parentheses"));
        assert!(of(format!("{}1", "-".repeat(500))).contains("at most 32"));
        assert!(of(vec!["1"; 200].join("+")).contains("more than 256"));
    }
}
