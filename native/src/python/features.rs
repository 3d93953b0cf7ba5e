//! Features for Python: kernels over whole columns, and columns made of Python's own values.

use std::sync::{Arc, Mutex};

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::tabular::{arrays, asked, exception};
use crate::features::ids;
use crate::features::numbers::{self, Step};
use crate::features::sketch::NumberSketch as Sketch;
use crate::features::words::WordCounts as Counts;
use crate::poison::Unpoisoned;
use crate::tabular::asked::{Asked, Kind, Want};
use crate::tabular::batches::{Place, without_bad};
use crate::tabular::canon;
use crate::tabular::columns::Column;
use crate::tabular::filler::{Filler, Raw};
use crate::xxhash::xxh64;

type Ids<'py> = PyReadonlyArray1<'py, u64>;
type States<'py> = PyReadonlyArray1<'py, bool>;
type Numbers<'py> = PyReadonlyArray1<'py, f64>;
type NewIds<'py> = Bound<'py, PyArray1<u64>>;
type NewStates<'py> = Bound<'py, PyArray1<bool>>;
type NewInts<'py> = Bound<'py, PyArray1<i64>>;

/// What the ids of a table are spread with.
#[pyfunction]
fn feature_seed(table: &str) -> u64 {
    ids::seed_of(table)
}

/// Numbers of one table among those of all tables: padding stays 0.
#[pyfunction]
fn feature_spread<'py>(py: Python<'py>, numbers: Ids<'py>, seed: u64) -> PyResult<NewIds<'py>> {
    let numbers = numbers.as_slice()?;
    Ok(py.detach(|| numbers.iter().map(|&number| ids::spread(number, seed)).collect::<Vec<_>>()).into_pyarray(py))
}

fn same_length(one: usize, other: usize) -> PyResult<()> {
    match one == other {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!("{one} values, and {other} marks of missing ones"))),
    }
}

/// The ids of an open table.
#[pyfunction]
fn feature_open<'py>(py: Python<'py>, ids: Ids<'py>, missing: States<'py>, seed: u64) -> PyResult<NewIds<'py>> {
    let (ids, missing) = (ids.as_slice()?, missing.as_slice()?);
    same_length(ids.len(), missing.len())?;
    Ok(py.detach(|| ids::open(ids, missing, seed)).into_pyarray(py))
}

/// Ids in buckets.
#[pyfunction]
fn feature_buckets<'py>(py: Python<'py>, ids: Ids<'py>, missing: States<'py>, count: u64) -> PyResult<NewIds<'py>> {
    let (ids, missing) = (ids.as_slice()?, missing.as_slice()?);
    same_length(ids.len(), missing.len())?;
    Ok(py.detach(|| ids::buckets(ids, missing, count)).into_pyarray(py))
}

/// The ranges between boundaries.
#[pyfunction]
fn feature_ranges<'py>(py: Python<'py>, numbers: Numbers<'py>, boundaries: Numbers<'py>) -> PyResult<NewIds<'py>> {
    let (numbers, boundaries) = (numbers.as_slice()?, boundaries.as_slice()?);
    Ok(py.detach(|| ids::ranges(numbers, boundaries)).into_pyarray(py))
}

/// The hashes of numbers' canonical texts, and which of them are missing.
#[pyfunction]
fn feature_number_ids<'py>(py: Python<'py>, numbers: Numbers<'py>) -> PyResult<(NewIds<'py>, NewStates<'py>)> {
    let numbers = numbers.as_slice()?;
    let (ids, missing) = py.detach(|| ids::of_numbers(numbers));
    Ok((ids.into_pyarray(py), missing.into_pyarray(py)))
}

/// The ids of texts that lie end to end: their hashes, and 0 where nothing is there.
#[pyfunction]
fn feature_text_ids<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArray1<'py, i64>,
    texts: PyReadonlyArray1<'py, u8>,
    missing: States<'py>,
) -> PyResult<NewIds<'py>> {
    let (offsets, bytes, missing) = (offsets.as_slice()?, texts.as_slice()?, missing.as_slice()?);
    same_length(offsets.len().saturating_sub(1), missing.len())?;
    let id = |(pair, &missing): (&[i64], &bool)| {
        let place = usize::try_from(pair[0]).ok().zip(usize::try_from(pair[1]).ok());
        let text = place.and_then(|(start, end)| bytes.get(start..end))?;
        Some(if missing { 0 } else { xxh64(text, 0) })
    };
    let ids: Option<Vec<u64>> = py.detach(|| offsets.windows(2).zip(missing).map(id).collect());
    let ids = ids.ok_or_else(|| PyValueError::new_err("a text beyond the end of the bytes"))?;
    Ok(ids.into_pyarray(py))
}

