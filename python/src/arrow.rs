//! Columns for other libraries, by the Arrow C stream interface: arrays of numbers without copies, texts and truth
//! values as Arrow lays them out. <https://arrow.apache.org/docs/format/CStreamInterface.html>
//!
//! Must never know what a column means. The pointers of this module are used by the consumer as the interface says; each
//! structure is freed by its own `release`, which the consumer calls once.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use numpy::{Element, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors;

/// The name of the capsule.
pub(crate) const NAME: &CStr = c"arrow_array_stream";
/// Result of a call that succeeded.
const FINE: c_int = 0;

/// A type of the interface, by its own names.
#[repr(C)]
pub(crate) struct Schema {
    pub(crate) format: *const c_char,
    pub(crate) name: *const c_char,
    pub(crate) metadata: *const c_char,
    pub(crate) flags: i64,
    pub(crate) n_children: i64,
    pub(crate) children: *mut *mut Schema,
    pub(crate) dictionary: *mut Schema,
    pub(crate) release: Option<unsafe extern "C" fn(*mut Schema)>,
    pub(crate) private_data: *mut c_void,
}

/// Values of the interface, by its own names.
#[repr(C)]
pub(crate) struct Array {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
    pub(crate) offset: i64,
    pub(crate) n_buffers: i64,
    pub(crate) n_children: i64,
    pub(crate) buffers: *mut *const c_void,
    pub(crate) children: *mut *mut Array,
    pub(crate) dictionary: *mut Array,
    pub(crate) release: Option<unsafe extern "C" fn(*mut Array)>,
    pub(crate) private_data: *mut c_void,
}

/// Batches of values of the interface, by its own names.
#[repr(C)]
pub(crate) struct Stream {
    pub(crate) get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    pub(crate) get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    pub(crate) get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    pub(crate) release: Option<unsafe extern "C" fn(*mut Stream)>,
    pub(crate) private_data: *mut c_void,
}

impl Schema {
    /// Room for a schema, with nothing to free.
    pub(crate) fn empty() -> Schema {
        Schema {
            format: ptr::null(),
            name: ptr::null(),
            metadata: ptr::null(),
            flags: 0,
            n_children: 0,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }
}

impl Array {
    /// Room for an array, with nothing to free.
    pub(crate) fn empty() -> Array {
        Array {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: ptr::null_mut(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }
}

/// The values of a column.
enum Values {
    /// An array of Python's, whose bytes are used in place.
    Lent { begin: *const c_void, _owner: Py<PyAny> },
    /// Texts: where each begins, and their bytes.
    Text { offsets: Vec<i64>, bytes: Vec<u8> },
    /// Truth values, a bit each.
    Bits(Vec<u8>),
}

// SAFETY: a lent array is only read, and it lives as long as its owner, whose references are counted.
unsafe impl Send for Values {}
// SAFETY: as above.
unsafe impl Sync for Values {}

/// A column: its name, its format in the words of the interface, and its values.
struct Column {
    name: CString,
    format: &'static CStr,
    values: Values,
}

/// The columns of a table, all of this length.
struct Batch {
    columns: Vec<Column>,
    rows: i64,
}

/// The state of a stream: the batch, and whether it was handed out.
struct Source {
    batch: Arc<Batch>,
    ended: bool,
}

/// Data that an array of the interface keeps alive.
struct Kept {
    _batch: Arc<Batch>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

/// Data that a schema of the interface keeps alive.
struct Named {
    _batch: Arc<Batch>,
    children: Vec<*mut Schema>,
}

/// Frees a schema and those below it that were not moved elsewhere.
unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: the consumer gives a schema that `schema_of` made and that was not released.
    unsafe {
        let named = Box::from_raw((*schema).private_data.cast::<Named>());
        for &child in &named.children {
            let mut child = Box::from_raw(child);
            if let Some(release) = child.release {
                release(&raw mut *child);
            }
        }
        (*schema).release = None;
    }
}

/// Frees an array and those below it that were not moved elsewhere.
unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: the consumer gives an array that `array_of` made and that was not released.
    unsafe {
        let kept = Box::from_raw((*array).private_data.cast::<Kept>());
        for &child in &kept.children {
            let mut child = Box::from_raw(child);
            if let Some(release) = child.release {
                release(&raw mut *child);
            }
        }
        (*array).release = None;
    }
}

fn schema_of(batch: &Arc<Batch>, format: &CStr, name: &CStr, children: Vec<*mut Schema>) -> Schema {
    let mut named = Box::new(Named { _batch: Arc::clone(batch), children });
    Schema {
        format: format.as_ptr(),
        name: name.as_ptr(),
        metadata: ptr::null(),
        flags: 0,
        n_children: named.children.len() as i64,
        children: named.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(named).cast(),
    }
}

fn array_of(batch: &Arc<Batch>, buffers: Vec<*const c_void>, children: Vec<*mut Array>) -> Array {
    let mut kept = Box::new(Kept { _batch: Arc::clone(batch), buffers, children });
    Array {
        length: batch.rows,
        null_count: 0,
        offset: 0,
        n_buffers: kept.buffers.len() as i64,
        n_children: kept.children.len() as i64,
        buffers: kept.buffers.as_mut_ptr(),
        children: kept.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(kept).cast(),
    }
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: the consumer gives a stream of ours that was not released, and room for a schema.
    unsafe {
        let source = &*(*stream).private_data.cast::<Source>();
        let batch = &source.batch;
        let child = |column: &Column| {
            Box::into_raw(Box::new(schema_of(batch, column.format, &column.name, Vec::new())))
        };
        let children = batch.columns.iter().map(child).collect();
        out.write(schema_of(batch, c"+s", c"", children));
    }
    FINE
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: the consumer gives a stream of ours that was not released, and room for an array.
    unsafe {
        let source = &mut *(*stream).private_data.cast::<Source>();
        let batch = Arc::clone(&source.batch);
        if source.ended {
            out.write(Array::empty());
            return FINE;
        }
        source.ended = true;
        let child = |column: &Column| {
            let buffers = match &column.values {
                Values::Lent { begin, .. } => vec![ptr::null(), *begin],
                Values::Text { offsets, bytes } => {
                    vec![ptr::null(), offsets.as_ptr().cast(), bytes.as_ptr().cast()]
                }
                Values::Bits(bits) => vec![ptr::null(), bits.as_ptr().cast()],
            };
            Box::into_raw(Box::new(array_of(&batch, buffers, Vec::new())))
        };
        let children = batch.columns.iter().map(child).collect();
        out.write(array_of(&batch, vec![ptr::null()], children));
    }
    FINE
}

unsafe extern "C" fn get_last_error(_stream: *mut Stream) -> *const c_char {
    ptr::null()
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: the consumer gives a stream of ours that was not released.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Source>()));
        (*stream).release = None;
    }
}

