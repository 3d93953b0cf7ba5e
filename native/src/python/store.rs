//! Files of checkpoints for Python: reading shard files as numpy arrays; writing them, and the log, for tests.

use std::path::PathBuf;
use std::time::Duration;

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use serde_json::Value;

use crate::poison::Unpoisoned;
use crate::store::log::{self, Lsn};
use crate::store::manifest::Manifest;
use crate::store::shardfile::{self, ShardHead, ShardWriter};
use crate::store::shardread::{self, Piece, ShardReader};
use crate::store::{StoreError, Trouble};
use crate::table::RowBatch;
use crate::table::differences;
use crate::table::spec::TableSpec;

create_exception!(umiak_native, BadFile, PyValueError);

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let error = module.py().get_type::<BadFile>();
    error.setattr("trouble", "")?;
    error.setattr("file", "")?;
    module.add("BadFile", error)?;
    module.add_class::<ShardFile>()?;
    module.add_class::<Log>()?;
    module.add_function(wrap_pyfunction!(verify_shard_file, module)?)?;
    module.add_function(wrap_pyfunction!(shards_per_file, module)?)?;
    module.add_function(wrap_pyfunction!(write_shard_file, module)?)?;
    module.add_function(wrap_pyfunction!(spec_differences, module)?)?;
    module.add_function(wrap_pyfunction!(layout_differences, module)?)?;
    module.add_function(wrap_pyfunction!(spec_change, module)?)?;
    module.add_function(wrap_pyfunction!(value_columns, module)?)?;
    module.add_function(wrap_pyfunction!(read_manifest, module)?)?;
    module.add_function(wrap_pyfunction!(write_manifest, module)?)?;
    Ok(())
}

fn bad_file(py: Python<'_>, error: &StoreError) -> PyErr {
    let raised = BadFile::new_err(error.to_string());
    let trouble = match error.trouble {
        Trouble::Io(_) => "io",
        Trouble::Foreign => "foreign",
        Trouble::Version => "version",
        Trouble::Torn => "torn",
        Trouble::Damaged => "damaged",
        Trouble::Schema => "schema",
    };
    let value = raised.value(py);
    let told = value.setattr("trouble", trouble).and_then(|()| value.setattr("file", error.file.to_string_lossy()));
    told.err().unwrap_or(raised)
}

/// Turns an error of this crate into an exception, with the GIL held again.
fn told<T>(py: Python<'_>, result: Result<T, StoreError>) -> PyResult<T> {
    result.map_err(|error| bad_file(py, &error))
}

fn parsed<T: serde::de::DeserializeOwned>(what: &str, json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| PyValueError::new_err(format!("{what}: {error}")))
}

#[pyclass(module = "umiak_native")]
struct ShardFile {
    reader: ShardReader,
}

#[pymethods]
impl ShardFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| ShardReader::open(&path));
        Ok(Self { reader: told(py, opened)? })
    }

    #[getter]
    fn shards(&self) -> usize {
        self.reader.head().shards
    }

    #[getter]
    fn shard(&self) -> usize {
        self.reader.head().shard
    }

    #[getter]
    fn count(&self) -> usize {
        self.reader.head().count
    }

    #[getter]
    fn step(&self) -> u64 {
        self.reader.head().step
    }

    #[getter]
    fn about(&self) -> String {
        self.reader.head().about.to_string()
    }

    #[getter]
    fn fingerprint(&self) -> Option<(u64, u32)> {
        self.reader.fingerprint()
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let reader = &mut self.reader;
        match told(py, py.detach(|| reader.next()).transpose())? {
            None => Ok(None),
            Some(Piece::Table(table)) => {
                let spec =
                    serde_json::to_string(&table.spec).map_err(|error| PyValueError::new_err(error.to_string()))?;
                ("table", table.name, spec, table.state.to_string()).into_pyobject(py).map(Some)
            }
            Some(Piece::Rows(batch)) => {
                let width = batch.data.len() / batch.keys.len().max(1);
                let shape = [batch.keys.len(), width];
                let data: Bound<'py, PyArray2<f32>> = PyArray1::from_vec(py, batch.data).reshape(shape)?;
                let (keys, flags) = (PyArray1::from_vec(py, batch.keys), PyArray1::from_vec(py, batch.flags));
                ("rows", keys, flags, data).into_pyobject(py).map(Some)
            }
            Some(Piece::Dense { offset, values, state }) => {
                let (values, state) = (PyArray1::from_vec(py, values), PyArray1::from_vec(py, state));
                ("dense", offset, values, state).into_pyobject(py).map(Some)
            }
        }
    }
}

#[pyfunction]
fn verify_shard_file(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let summary = told(py, py.detach(|| shardread::verify(&path, None)))?;
    serde_json::to_string(&summary).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pyfunction]
fn shards_per_file(size_bytes: u64, shards: usize) -> usize {
    shardfile::shards_per_file(size_bytes, shards)
}

#[pyfunction]
fn spec_differences(file: &str, table: &str) -> PyResult<Vec<String>> {
    Ok(differences::differences(&parsed("the file's spec", file)?, &parsed("the table's spec", table)?))
}

#[pyfunction]
fn layout_differences(file: &str, table: &str) -> PyResult<Vec<String>> {
    Ok(differences::layout_differences(&parsed("the file's spec", file)?, &parsed("the table's spec", table)?))
}

#[pyfunction]
fn spec_change(name: &str, old: &str, new: &str) -> PyResult<Option<String>> {
    Ok(differences::change(name, &parsed("the old spec", old)?, &parsed("the new spec", new)?))
}

