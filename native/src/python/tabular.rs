//! Readers of tables for Python: what is asked for comes as names, batches go out as numpy arrays that own their memory.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use numpy::IntoPyArray;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::reader::as_signed;
use crate::poison::Unpoisoned;
use crate::tabular::asked::{Asked, Want};
use crate::tabular::batches::Batch;
use crate::tabular::columns::{Column, Data};
use crate::tabular::csv::{self, Dialect};
use crate::tabular::csv_rows::CsvRows;
use crate::tabular::fault::Fault;
use crate::tabular::lines;
use crate::tabular::parquet::file;
use crate::tabular::ranges::{LocalFile, Ranges};
use crate::tabular::scan::Marks;
use crate::tabular::texts::TextPart;

create_exception!(
    umiak_native,
    TableError,
    PyValueError,
    "A table can't be read. It has the fields kind, file, group, row, line, column, value, reason and message."
);

/// What lies behind a URL: Python fetches pieces of it.
struct Remote {
    size: u64,
    read: Py<PyAny>,
}

impl Ranges for Remote {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        Python::attach(|py| {
            let failure = |error: PyErr| {
                if error.is_instance_of::<PyException>(py) {
                    io::Error::other(error.value(py).to_string())
                } else {
                    error.into()
                }
            };
            let got = self.read.bind(py).call1((at, into.len())).map_err(failure)?;
            let got = got.cast::<PyBytes>().map_err(|_| io::Error::other("no bytes were given"))?.as_bytes();
            if got.len() != into.len() {
                return Err(io::Error::other(format!("{} bytes of {} arrived", got.len(), into.len())));
            }
            into.copy_from_slice(got);
            Ok(())
        })
    }

    fn piece(&self) -> usize {
        2 << 20
    }
}

/// Where bytes come from: a path, or a size and a function of a place and a count.
#[derive(FromPyObject)]
enum GivenBytes {
    Path(String),
    Remote(u64, Py<PyAny>),
}

impl GivenBytes {
    fn open(self) -> Result<Arc<dyn Ranges>, Fault> {
        Ok(match self {
            Self::Path(path) => Arc::new(LocalFile::open(Path::new(&path))?),
            Self::Remote(size, read) => Arc::new(Remote { size, read }),
        })
    }
}

/// What columns are asked for, by name and kind. Behind the kind, `[]` says that each value is a list, and `[|]` that `|` stands
/// between its elements.
pub fn asked(columns: Vec<(String, String)>) -> PyResult<Vec<Asked>> {
    let one = |(name, kind): (String, String)| {
        let (word, list) = kind.split_once('[').map_or((kind.as_str(), None), |(word, list)| (word, Some(list)));
        let want = match word {
            "values" => Want::Values,
            "ids" => Want::Ids,
            "numeric_ids" => Want::NumericIds,
            "numbers" => Want::Numbers,
            "texts" => Want::Texts,
            "numeric_texts" => Want::NumericTexts,
            _ => {
                let text =
                    format!("values, ids, numeric_ids, numbers, texts or numeric_texts is expected, not {kind:?}");
                return Err(PyValueError::new_err(text));
            }
        };
        let separator = match list.map(str::as_bytes) {
            None | Some([b']']) => 0,
            Some([separator, b']']) => *separator,
            Some(_) => return Err(PyValueError::new_err(format!("one byte is expected between brackets: {kind:?}"))),
        };
        Ok(Asked { name, want, lists: list.is_some(), separator })
    };
    columns.into_iter().map(one).collect()
}

fn dialect(delimiter: u8, quote: Option<u8>, names: Option<Vec<String>>) -> PyResult<Dialect> {
    let is_wrong = |byte: u8| matches!(byte, b'\n' | b'\r' | 0x80..);
    if is_wrong(delimiter) || quote.is_some_and(|quote| is_wrong(quote) || quote == delimiter) {
        return Err(PyValueError::new_err("delimiter and quote are two different ASCII characters, no newlines"));
    }
    Ok(Dialect { marks: Marks { delimiter, quote }, names })
}