/// A stream in a capsule: freed with it unless a consumer moved it elsewhere.
#[repr(transparent)]
struct Held(Stream);

// SAFETY: the state of the stream is counted, and only read.
unsafe impl Send for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: it was not released, and is not used again.
            unsafe { release(&raw mut self.0) }
        }
    }
}

/// The numbers of this column, if they are of this type and stand one after the other.
fn lent<T: Element>(
    column: &Bound<'_, PyAny>,
    format: &'static CStr,
) -> Option<(Values, usize, &'static CStr)> {
    let array = column.cast::<PyArray1<T>>().ok().filter(|array| array.is_c_contiguous())?;
    let values = Values::Lent { begin: array.data().cast_const().cast(), _owner: column.clone().unbind() };
    Some((values, array.len(), format))
}

/// The values of a column: an array of numbers or truth values, or a list of texts.
fn values(column: &Bound<'_, PyAny>) -> PyResult<(Values, usize, &'static CStr)> {
    let known = lent::<f64>(column, c"g")
        .or_else(|| lent::<u64>(column, c"L"))
        .or_else(|| lent::<i64>(column, c"l"))
        .or_else(|| lent::<u32>(column, c"I"))
        .or_else(|| lent::<i32>(column, c"i"))
        .or_else(|| lent::<f32>(column, c"f"));
    if let Some(known) = known {
        return Ok(known);
    }
    if let Ok(array) = column.cast::<PyArray1<bool>>() {
        let flags = array.to_vec()?;
        let mut bits = vec![0_u8; flags.len().div_ceil(8)];
        for (row, _) in flags.iter().enumerate().filter(|(_, flag)| **flag) {
            bits[row / 8] |= 1 << (row % 8);
        }
        return Ok((Values::Bits(bits), flags.len(), c"b"));
    }
    let texts: Vec<String> = column.extract()?;
    let (mut offsets, mut bytes) = (vec![0_i64], Vec::new());
    for text in &texts {
        bytes.extend_from_slice(text.as_bytes());
        offsets.push(bytes.len() as i64);
    }
    Ok((Values::Text { offsets, bytes }, texts.len(), c"U"))
}

/// A capsule with these columns as a stream of one batch.
#[pyfunction]
pub(crate) fn arrow_stream<'py>(
    py: Python<'py>,
    columns: Vec<(String, Bound<'py, PyAny>)>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let mut all = Vec::new();
    let mut rows = None;
    for (name, column) in columns {
        let (values, length, format) = values(&column)?;
        if *rows.get_or_insert(length) != length {
            return Err(errors::wrong(format!(
                "column {name} has {length} rows, others have another number"
            )));
        }
        let name = CString::new(name).map_err(errors::wrong)?;
        all.push(Column { name, format, values });
    }
    let batch = Arc::new(Batch { columns: all, rows: rows.unwrap_or(0) as i64 });
    let source = Box::new(Source { batch, ended: false });
    let stream = Stream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(source).cast(),
    };
    PyCapsule::new_with_value(py, Held(stream), NAME)
}
