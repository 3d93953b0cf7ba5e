//! The slot reader for Python: settings come as JSON (checked by `umiak.data`), batches go out as numpy arrays that own the
//! reader's memory.

use std::io::{self, Read};
use std::os::fd::{BorrowedFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use numpy::{Element, IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::poison::Unpoisoned;
use crate::reader::batches::{Reader, Settings};
use crate::reader::columns::{self, Columns};
use crate::reader::fault::Fault;
use crate::reader::schema::Schema;
use crate::reader::shuffle;
use crate::reader::source::{From, Input, Opener};

create_exception!(
    umiak_native,
    ReaderError,
    PyValueError,
    "A reader can't go on. It has the fields kind, file, line, column, token, reason and message."
);

/// One input: a path with the range of bytes in which its lines begin, a file descriptor, bytes, or what opens something
/// that can be read.
#[derive(FromPyObject)]
enum GivenInput {
    Path(PathBuf, u64, Option<u64>),
    Unpacked(PathBuf, u64, Option<u64>, Py<PyAny>),
    Open(RawFd, String),
    Bytes(Vec<u8>, String),
    Other(Py<PyAny>, String),
}

impl GivenInput {
    fn read(self) -> PyResult<Input> {
        Ok(match self {
            Self::Path(path, start, end) => {
                Input { name: path.display().to_string(), from: From::Path { path, start, end, unpack: None } }
            }
            Self::Unpacked(path, start, end, open) => {
                let name = path.display().to_string();
                Input { name, from: From::Path { path, start, end, unpack: Some(opener(open)) } }
            }
            Self::Open(fd, name) => {
                if fd < 0 {
                    return Err(PyValueError::new_err(format!("not a file descriptor: {fd}")));
                }
                // SAFETY: borrowed for this call only; one that is not open gives an error.
                let own = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
                Input { name, from: From::Open(Arc::new(own)) }
            }
            Self::Bytes(bytes, name) => Input { name, from: From::Bytes(Arc::new(bytes)) },
            Self::Other(open, name) => Input { name, from: From::Other(opener(open)) },
        })
    }
}

fn opener(open: Py<PyAny>) -> Opener {
    Arc::new(move || {
        let file = Python::attach(|py| open.call0(py).map_err(|error| failure(py, error)))?;
        Ok(Box::new(PythonFile { file, left: Vec::new(), at: 0 }))
    })
}

/// A file of Python's, whose method `read` gives bytes or text.
struct PythonFile {
    file: Py<PyAny>,
    /// What was read and not yet asked for begins at `at`.
    left: Vec<u8>,
    at: usize,
}

impl Read for PythonFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.left.len() {
            self.left = Python::attach(|py| {
                let got = self.file.bind(py).call_method1("read", (into.len(),)).map_err(|error| failure(py, error))?;
                match got.extract::<String>() {
                    Ok(text) => Ok(text.into_bytes()),
                    Err(_) => got.extract::<Vec<u8>>().map_err(|error| failure(py, error)),
                }
            })?;
            self.at = 0;
        }
        let got = (&self.left[self.at..]).read(into)?;
        self.at += got;
        Ok(got)
    }
}

/// An exception as an error of a file; Ctrl-C stays what it is.
fn failure(py: Python<'_>, error: PyErr) -> io::Error {
    if error.is_instance_of::<PyException>(py) { io::Error::other(error.value(py).to_string()) } else { error.into() }
}

/// Batches of samples from files of `slot:value` lines.
#[pyclass(frozen, module = "umiak_native")]
struct SlotReader {
    reader: Mutex<Option<Reader>>,
    schema: Arc<Schema>,
    unsigned: bool,
}

#[pymethods]
impl SlotReader {
    #[new]
    #[pyo3(signature = (inputs, settings, position=None, unsigned=false))]
    fn new(
        py: Python<'_>,
        inputs: Vec<GivenInput>,
        settings: &str,
        position: Option<&str>,
        unsigned: bool,
    ) -> PyResult<Self> {
        let settings: Settings =
            serde_json::from_str(settings).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let inputs = inputs.into_iter().map(GivenInput::read).collect::<PyResult<Vec<_>>>()?;
        let made = py.detach(|| Reader::new(inputs, settings, position, Some(Arc::new(signals))));
        let reader = made.map_err(|fault| exception(py, fault))?;
        Ok(Self { schema: Arc::new(reader.schema().clone()), reader: Mutex::new(Some(reader)), unsigned })
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let next = py.detach(|| match self.held().as_mut() {
            Some(reader) => reader.next_batch(),
            None => Ok(None),
        });
        match next {
            Ok(Some(columns)) => Ok(Some(Batch::new(columns, self.schema.clone(), self.unsigned))),
            Ok(None) => Ok(None),
            Err(fault) => Err(exception(py, fault)),
        }
    }