/// The hash of several columns' ids, and which of them are missing.
#[pyfunction]
fn feature_crossed<'py>(
    py: Python<'py>,
    parts: Vec<(Ids<'py>, States<'py>)>,
) -> PyResult<(NewIds<'py>, NewStates<'py>)> {
    let mut slices = Vec::with_capacity(parts.len());
    for (ids, missing) in &parts {
        let (ids, missing) = (ids.as_slice()?, missing.as_slice()?);
        same_length(ids.len(), missing.len())?;
        if slices.first().is_some_and(|&(first, _): &(&[u64], &[bool])| first.len() != ids.len()) {
            return Err(PyValueError::new_err("the parts of a cross have as many rows"));
        }
        slices.push((ids, missing));
    }
    let (ids, missing) = py.detach(|| ids::crossed(&slices));
    Ok((ids.into_pyarray(py), missing.into_pyarray(py)))
}

/// The places of the last or the first elements of lists, and how many each row has.
#[pyfunction]
fn feature_ends<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArray1<'py, i64>,
    most: usize,
    last: bool,
) -> PyResult<(NewInts<'py>, NewInts<'py>)> {
    let offsets = offsets.as_slice()?;
    let (places, lengths) = py.detach(|| ids::ends(offsets, most, last));
    Ok((places.into_pyarray(py), lengths.into_pyarray(py)))
}

/// Numbers after some steps, each a name with two numbers. NaN is missing, and becomes `fill`.
#[pyfunction]
#[pyo3(signature = (numbers, fill, steps))]
fn feature_transformed<'py>(
    py: Python<'py>,
    numbers: Numbers<'py>,
    fill: Option<f64>,
    steps: Vec<(String, f64, f64)>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let one = |(name, first, second): (String, f64, f64)| {
        Step::named(&name, first, second).ok_or_else(|| PyValueError::new_err(format!("no such transform: {name}")))
    };
    let steps = steps.into_iter().map(one).collect::<PyResult<Vec<_>>>()?;
    let numbers = numbers.as_slice()?;
    Ok(py.detach(|| numbers::transformed(numbers, fill, &steps)).into_pyarray(py))
}

/// Words by the hashes of their texts.
#[pyclass(frozen, module = "umiak_native")]
struct Vocabulary {
    words: ids::Vocabulary,
}

#[pymethods]
impl Vocabulary {
    #[new]
    fn new(ids: Ids<'_>, oov: u64) -> PyResult<Self> {
        let words = ids::Vocabulary::new(ids.as_slice()?, oov)
            .map_err(|(one, other)| PyValueError::new_err(format!("the words {one} and {other} have the same hash")))?;
        Ok(Self { words })
    }

    fn numbers<'py>(&self, py: Python<'py>, ids: Ids<'py>, missing: States<'py>) -> PyResult<NewIds<'py>> {
        let (ids, missing) = (ids.as_slice()?, missing.as_slice()?);
        same_length(ids.len(), missing.len())?;
        Ok(py.detach(|| self.words.numbers(ids, missing)).into_pyarray(py))
    }
}

/// Words counted.
#[pyclass(frozen, module = "umiak_native")]
struct WordCounts {
    counts: Mutex<Counts>,
}

#[pymethods]
impl WordCounts {
    #[new]
    fn new() -> Self {
        Self { counts: Mutex::default() }
    }

    /// Texts end to end; missing ones count as `fill`, or not.
    #[pyo3(signature = (offsets, texts, missing, fill=None))]
    fn add(
        &self,
        py: Python<'_>,
        offsets: PyReadonlyArray1<'_, i64>,
        texts: PyReadonlyArray1<'_, u8>,
        missing: States<'_>,
        fill: Option<&[u8]>,
    ) -> PyResult<()> {
        let (offsets, bytes, missing) = (offsets.as_slice()?, texts.as_slice()?, missing.as_slice()?);
        same_length(offsets.len().saturating_sub(1), missing.len())?;
        let add = || {
            let mut counts = self.counts.lock().unpoisoned();
            for (pair, &missing) in offsets.windows(2).zip(missing) {
                let word = usize::try_from(pair[0]).ok().zip(usize::try_from(pair[1]).ok());
                match (word.and_then(|(start, end)| bytes.get(start..end)), missing) {
                    (Some(word), false) => counts.add(word, 1),
                    (_, true) => counts.add(fill.unwrap_or_default(), u64::from(fill.is_some())),
                    (None, false) => return Err(PyValueError::new_err("a text beyond the end of the bytes")),
                }
            }
            Ok(())
        };
        py.detach(add)
    }