/// The names of a CSV file's columns, out of its first row.
#[pyfunction]
fn csv_names(
    py: Python<'_>,
    name: &str,
    source: GivenBytes,
    delimiter: u8,
    quote: Option<u8>,
) -> PyResult<Vec<String>> {
    let dialect = dialect(delimiter, quote, None)?;
    let found = py.detach(|| csv::names(name, &source.open()?, &dialect));
    found.map_err(|fault| exception(py, fault))
}

/// Where rows of a CSV file begin, each the first at or behind a multiple of so many bytes.
#[pyfunction]
fn csv_cuts(
    py: Python<'_>,
    name: &str,
    source: GivenBytes,
    delimiter: u8,
    quote: Option<u8>,
    every: u64,
) -> PyResult<Vec<u64>> {
    let dialect = dialect(delimiter, quote, None)?;
    let found = py.detach(|| csv::cuts(name, &source.open()?, dialect.marks, every.max(1)));
    found.map_err(|fault| exception(py, fault))
}

/// The rows of a text file that begin in a range of bytes: CSV with its delimiter, its quote and the names of its columns, or JSON
/// lines.
#[pyfunction]
#[pyo3(signature = (name, source, columns, csv=None, start=0, end=None, missing=Vec::new(), first=0, pass_bad=false))]
#[expect(clippy::too_many_arguments, reason = "by name")]
fn text_rows(
    py: Python<'_>,
    name: &str,
    source: GivenBytes,
    columns: Vec<(String, String)>,
    csv: Option<(u8, Option<u8>, Option<Vec<String>>)>,
    start: u64,
    end: Option<u64>,
    missing: Vec<Vec<u8>>,
    first: u64,
    pass_bad: bool,
) -> PyResult<TableRows> {
    let asked = asked(columns)?;
    let csv = csv.map(|(delimiter, quote, names)| dialect(delimiter, quote, names)).transpose()?;
    let opened = py.detach(|| {
        let from = source.open()?;
        let missing = Arc::new(missing);
        let part = TextPart { name, from, start, end, first, asked: &asked, missing, pass_bad };
        Ok(match csv {
            Some(dialect) => Rows::Csv(CsvRows::open(&part, &dialect)?),
            None => Rows::Lines(lines::LineRows::open(&part)?),
        })
    });
    let rows = opened.map_err(|fault| exception(py, fault))?;
    Ok(TableRows { reader: Mutex::new(rows) })
}

/// A Parquet file: its schema, and its row groups.
#[pyclass(frozen, module = "umiak_native")]
struct ParquetFile {
    file: file::ParquetFile,
}

#[pymethods]
impl ParquetFile {
    #[new]
    fn new(py: Python<'_>, name: &str, source: GivenBytes) -> PyResult<Self> {
        let opened = py.detach(|| source.open().and_then(|from| file::ParquetFile::open(name, from)));
        Ok(Self { file: opened.map_err(|fault| exception(py, fault))? })
    }

    /// Of each row group, its rows and its bytes.
    #[getter]
    fn groups(&self) -> Vec<(u64, u64)> {
        self.file.footer.groups.iter().map(|group| (group.rows, group.bytes)).collect()
    }

    /// Of each column its name, the kind of its values, whether they are in lists, and why it can't be read.
    #[getter]
    fn columns(&self) -> Vec<(String, String, bool, Option<&'static str>)> {
        let one = |leaf: &crate::tabular::parquet::schema::Leaf| {
            (leaf.name.clone(), leaf.kind.name(), leaf.most_repeated > 0, leaf.refused)
        };
        self.file.leaves.iter().map(one).collect()
    }

    #[getter]
    fn writer(&self) -> &str {
        &self.file.footer.writer
    }

    #[pyo3(signature = (group, columns, missing=Vec::new(), first=0, pass_bad=false))]
    fn rows(
        &self,
        py: Python<'_>,
        group: usize,
        columns: Vec<(String, String)>,
        missing: Vec<Vec<u8>>,
        first: u64,
        pass_bad: bool,
    ) -> PyResult<TableRows> {
        let asked = asked(columns)?;
        let made = py.detach(|| self.file.group(group, &asked, &Arc::new(missing), first, pass_bad));
        let reader = made.map_err(|fault| exception(py, fault))?;
        Ok(TableRows { reader: Mutex::new(Rows::Group(reader)) })
    }
}