    /// JSON from which another reader of the same inputs goes on behind the last batch.
    fn position(&self, py: Python<'_>) -> PyResult<String> {
        match self.held().as_ref() {
            Some(reader) => reader.position().map_err(|fault| exception(py, fault)),
            None => Err(PyValueError::new_err("the reader is closed")),
        }
    }

    /// JSON with what was seen so far.
    fn statistics(&self) -> PyResult<String> {
        match self.held().as_ref() {
            Some(reader) => Ok(reader.statistics().to_string()),
            None => Err(PyValueError::new_err("the reader is closed")),
        }
    }

    /// Ends its threads and lets go of its files.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.held().take()));
    }
}

impl Drop for SlotReader {
    /// Its threads may wait for the GIL, so they are waited for without it.
    fn drop(&mut self) {
        let reader = self.held().take();
        Python::attach(|py| py.detach(|| drop(reader)));
    }
}

impl SlotReader {
    fn held(&self) -> std::sync::MutexGuard<'_, Option<Reader>> {
        self.reader.lock().unpoisoned()
    }
}

/// Some samples: `sparse` maps a slot's name to (values, offsets), `dense` to a matrix.
#[pyclass(frozen, module = "umiak_native")]
struct Batch {
    columns: Mutex<Columns>,
    schema: Arc<Schema>,
    unsigned: bool,
    size: usize,
    bytes: usize,
    sparse: Mutex<Option<Py<PyDict>>>,
    dense: Mutex<Option<Py<PyDict>>>,
}

impl Batch {
    fn new(columns: Columns, schema: Arc<Schema>, unsigned: bool) -> Self {
        let (size, bytes) = (columns.size, columns.bytes());
        let (sparse, dense) = (Mutex::new(None), Mutex::new(None));
        Self { columns: Mutex::new(columns), schema, unsigned, size, bytes, sparse, dense }
    }

    fn sparse_arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = std::mem::take(&mut self.columns.lock().unpoisoned().sparse);
        let made = PyDict::new(py);
        for (name, column) in self.schema.sparse.iter().zip(columns) {
            let offsets = column.offsets.into_pyarray(py);
            let pair = if self.unsigned {
                PyTuple::new(py, [column.values.into_pyarray(py).into_any(), offsets.into_any()])?
            } else {
                PyTuple::new(py, [as_signed(column.values).into_pyarray(py).into_any(), offsets.into_any()])?
            };
            made.set_item(name, pair)?;
        }
        Ok(made)
    }

    /// Before the arrays are made: out of the columns.
    fn stacked(&self, slots: &[String]) -> PyResult<Vec<u64>> {
        let columns = self.columns.lock().unpoisoned();
        let one = |slot: &String| {
            let number = self.schema.sparse.iter().position(|name| name == slot);
            let column = number.and_then(|number| columns.sparse.get(number)).ok_or_else(|| no_slot(slot))?;
            check_single(slot, &column.values, &column.offsets, self.size)
        };
        let found = slots.iter().map(one).collect::<PyResult<Vec<_>>>()?;
        Ok(columns::matrix(&found, self.size))
    }

    fn dense_arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = std::mem::take(&mut self.columns.lock().unpoisoned().dense);
        let made = PyDict::new(py);
        for (slot, column) in self.schema.dense.iter().zip(columns) {
            made.set_item(&slot.name, column.values.into_pyarray(py).reshape([self.size, slot.dim])?)?;
        }
        Ok(made)
    }
}

#[pymethods]
impl Batch {
    #[getter]
    fn size(&self) -> usize {
        self.size
    }

    /// Bytes of all its arrays.
    #[getter]
    fn bytes(&self) -> usize {
        self.bytes
    }

    #[getter]
    fn sparse<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        once(py, &self.sparse, || self.sparse_arrays(py))
    }

    #[getter]
    fn dense<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        once(py, &self.dense, || self.dense_arrays(py))
    }

    /// Ids of slots with one per sample, as a matrix: a row for each sample, a column for each slot that is named.
    fn matrix<'py>(&self, py: Python<'py>, slots: Vec<String>) -> PyResult<Bound<'py, PyAny>> {
        let made = self.sparse.lock().unpoisoned().as_ref().map(|made| made.bind(py).clone());
        let shape = [self.size, slots.len()];
        if self.unsigned {
            let ids = match made {
                Some(made) => stacked(&made, &slots, self.size)?,
                None => self.stacked(&slots)?,
            };
            return Ok(ids.into_pyarray(py).reshape(shape)?.into_any());
        }
        let ids = match made {
            Some(made) => stacked(&made, &slots, self.size)?,
            None => as_signed(self.stacked(&slots)?),
        };
        Ok(ids.into_pyarray(py).reshape(shape)?.into_any())
    }

    fn __len__(&self) -> usize {
        self.size
    }
}