    /// The canonical texts of numbers; NaN is missing.
    fn add_numbers(&self, py: Python<'_>, numbers: Numbers<'_>) -> PyResult<()> {
        let numbers = numbers.as_slice()?;
        py.detach(|| {
            let mut counts = self.counts.lock().unpoisoned();
            let mut text = Vec::new();
            for number in numbers.iter().filter(|number| !number.is_nan()) {
                text.clear();
                canon::f64_text(*number, &mut text);
                counts.add(&text, 1);
            }
        });
        Ok(())
    }

    fn merge(&self, py: Python<'_>, other: &Self) {
        if !std::ptr::eq(self, other) {
            py.detach(|| self.counts.lock().unpoisoned().merge(&other.counts.lock().unpoisoned()));
        }
    }

    /// As bytes, for another process to `take`, in pieces of about so many bytes.
    fn packed<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyList>> {
        let pieces = py.detach(|| self.counts.lock().unpoisoned().packed(most));
        PyList::new(py, pieces.iter().map(|piece| PyBytes::new(py, piece)))
    }

    fn take(&self, py: Python<'_>, packed: &[u8]) -> PyResult<()> {
        match py.detach(|| self.counts.lock().unpoisoned().take(packed)) {
            true => Ok(()),
            false => Err(PyValueError::new_err("words that are not whole")),
        }
    }

    fn __len__(&self) -> usize {
        self.counts.lock().unpoisoned().len()
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.counts.lock().unpoisoned().bytes()
    }

    /// Words that came at least so often with their counts, the most frequent first, of equally frequent ones by their bytes.
    #[pyo3(signature = (least=1))]
    fn sorted<'py>(&self, py: Python<'py>, least: u64) -> PyResult<Bound<'py, PyList>> {
        let counts = self.counts.lock().unpoisoned();
        let words = counts.sorted(least).into_iter().map(|(word, count)| (PyBytes::new(py, word), count));
        PyList::new(py, words.collect::<Vec<_>>())
    }
}

/// What is to be known of numbers.
#[pyclass(frozen, module = "umiak_native")]
struct NumberSketch {
    sketch: Mutex<Sketch>,
}

type Sums = (i32, i128, u128, u128, u128);

#[pymethods]
impl NumberSketch {
    #[new]
    fn new(quantiles: bool) -> Self {
        Self { sketch: Mutex::new(Sketch::new(quantiles)) }
    }

    /// NaN is missing.
    fn add(&self, py: Python<'_>, numbers: Numbers<'_>) -> PyResult<()> {
        let numbers = numbers.as_slice()?;
        py.detach(|| self.sketch.lock().unpoisoned().add(numbers));
        Ok(())
    }

    fn merge(&self, py: Python<'_>, other: &Self) {
        if !std::ptr::eq(self, other) {
            py.detach(|| self.sketch.lock().unpoisoned().merge(&other.sketch.lock().unpoisoned()));
        }
    }

    /// As bytes, for another process to `take`.
    fn packed<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let packed = py.detach(|| self.sketch.lock().unpoisoned().packed());
        PyBytes::new(py, &packed)
    }

    fn take(&self, py: Python<'_>, packed: &[u8]) -> PyResult<()> {
        let other = Sketch::unpacked(packed).ok_or_else(|| PyValueError::new_err("numbers that are not whole"))?;
        py.detach(|| self.sketch.lock().unpoisoned().merge(&other));
        Ok(())
    }

    /// How many numbers, missing ones and infinite ones there are, the lowest and the highest.
    #[getter]
    fn counts(&self) -> (u64, u64, u64, f64, f64) {
        let sketch = self.sketch.lock().unpoisoned();
        (sketch.count, sketch.missing, sketch.infinite, sketch.minimum, sketch.maximum)
    }

    /// For each exponent of two the sum of the whole numbers, and of their squares in parts: high, middle and low with 27 bits each.
    #[getter]
    fn sums(&self) -> Vec<Sums> {
        let sketch = self.sketch.lock().unpoisoned();
        sketch.sums.iter().map(|(&at, sums)| (at, sums.sum, sums.high, sums.middle, sums.low)).collect()
    }

    /// Different values in ascending order, how often each came, and whether they are cells of near ones.
    fn values<'py>(&self, py: Python<'py>) -> (Bound<'py, PyArray1<f64>>, NewIds<'py>, bool) {
        let sketch = self.sketch.lock().unpoisoned();
        let (values, counts): (Vec<f64>, Vec<u64>) = sketch.values().into_iter().unzip();
        (values.into_pyarray(py), counts.into_pyarray(py), sketch.in_cells)
    }
}

