//! The lines that the scheduler logs: each has an id that does not change, a level and a meaning, all in one table.
//!
//! [`log!`] writes a line and takes its level from the table, so that no line can be written without an id. A program that shows a line
//! finds the id in the field [`ID`] and the number that systemd's journal wants in the field [`JOURNAL_ID`].
//!
//! Must never know where lines go, nor what happens in the scheduler.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod table;

pub use table::Id;
#[doc(hidden)]
pub use tracing;

/// The field of a line that has its id, such as `FG-1203`.
pub const ID: &str = "id";
/// The field of a line that has its 128-bit id in hexadecimal digits, as the field `MESSAGE_ID` of systemd's journal.
pub const JOURNAL_ID: &str = "message_id";

/// Writes a line with the id and the level of an entry of [`Id`], then as `tracing::event!`: fields, format string, arguments. The target
/// is the module of the caller, unless `target:` and another one come first.
#[macro_export]
macro_rules! log {
    (target: $target:expr, $id:ident, $($rest:tt)+) => {
        $crate::tracing::event!(
            target: $target,
            $crate::Id::$id.level(),
            id = $crate::Id::$id.text(),
            message_id = $crate::Id::$id.journal(),
            $($rest)+
        )
    };
    ($id:ident, $($rest:tt)+) => {
        $crate::log!(target: module_path!(), $id, $($rest)+)
    };
}
