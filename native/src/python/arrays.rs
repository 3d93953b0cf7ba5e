//! numpy arrays that come in: checked, and without a copy where they lie in memory as they should.

use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Keys: a vector of uint64 or int64. The bits of an int64 are taken as they are.
pub enum Keys<'py> {
    Unsigned(PyReadonlyArray1<'py, u64>),
    Signed(PyReadonlyArray1<'py, i64>),
    Copied(Vec<u64>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Keys<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(keys) = object.extract::<PyReadonlyArray1<'py, u64>>() {
            return Ok(match keys.as_slice() {
                Ok(_) => Keys::Unsigned(keys),
                Err(_) => Keys::Copied(keys.as_array().to_vec()),
            });
        }
        if let Ok(keys) = object.extract::<PyReadonlyArray1<'py, i64>>() {
            return Ok(match keys.as_slice() {
                Ok(_) => Keys::Signed(keys),
                Err(_) => Keys::Copied(keys.as_array().iter().map(|&key| key as u64).collect()),
            });
        }
        Err(PyTypeError::new_err(format!(
            "keys must be a one-dimensional numpy array of uint64 or int64, not {}",
            describe(&object)
        )))
    }
}

impl Keys<'_> {
    pub fn as_slice(&self) -> PyResult<&[u64]> {
        match self {
            Keys::Unsigned(keys) => Ok(keys.as_slice()?),
            Keys::Signed(keys) => {
                let keys = keys.as_slice()?;
                // SAFETY: the same memory, and every bit pattern is a value of both types.
                Ok(unsafe { std::slice::from_raw_parts(keys.as_ptr().cast(), keys.len()) })
            }
            Keys::Copied(keys) => Ok(keys),
        }
    }
}

/// Rows: a matrix of float32.
pub enum Rows<'py> {
    Borrowed(PyReadonlyArray2<'py, f32>),
    Copied(Vec<f32>, [usize; 2]),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Rows<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let rows = object.extract::<PyReadonlyArray2<'py, f32>>().map_err(|_| {
            PyTypeError::new_err(format!(
                "rows must be a two-dimensional numpy array of float32, not {}",
                describe(&object)
            ))
        })?;
        let shape = [rows.shape()[0], rows.shape()[1]];
        // `as_slice` would also take what lies column by column.
        Ok(match rows.is_c_contiguous() {
            true => Rows::Borrowed(rows),
            false => Rows::Copied(rows.as_array().iter().copied().collect(), shape),
        })
    }
}

impl Rows<'_> {
    /// The rows end to end, if there are `rows` of them with `columns` columns.
    pub fn of_shape(&self, rows: usize, columns: usize) -> PyResult<&[f32]> {
        let (numbers, shape) = self.parts()?;
        if shape != [rows, columns] {
            return Err(PyValueError::new_err(format!(
                "rows must have the shape ({rows}, {columns}), not ({}, {})",
                shape[0], shape[1]
            )));
        }
        Ok(numbers)
    }

    pub fn parts(&self) -> PyResult<(&[f32], [usize; 2])> {
        match self {
            Rows::Borrowed(rows) => Ok((rows.as_slice()?, [rows.shape()[0], rows.shape()[1]])),
            Rows::Copied(numbers, shape) => Ok((numbers, *shape)),
        }
    }
}

/// Numbers: a vector of float32.
pub enum Floats<'py> {
    Borrowed(PyReadonlyArray1<'py, f32>),
    Copied(Vec<f32>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Floats<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let numbers = object.extract::<PyReadonlyArray1<'py, f32>>().map_err(|_| {
            PyTypeError::new_err(format!(
                "values must be a one-dimensional numpy array of float32, not {}",
                describe(&object)
            ))
        })?;
        Ok(match numbers.as_slice() {
            Ok(_) => Floats::Borrowed(numbers),
            Err(_) => Floats::Copied(numbers.as_array().to_vec()),
        })
    }
}

impl Floats<'_> {
    pub fn as_slice(&self) -> PyResult<&[f32]> {
        match self {
            Floats::Borrowed(numbers) => Ok(numbers.as_slice()?),
            Floats::Copied(numbers) => Ok(numbers),
        }
    }
}

fn describe(object: &Bound<'_, PyAny>) -> String {
    match object.cast::<PyUntypedArray>() {
        Ok(array) => format!("one of {} with {} dimensions", array.dtype(), array.ndim()),
        Err(_) => object.get_type().name().map_or_else(|_| "that".into(), |name| name.to_string()),
    }
}