#[pyfunction]
fn value_columns(spec: &str) -> PyResult<(usize, usize)> {
    match parsed("spec", spec)? {
        TableSpec::Dense(_) => Err(PyValueError::new_err("a dense table has no rows")),
        TableSpec::Sparse(spec) => {
            let begin = spec.accessor.map_or(0, |accessor| accessor.head_width());
            Ok((begin, begin + spec.dim))
        }
    }
}

#[pyfunction]
fn read_manifest(py: Python<'_>, directory: PathBuf) -> PyResult<String> {
    let manifest = told(py, Manifest::read(&directory))?;
    serde_json::to_string(&manifest).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pyfunction]
fn write_manifest(directory: PathBuf, manifest: &str) -> PyResult<()> {
    let manifest: Manifest = parsed("manifest", manifest)?;
    Ok(manifest.write(&directory)?)
}

#[derive(FromPyObject)]
enum PyPiece<'py> {
    Dense(u64, PyReadonlyArray1<'py, f32>, PyReadonlyArray1<'py, f32>),
    Rows(PyReadonlyArray1<'py, u64>, PyReadonlyArray1<'py, u32>, PyReadonlyArray2<'py, f32>),
}

#[pyfunction]
#[pyo3(signature = (directory, name, head, tables))]
fn write_shard_file(
    py: Python<'_>,
    directory: PathBuf,
    name: &str,
    head: &str,
    tables: Vec<(String, String, String, Vec<PyPiece<'_>>)>,
) -> PyResult<String> {
    let head: ShardHead = parsed("head", head)?;
    let mut writer = ShardWriter::create(&directory, name, &head)?;
    for (name, spec, state, pieces) in tables {
        let spec: TableSpec = parsed("spec", &spec)?;
        let state: Value = parsed("state", &state)?;
        writer.table(&name, &spec, &state)?;
        for piece in pieces {
            match piece {
                PyPiece::Dense(offset, values, state) => writer.dense(offset, values.as_slice()?, state.as_slice()?)?,
                PyPiece::Rows(keys, flags, data) => {
                    if data.shape()[0] != keys.len() {
                        return Err(PyValueError::new_err("as many rows as keys are needed"));
                    }
                    let (keys, flags) = (keys.as_slice()?.to_vec(), flags.as_slice()?.to_vec());
                    writer.rows(&RowBatch { keys, flags, data: data.as_slice()?.to_vec() })?;
                }
            }
        }
    }
    // Other threads write other files meanwhile: the disk makes several of them last at once.
    let summary = py.detach(|| writer.finish())?;
    serde_json::to_string(&summary).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pyclass(module = "umiak_native", frozen)]
struct Log {
    log: std::sync::Mutex<Option<std::sync::Arc<log::Log>>>,
}

impl Log {
    /// A share of the log, so that nothing is locked while somebody waits.
    fn open_log(&self) -> PyResult<std::sync::Arc<log::Log>> {
        let held = self.log.lock().unpoisoned();
        held.clone().ok_or_else(|| PyValueError::new_err("the log is closed"))
    }
}

#[pymethods]
impl Log {
    #[new]
    fn new(py: Python<'_>, directory: PathBuf, interval_ms: u64) -> PyResult<Self> {
        let opened = py.detach(|| log::Log::open(&directory, Duration::from_millis(interval_ms)));
        let log = std::sync::Arc::new(told(py, opened)?);
        Ok(Self { log: std::sync::Mutex::new(Some(log)) })
    }

    #[staticmethod]
    #[pyo3(signature = (directory, first = 1))]
    #[allow(clippy::type_complexity)] // a tuple is what Python gets
    fn replay<'py>(
        py: Python<'py>,
        directory: PathBuf,
        first: Lsn,
    ) -> PyResult<(Vec<(Lsn, Bound<'py, PyBytes>)>, Option<(String, u64, u64)>)> {
        let mut records = Vec::new();
        let replayed = py.detach(|| {
            log::replay(&directory, first, &mut |lsn, record| {
                records.push((lsn, record.to_vec()));
                Ok(())
            })
        });
        let torn = told(py, replayed)?.torn;
        let torn = torn.map(|(file, at, bytes)| (file.to_string_lossy().into_owned(), at, bytes));
        Ok((records.into_iter().map(|(lsn, record)| (lsn, PyBytes::new(py, &record))).collect(), torn))
    }

    fn append(&self, py: Python<'_>, record: &[u8]) -> PyResult<Lsn> {
        let log = self.open_log()?;
        py.detach(|| log.append(&[record])).map_err(PyValueError::new_err)
    }

    fn wait_durable(&self, py: Python<'_>, lsn: Lsn) -> PyResult<()> {
        let log = self.open_log()?;
        py.detach(|| log.wait_durable(lsn)).map_err(PyValueError::new_err)
    }

    fn rotate(&self) -> PyResult<Lsn> {
        Ok(self.open_log()?.rotate())
    }

    fn drop_before(&self, lsn: Lsn) -> PyResult<usize> {
        self.open_log()?.drop_before(lsn).map_err(PyValueError::new_err)
    }

    #[getter]
    fn durable(&self) -> PyResult<Lsn> {
        Ok(self.open_log()?.durable())
    }

    #[getter]
    fn last(&self) -> PyResult<Lsn> {
        Ok(self.open_log()?.last())
    }

    #[getter]
    fn failure(&self) -> PyResult<Option<String>> {
        Ok(self.open_log()?.failure())
    }

    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.open_log()?.bytes())
    }

    fn close(&self, py: Python<'_>) {
        let log = self.log.lock().unpoisoned().take();
        py.detach(|| drop(log));
    }
}
