//! Columns of other libraries, by the Arrow C stream interface: numbers and truth values as f64, nulls as NaN.
//!
//! Must never know what a column means. A producer is trusted to hand over structures as the interface says; each
//! structure is freed by its own `release`, once.

use std::collections::BTreeMap;
use std::ffi::CStr;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyDict};

use crate::arrow::{Array, NAME, Schema, Stream};
use crate::errors;

/// Most rows that are taken.
const ROWS_MAX: usize = 1 << 26;

/// A structure of the interface, freed when it goes.
struct Freed<T: Release>(T);

/// A structure that can free itself.
trait Release {
    /// Frees it, if that was not done.
    fn free(&mut self);
}

macro_rules! release {
    ($($name:ty),*) => {$(
        impl Release for $name {
            fn free(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: the producer gave this function for this structure, which was not freed.
                    unsafe { release(&raw mut *self) }
                }
            }
        }
    )*};
}
release!(Schema, Array, Stream);

impl<T: Release> Drop for Freed<T> {
    fn drop(&mut self) {
        self.0.free();
    }
}

/// A type of numbers: bytes of a number, and the function that reads them; none for truth values.
type Kind = Option<(usize, fn(&[u8]) -> f64)>;

fn bytes<const N: usize>(of: &[u8]) -> [u8; N] {
    of.try_into().unwrap_or([0; N])
}

/// The type of this format.
fn kind(format: &str) -> Option<Kind> {
    Some(match format {
        "b" => None,
        "c" => Some((1, |of| f64::from(i8::from_ne_bytes(bytes(of))))),
        "C" => Some((1, |of| f64::from(u8::from_ne_bytes(bytes(of))))),
        "s" => Some((2, |of| f64::from(i16::from_ne_bytes(bytes(of))))),
        "S" => Some((2, |of| f64::from(u16::from_ne_bytes(bytes(of))))),
        "i" => Some((4, |of| f64::from(i32::from_ne_bytes(bytes(of))))),
        "I" => Some((4, |of| f64::from(u32::from_ne_bytes(bytes(of))))),
        "l" => Some((8, |of| i64::from_ne_bytes(bytes(of)) as f64)),
        "L" => Some((8, |of| u64::from_ne_bytes(bytes(of)) as f64)),
        "f" => Some((4, |of| f64::from(f32::from_ne_bytes(bytes(of))))),
        "g" => Some((8, |of| f64::from_ne_bytes(bytes(of)))),
        _ => return None,
    })
}

/// The values of an array from this row on.
///
/// # Safety
/// The array is one of the producer, of this kind, and was not freed.
unsafe fn read(array: &Array, kind: Kind, first: usize, rows: usize, into: &mut Vec<f64>) {
    // SAFETY: of the caller: the buffers have room for all rows.
    unsafe {
        let begin = first + usize::try_from(array.offset).unwrap_or(0);
        let buffer = |number: usize| {
            let known = number < usize::try_from(array.n_buffers).unwrap_or(0) && !array.buffers.is_null();
            if known { (*array.buffers.add(number)).cast::<u8>() } else { std::ptr::null() }
        };
        let (valid, values) = (buffer(0), buffer(1));
        let bit = |bits: *const u8, row: usize| *bits.add(row / 8) >> (row % 8) & 1 == 1;
        for row in begin..begin + rows {
            let null = values.is_null() || (!valid.is_null() && array.null_count != 0 && !bit(valid, row));
            into.push(match kind {
                _ if null => f64::NAN,
                None => f64::from(u8::from(bit(values, row))),
                Some((width, number)) => number(std::slice::from_raw_parts(values.add(row * width), width)),
            });
        }
    }
}

/// The text of the interface, empty for none.
///
/// # Safety
/// The pointer is null or of a text that ends with 0.
unsafe fn text(of: *const std::ffi::c_char) -> String {
    if of.is_null() {
        return String::new();
    }
    // SAFETY: of the caller.
    unsafe { CStr::from_ptr(of).to_string_lossy().into_owned() }
}