/// Arrays are made when they are asked for first. The GIL is held, so nobody comes in between.
fn once<'py>(
    py: Python<'py>,
    kept: &Mutex<Option<Py<PyDict>>>,
    make: impl FnOnce() -> PyResult<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    if let Some(made) = kept.lock().unpoisoned().as_ref() {
        return Ok(made.bind(py).clone());
    }
    let made = make()?;
    *kept.lock().unpoisoned() = Some(made.clone().unbind());
    Ok(made)
}

/// After that: out of the arrays, which may have been changed since.
fn stacked<T: Element + Copy + Default>(made: &Bound<'_, PyDict>, slots: &[String], size: usize) -> PyResult<Vec<T>> {
    type Arrays<'py, T> = (PyReadonlyArray1<'py, T>, PyReadonlyArray1<'py, i64>);
    let one = |slot: &String| made.get_item(slot)?.ok_or_else(|| no_slot(slot))?.extract::<Arrays<'_, T>>();
    let arrays = slots.iter().map(one).collect::<PyResult<Vec<_>>>()?;
    let columns = slots.iter().zip(&arrays).map(|(slot, (values, offsets))| {
        let offsets: &PyReadonlyArray1<'_, i64> = offsets;
        check_single(slot, values.as_slice()?, offsets.as_slice()?, size)
    });
    let found = columns.collect::<PyResult<Vec<_>>>()?;
    Ok(columns::matrix(&found, size))
}

fn no_slot(slot: &str) -> PyErr {
    PyKeyError::new_err(slot.to_string())
}

fn check_single<'a, T>(slot: &str, values: &'a [T], offsets: &[i64], samples: usize) -> PyResult<&'a [T]> {
    let ids = values.len();
    if ids == samples && offsets.len() == samples + 1 && columns::single(offsets) {
        return Ok(values);
    }
    Err(PyValueError::new_err(format!("slot {slot:?} does not have one id per sample: {ids} ids in {samples} samples")))
}

pub(super) fn as_signed(values: Vec<u64>) -> Vec<i64> {
    let mut values = std::mem::ManuallyDrop::new(values);
    // SAFETY: the same memory with the same layout, owned by the new vector alone.
    unsafe { Vec::from_raw_parts(values.as_mut_ptr().cast(), values.len(), values.capacity()) }
}

/// Ctrl-C while a reader waits.
fn signals() -> io::Result<()> {
    Python::attach(|py| py.check_signals()).map_err(io::Error::other)
}

fn exception(py: Python<'_>, fault: Fault) -> PyErr {
    let message = fault.to_string();
    let (kind, file, line, column, token, reason) = match fault {
        Fault::Line { bad, .. } => {
            let bad = *bad;
            ("line", Some(bad.file), Some(bad.line), Some(bad.column), Some(bad.token), bad.reason.name().to_string())
        }
        Fault::File { error, .. } if error.get_ref().is_some_and(|inner| inner.is::<PyErr>()) => {
            return error.into();
        }
        Fault::File { file, error, .. } => ("file", Some(file), None, None, None, error.to_string()),
        Fault::NotText { file, what } => ("not_text", Some(file), None, None, None, what.name().to_string()),
        Fault::Position(text) => ("position", None, None, None, None, text),
        Fault::Asked(text) => ("asked", None, None, None, None, text),
    };
    let made = ReaderError::new_err(message.clone());
    let value = made.value(py);
    let set = || -> PyResult<()> {
        value.setattr("kind", kind)?;
        value.setattr("file", file)?;
        value.setattr("line", line)?;
        value.setattr("column", column)?;
        value.setattr("token", token)?;
        value.setattr("reason", reason)?;
        value.setattr("message", message)
    };
    match set() {
        Ok(()) => made,
        Err(error) => error,
    }
}

/// How many lines there are: the speed of memchr, which no reader can surpass.
#[pyfunction]
fn count_lines(py: Python<'_>, data: &[u8]) -> usize {
    py.detach(|| memchr::memchr_iter(b'\n', data).count())
}

/// The order of a window of a shuffle, for readers in Python: the same as the native reader's.
#[pyfunction]
fn permutation(py: Python<'_>, seed: u64, number: u64, count: u32) -> Bound<'_, PyArray1<u32>> {
    py.detach(|| shuffle::permutation(seed, number, count as usize)).into_pyarray(py)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SlotReader>()?;
    module.add_class::<Batch>()?;
    module.add("ReaderError", module.py().get_type::<ReaderError>())?;
    module.add_function(wrap_pyfunction!(permutation, module)?)?;
    module.add_function(wrap_pyfunction!(count_lines, module)?)
}
