//! MultiSlot text for Python: bytes in, samples out, whose arrays are numpy's. All work is done without the GIL.

use std::sync::Arc;

use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::reader::{ReaderError, as_signed};
use crate::reader::multislot::{self, BadSample, SlotForm};
use crate::reader::samples::{Samples, Values};

/// Reads blocks of whole lines. It keeps nothing between two of them.
#[pyclass(frozen, module = "umiak_native")]
struct MultiSlotParser {
    slots: Vec<SlotForm>,
    texts: usize,
}

#[pymethods]
impl MultiSlotParser {
    #[new]
    #[pyo3(signature = (slots, *, texts=0))]
    fn new(slots: Vec<(bool, usize, bool)>, texts: usize) -> PyResult<Self> {
        if slots.is_empty() {
            return Err(PyValueError::new_err("no slot is asked for"));
        }
        let slots = slots.into_iter();
        let slots = slots.map(|(is_float, dim, drops_zeros)| SlotForm { is_float, dim, drops_zeros }).collect();
        Ok(Self { slots, texts })
    }

    fn parse(&self, py: Python<'_>, text: &[u8]) -> PyResult<(MultiSlotSamples, Option<u64>)> {
        let parsed = py.detach(|| multislot::parse(text, &self.slots, self.texts));
        let parsed = parsed.map_err(|bad| exception(py, bad))?;
        Ok((MultiSlotSamples(Arc::new(parsed.samples)), parsed.surplus))
    }
}

fn exception(py: Python<'_>, bad: BadSample) -> PyErr {
    let mut message = bad.trouble.text().to_string();
    if !bad.token.is_empty() {
        message += &format!(": {:?}", bad.token);
    }
    if !bad.detail.is_empty() {
        message += &format!(" ({})", bad.detail);
    }
    let made = ReaderError::new_err(message.clone());
    let value = made.value(py);
    let set = || -> PyResult<()> {
        value.setattr("kind", "line")?;
        value.setattr("file", py.None())?;
        value.setattr("line", bad.line)?;
        value.setattr("column", bad.column)?;
        value.setattr("slot", bad.slot)?;
        value.setattr("token", bad.token)?;
        value.setattr("reason", bad.trouble.name())?;
        value.setattr("message", message)
    };
    match set() {
        Ok(()) => made,
        Err(error) => error,
    }
}

/// Samples that do not change.
#[pyclass(frozen, module = "umiak_native")]
struct MultiSlotSamples(Arc<Samples>);

#[pymethods]
impl MultiSlotSamples {
    fn __len__(&self) -> usize {
        self.0.size
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.0.bytes()
    }

    fn cut(&self, py: Python<'_>, start: usize, end: usize) -> PyResult<Self> {
        let size = self.0.size;
        if start > end || end > size {
            return Err(PyValueError::new_err(format!("samples {start} to {end} of {size}")));
        }
        if (start, end) == (0, size) {
            return Ok(Self(self.0.clone()));
        }
        Ok(Self(Arc::new(py.detach(|| self.0.cut(start..end)))))
    }

    fn take(&self, py: Python<'_>, picked: PyReadonlyArray1<'_, i64>) -> PyResult<Self> {
        let picked = self.checked(picked.as_slice()?)?;
        Ok(Self(Arc::new(py.detach(|| self.0.take(picked)))))
    }

    fn with_slots_of(&self, py: Python<'_>, slots: Vec<usize>, picked: PyReadonlyArray1<'_, i64>) -> PyResult<Self> {
        let picked = self.checked(picked.as_slice()?)?;
        if picked.len() != self.0.size {
            return Err(PyValueError::new_err(format!("{} samples for {}", picked.len(), self.0.size)));
        }
        Ok(Self(Arc::new(py.detach(|| self.0.with_slots_of(&slots, picked)))))
    }

    #[staticmethod]
    fn join(py: Python<'_>, parts: Vec<Py<Self>>) -> PyResult<Self> {
        let parts: Vec<Arc<Samples>> = parts.iter().map(|part| part.get().0.clone()).collect();
        if parts.windows(2).any(|pair| !pair[0].is_like(&pair[1])) {
            return Err(PyValueError::new_err("samples of other slots"));
        }
        Ok(Self(Arc::new(py.detach(|| Samples::join(&parts.iter().map(|part| &**part).collect::<Vec<_>>())))))
    }

    /// For each slot its values and offsets.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let columns = py.detach(|| self.0.columns.clone());
        let made = PyList::empty(py);
        for column in columns {
            let offsets = column.offsets.into_pyarray(py).into_any();
            let values = match column.values {
                Values::Ids(values) => as_signed(values).into_pyarray(py).into_any(),
                Values::Floats(values) => values.into_pyarray(py).into_any(),
            };
            made.append(PyTuple::new(py, [values, offsets])?)?;
        }
        Ok(made)
    }

    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes = py.detach(|| self.0.encode());
        PyBytes::new(py, &bytes)
    }

    #[staticmethod]
    fn decode(py: Python<'_>, encoded: &[u8]) -> PyResult<Self> {
        let samples = py.detach(|| Samples::decode(encoded));
        samples
            .map(|samples| Self(Arc::new(samples)))
            .ok_or_else(|| PyValueError::new_err("these bytes are no samples"))
    }
}

impl MultiSlotSamples {
    fn checked<'a>(&self, picked: &'a [i64]) -> PyResult<&'a [i64]> {
        match picked.iter().find(|&&at| !usize::try_from(at).is_ok_and(|at| at < self.0.size)) {
            Some(at) => Err(PyValueError::new_err(format!("sample {at} of {}", self.0.size))),
            None => Ok(picked),
        }
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MultiSlotParser>()?;
    module.add_class::<MultiSlotSamples>()
}