/// The names of all columns of an Arrow producer, and those of the wanted ones as arrays of f64.
#[pyfunction]
pub(crate) fn arrow_columns<'py>(
    py: Python<'py>,
    frame: &Bound<'py, PyAny>,
    wanted: Vec<String>,
) -> PyResult<(Vec<String>, Bound<'py, PyDict>)> {
    let capsule = frame.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let inside = capsule.pointer_checked(Some(NAME))?.cast::<Stream>();
    // SAFETY: a capsule of this name has a stream, which is moved out: no other owner frees it after this.
    let mut stream = unsafe {
        let moved = inside.read();
        (*inside.as_ptr()).release = None;
        Freed(moved)
    };
    let (Some(get_schema), Some(get_next)) = (stream.0.get_schema, stream.0.get_next) else {
        return Err(errors::frame(py, "", None, "a frame: its Arrow stream has ended"));
    };
    let failed = |stream: &mut Stream, code: i32| {
        // SAFETY: the stream was not freed.
        let why = stream.get_last_error.map(|ask| unsafe { text(ask(&raw mut *stream)) });
        errors::frame(
            py,
            "",
            None,
            format!("a frame: error {code} of its Arrow stream: {}", why.unwrap_or_default()),
        )
    };
    let mut schema = Freed(Schema::empty());
    // SAFETY: as the interface says, of a stream that was not freed.
    let code = unsafe { get_schema(&raw mut stream.0, &raw mut schema.0) };
    if code != 0 {
        return Err(failed(&mut stream.0, code));
    }
    // SAFETY: the schema of a struct has this many children.
    let columns: Vec<(String, String)> = unsafe {
        if text(schema.0.format) != "+s" {
            return Err(errors::frame(py, "", None, "a frame: its Arrow stream is no table of columns"));
        }
        let count = usize::try_from(schema.0.n_children).unwrap_or(0);
        (0..count)
            .map(|number| {
                let child = &**schema.0.children.add(number);
                let format =
                    if child.dictionary.is_null() { text(child.format) } else { "dictionary".to_owned() };
                (text(child.name), format)
            })
            .collect()
    };
    let mut taken: BTreeMap<usize, (Kind, Vec<f64>)> = BTreeMap::new();
    for (number, (name, format)) in columns.iter().enumerate().filter(|(_, (name, _))| wanted.contains(name))
    {
        let kind = kind(format).ok_or_else(|| {
            let message =
                format!("column {name}: found values of the Arrow type `{format}`, accepted are numbers");
            errors::frame(py, name, None, message)
        })?;
        taken.insert(number, (kind, Vec::new()));
    }
    let mut all = 0;
    loop {
        let mut batch = Freed(Array::empty());
        // SAFETY: as the interface says, of a stream that was not freed.
        let code = unsafe { get_next(&raw mut stream.0, &raw mut batch.0) };
        if code != 0 {
            return Err(failed(&mut stream.0, code));
        }
        if batch.0.release.is_none() {
            break;
        }
        let rows = usize::try_from(batch.0.length).unwrap_or(0);
        all += rows;
        if all > ROWS_MAX {
            return Err(errors::option(py, format!("found {all} rows, accepted are at most {ROWS_MAX}")));
        }
        let first = usize::try_from(batch.0.offset).unwrap_or(0);
        for (number, (kind, values)) in &mut taken {
            // SAFETY: a batch has the children of the schema, each of its type.
            unsafe { read(&**batch.0.children.add(*number), *kind, first, rows, values) }
        }
    }
    let found = PyDict::new(py);
    for (number, (_, values)) in taken {
        found.set_item(&columns[number].0, PyArray1::from_vec(py, values))?;
    }
    Ok((columns.into_iter().map(|(name, _)| name).collect(), found))
}