/// A column of Python's own values, as the readers of tables make one of a file's.
#[pyfunction]
#[pyo3(signature = (name, values, kind, missing=Vec::new()))]
fn feature_column<'py>(
    py: Python<'py>,
    name: &str,
    values: &Bound<'py, PyList>,
    kind: String,
    missing: Vec<Vec<u8>>,
) -> PyResult<Bound<'py, PyAny>> {
    let asked = asked(vec![(name.into(), kind)])?.remove(0);
    let mut made = Values::new(asked, missing);
    for (row, value) in values.iter().enumerate() {
        made.row(&value).map_err(|error| PyTypeError::new_err(format!("row {row}: {}", error.value(py))))?;
    }
    made.column.check_text().map_err(PyValueError::new_err)?;
    let place = Place { file: "request", group: None, lines: &[] };
    let clean = without_bad(place, 0, values.len(), &[name], vec![made.column], false);
    let mut batch = clean.map_err(|fault| exception(py, fault))?;
    arrays(py, batch.columns.remove(0))
}

/// A column, and what fills it with values of each kind.
struct Values {
    column: Column,
    lists: bool,
    texts: Filler,
    /// Of whole numbers that are too large for 64 bits.
    digits: Filler,
    truths: Filler,
    ints: Filler,
    floats: Filler,
}

impl Values {
    fn new(asked: Asked, missing: Vec<Vec<u8>>) -> Self {
        let none = Arc::new(Vec::new());
        let filler = |kind| Filler::new(kind, asked.want, none.clone());
        let digits = match asked.want {
            Want::Ids => Want::NumericIds,
            Want::Texts => Want::NumericTexts,
            want => want,
        };
        let texts = Filler::new(Kind::Text, asked.want, Arc::new(missing));
        Self {
            column: texts.column(asked.lists),
            lists: asked.lists,
            digits: Filler::new(Kind::Text, digits, none.clone()),
            truths: filler(Kind::Bool),
            ints: filler(Kind::Int),
            floats: filler(Kind::Float64),
            texts,
        }
    }

    fn row(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if !self.lists {
            return self.one(value);
        }
        let is_missing = value.is_none();
        if let Ok(list) = value.cast::<PyList>() {
            list.iter().try_for_each(|each| self.one(&each))?;
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            tuple.iter().try_for_each(|each| self.one(&each))?;
        } else if !is_missing {
            return Err(PyTypeError::new_err(format!("a list is expected, not {}", kind_of(value))));
        }
        let length = self.column.state.len();
        if let Some(lists) = &mut self.column.lists {
            lists.push(length, is_missing);
        }
        Ok(())
    }

    fn one(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let column = &mut self.column;
        if value.is_none() {
            column.pad(1);
        } else if let Ok(text) = value.cast::<PyString>() {
            let text = text.to_cow()?;
            fill_text(&mut self.texts, text.as_bytes(), column)?;
        } else if let Ok(truth) = value.cast::<PyBool>() {
            self.truths.fill(Raw::Bools(&[u8::from(truth.is_true())]), column);
        } else if value.cast::<PyInt>().is_ok() {
            match value.extract::<i64>() {
                Ok(number) => self.ints.fill(Raw::Ints(&[number]), column),
                Err(_) => fill_text(&mut self.digits, value.str()?.to_cow()?.as_bytes(), column)?,
            }
        } else if let Ok(number) = value.cast::<PyFloat>() {
            self.floats.fill(Raw::Floats64(&[number.value()]), column);
        } else if let Ok(bytes) = value.cast::<PyBytes>() {
            fill_text(&mut self.texts, bytes.as_bytes(), column)?;
        } else {
            return Err(PyTypeError::new_err(format!(
                "a text, a number, a truth or nothing is expected, not {}",
                kind_of(value)
            )));
        }
        Ok(())
    }
}

fn fill_text(filler: &mut Filler, text: &[u8], column: &mut Column) -> PyResult<()> {
    let length = u32::try_from(text.len()).map_err(|_| PyValueError::new_err("a text of more than 4 GiB"))?;
    filler.fill(Raw::Bytes(text, &[(0, length)]), column);
    Ok(())
}

fn kind_of(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "that".into(), |name| name.to_string())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Vocabulary>()?;
    module.add_class::<WordCounts>()?;
    module.add_class::<NumberSketch>()?;
    module.add_function(wrap_pyfunction!(feature_seed, module)?)?;
    module.add_function(wrap_pyfunction!(feature_spread, module)?)?;
    module.add_function(wrap_pyfunction!(feature_open, module)?)?;
    module.add_function(wrap_pyfunction!(feature_buckets, module)?)?;
    module.add_function(wrap_pyfunction!(feature_ranges, module)?)?;
    module.add_function(wrap_pyfunction!(feature_number_ids, module)?)?;
    module.add_function(wrap_pyfunction!(feature_text_ids, module)?)?;
    module.add_function(wrap_pyfunction!(feature_crossed, module)?)?;
    module.add_function(wrap_pyfunction!(feature_ends, module)?)?;
    module.add_function(wrap_pyfunction!(feature_transformed, module)?)?;
    module.add_function(wrap_pyfunction!(feature_column, module)?)
}
