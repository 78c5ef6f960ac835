//! Targets for settings of policies that are languages of their own.

use policy_formula::expression::Expression;

use crate::text;

/// Expressions of the policy `formula`: an accepted one has a value for each job, and the same value again.
pub(crate) fn expression(bytes: &[u8]) {
    text(bytes, |text| {
        let Ok(expression) = Expression::parse(text) else { return };
        let value = || expression.value(|variable| if variable.changes() { 2.5 } else { 3.0 });
        assert_eq!(value().to_bits(), value().to_bits());
    });
}
