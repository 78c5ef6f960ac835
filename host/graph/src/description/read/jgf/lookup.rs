//! Vertices by their ids in the file.
//!
//! Nearly all files count their vertices, so ids are rows of numbers. This module must never know the data of vertices.

use std::collections::HashMap;

use crate::description::runs::{Description, plain};

/// Vertices by id.
#[derive(Default)]
pub(super) struct Lookup {
    /// Rows of numbers by the first one: it, its vertex, and how many there are.
    rows: Vec<(u64, u32, u32)>,
    /// The row of the last number, since ids mostly come in order.
    last: usize,
    texts: HashMap<String, u32>,
}

impl Lookup {
    /// The ids of a description; an error has a vertex with the id of one before it.
    pub(super) fn of(description: &Description) -> Result<Lookup, u32> {
        let mut found = Lookup::default();
        for run in description.runs() {
            match run.file {
                Some(file) => match found.rows.last_mut() {
                    Some((first, vertex, count))
                        if first.checked_add((*count).into()) == Some(file)
                            && *vertex + *count == run.first =>
                    {
                        *count += run.count;
                    }
                    _ => found.rows.push((file, run.first, run.count)),
                },
                None => {
                    if found.texts.insert(description.file_id(run, 0), run.first).is_some() {
                        return Err(run.first);
                    }
                }
            }
        }
        found.rows.sort_unstable();
        for pair in found.rows.windows(2) {
            if let [(a, vertex, count), (b, other, _)] = pair
                && b - a < u64::from(*count)
            {
                return Err((*vertex + (b - a) as u32).max(*other));
            }
        }
        Ok(found)
    }

    /// The vertex with an id.
    pub(super) fn find(&mut self, id: &str) -> Option<u32> {
        let Some(number) = plain(id) else { return self.texts.get(id).copied() };
        let inside = |row: &(u64, u32, u32)| number.checked_sub(row.0).filter(|by| *by < u64::from(row.2));
        let row = match self.rows.get(self.last).and_then(inside) {
            Some(_) => self.last,
            None => self.rows.partition_point(|row| row.0 <= number).checked_sub(1)?,
        };
        self.last = row;
        let row = self.rows.get(row)?;
        Some(row.1 + inside(row)? as u32)
    }
}
