//! The hash of texts for Python.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString};

use crate::xxhash::xxh64;

/// XXH64 of a text in UTF-8, of bytes, or of an integer in decimal digits; with `buckets`, its remainder.
#[pyfunction]
#[pyo3(signature = (text, buckets=None, seed=0))]
fn stable_hash(text: &Bound<'_, PyAny>, buckets: Option<u64>, seed: u64) -> PyResult<u64> {
    let hash = if let Ok(text) = text.cast::<PyString>() {
        xxh64(text.to_cow()?.as_bytes(), seed)
    } else if let Ok(bytes) = text.cast::<PyBytes>() {
        xxh64(bytes.as_bytes(), seed)
    } else {
        xxh64(digits(text)?.as_bytes(), seed)
    };
    match buckets {
        None => Ok(hash),
        Some(0) => Err(PyValueError::new_err("buckets: 1 or more is expected, not 0")),
        Some(buckets) => Ok(hash % buckets),
    }
}

/// So an id is the same whether a file has it as a text or as a number.
fn digits(number: &Bound<'_, PyAny>) -> PyResult<String> {
    let index = || number.call_method0("__index__");
    if number.cast::<PyInt>().is_err() && index().is_err() || number.cast::<PyBool>().is_ok() {
        let kind = number.get_type().name()?;
        return Err(PyTypeError::new_err(format!("a text, bytes or an integer is expected, not {kind}")));
    }
    Ok(index()?.str()?.to_cow()?.into_owned())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(stable_hash, module)?)
}