enum Rows {
    Group(file::GroupReader),
    Csv(CsvRows),
    Lines(lines::LineRows),
}

impl Rows {
    fn next_batch(&mut self, most: usize) -> Result<Option<Batch>, Fault> {
        match self {
            Self::Group(reader) => reader.next_batch(most),
            Self::Csv(reader) => reader.next_batch(most),
            Self::Lines(reader) => reader.next_batch(most),
        }
    }
}

/// The rows of a part of a table, a batch at a time.
#[pyclass(frozen, module = "umiak_native")]
struct TableRows {
    reader: Mutex<Rows>,
}

#[pymethods]
impl TableRows {
    /// Up to so many rows, or None behind the last one: (number of the first row, rows read, bad ones among them, exceptions
    /// of some of these, columns). A column is (values, state, offsets, state of lists).
    fn next_batch<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        if rows == 0 {
            return Err(PyValueError::new_err("a batch has 1 row at least"));
        }
        let next = py.detach(|| self.reader.lock().unpoisoned().next_batch(rows));
        let Some(batch) = next.map_err(|fault| exception(py, fault))? else { return Ok(None) };
        let columns = batch.columns.into_iter().map(|column| arrays(py, column)).collect::<PyResult<Vec<_>>>()?;
        let told: Vec<PyErr> = batch.told.into_iter().map(|fault| exception(py, fault)).collect();
        let told: Vec<_> = told.into_iter().map(|error| error.into_value(py)).collect();
        Ok(Some((batch.first, batch.read, batch.bad, told, columns).into_pyobject(py)?.into_any()))
    }
}

pub fn arrays(py: Python<'_>, column: Column) -> PyResult<Bound<'_, PyAny>> {
    let values = match column.data {
        Data::Ids(values) | Data::UInts(values) => values.into_pyarray(py).into_any(),
        Data::Numbers(values) | Data::Floats64(values) => values.into_pyarray(py).into_any(),
        Data::Bools(values) => values.into_pyarray(py).call_method1("view", ("bool",))?,
        Data::Ints(values) => values.into_pyarray(py).into_any(),
        Data::Floats32(values) => values.into_pyarray(py).into_any(),
        Data::Texts(ends, bytes) => {
            (offsets(ends).into_pyarray(py), bytes.into_pyarray(py)).into_pyobject(py)?.into_any()
        }
    };
    let lists = column.lists.map(|lists| (offsets(lists.ends).into_pyarray(py), lists.missing.into_pyarray(py)));
    let (offsets, missing) = lists.unzip();
    Ok((values, column.state.into_pyarray(py), offsets, missing).into_pyobject(py)?.into_any())
}

/// Where each begins, and where the last one ends.
fn offsets(mut ends: Vec<u64>) -> Vec<i64> {
    ends.insert(0, 0);
    as_signed(ends)
}

pub fn exception(py: Python<'_>, fault: Fault) -> PyErr {
    let message = fault.to_string();
    let fault = fault.detail();
    let made = TableError::new_err(message.clone());
    let value = made.value(py);
    let set = || -> PyResult<()> {
        value.setattr("kind", fault.kind.name())?;
        value.setattr("file", fault.file)?;
        value.setattr("group", fault.group)?;
        value.setattr("row", fault.row)?;
        value.setattr("line", fault.line)?;
        value.setattr("column", fault.column)?;
        value.setattr("value", fault.value)?;
        value.setattr("reason", fault.text)?;
        value.setattr("message", message)
    };
    match set() {
        Ok(()) => made,
        Err(error) => error,
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ParquetFile>()?;
    module.add_class::<TableRows>()?;
    module.add_function(wrap_pyfunction!(csv_names, module)?)?;
    module.add_function(wrap_pyfunction!(csv_cuts, module)?)?;
    module.add_function(wrap_pyfunction!(text_rows, module)?)?;
    module.add("TableError", module.py().get_type::<TableError>())
}
