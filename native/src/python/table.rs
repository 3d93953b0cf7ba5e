//! Tables in this process, and what is done with keys and rows before and after.

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::gather::{self, Pooling};
use crate::keys::{self, Sharding};
use crate::python::arrays::{Floats, Keys, Rows};
use crate::table::differences::layout_differences;
use crate::table::kernels::{self, Variant};
use crate::table::rules;
use crate::table::spec::{SaveMode, TableSpec};
use crate::table::{Absent, DenseTable, RowBatch, SparseTable};

type KeysAndRows<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray2<f32>>);
type ScannedRows<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray2<f32>>);

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyTable>()?;
    module.add_class::<PyDenseTable>()?;
    module.add_function(wrap_pyfunction!(mix, module)?)?;
    module.add_function(wrap_pyfunction!(shard_of, module)?)?;
    module.add_function(wrap_pyfunction!(server_of, module)?)?;
    module.add_function(wrap_pyfunction!(unique, module)?)?;
    module.add_function(wrap_pyfunction!(merge, module)?)?;
    module.add_function(wrap_pyfunction!(squares, module)?)?;
    module.add_function(wrap_pyfunction!(pool, module)?)?;
    module.add_function(wrap_pyfunction!(pool_grad, module)?)?;
    module.add_function(wrap_pyfunction!(fingerprint, module)?)?;
    module.add_function(wrap_pyfunction!(kernel_variant, module)?)?;
    Ok(())
}

fn refuse(text: String) -> PyErr {
    PyValueError::new_err(text)
}

fn sharding(shards: usize) -> PyResult<Sharding> {
    let most = Sharding::MOST;
    Sharding::new(shards).ok_or_else(|| refuse(format!("shards must be a power of two from 1 to {most}, not {shards}")))
}

fn parse(spec: &str) -> PyResult<TableSpec> {
    serde_json::from_str(spec).map_err(|error| refuse(format!("not the spec of a table: {error}")))
}

/// A spec whose rows are those of another one.
fn same_layout(old: TableSpec, spec: &str) -> PyResult<TableSpec> {
    let spec = parse(spec)?;
    let other = layout_differences(&old, &spec);
    if other.is_empty() { Ok(spec) } else { Err(refuse(other.join("; "))) }
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| refuse(error.to_string()))
}

fn state_of(text: &str) -> PyResult<serde_json::Value> {
    serde_json::from_str(text).map_err(|error| refuse(format!("not the state of a table: {error}")))
}

/// Whether missing rows are made, and what they read as if not.
pub fn absence(create: bool, word: &str) -> PyResult<Absent> {
    Absent::of(create, word).ok_or_else(|| refuse(format!("absent must be initial or zeros, not {word}")))
}

fn matrix<'py>(py: Python<'py>, numbers: Vec<f32>, rows: usize, columns: usize) -> PyResult<Bound<'py, PyArray2<f32>>> {
    numbers.into_pyarray(py).reshape([rows, columns])
}

/// A sparse table in this process.
#[pyclass(name = "Table", module = "umiak_native", frozen)]
pub struct PyTable {
    table: SparseTable,
}

#[pymethods]
impl PyTable {
    #[new]
    #[pyo3(signature = (spec_json, shards=256))]
    fn new(spec_json: &str, shards: usize) -> PyResult<Self> {
        match parse(spec_json)? {
            TableSpec::Sparse(spec) => Ok(Self { table: SparseTable::new(spec, sharding(shards)?).map_err(refuse)? }),
            TableSpec::Dense(_) => Err(refuse("this is the spec of a dense table: use DenseTable".into())),
        }
    }

    #[getter]
    fn spec(&self) -> PyResult<String> {
        json(&TableSpec::Sparse(self.table.spec().clone()))
    }

    #[getter]
    fn shards(&self) -> usize {
        self.table.sharding().count()
    }

    #[getter]
    fn pull_width(&self) -> usize {
        self.table.pull_width()
    }

    #[getter]
    fn push_width(&self) -> usize {
        self.table.push_width()
    }

    #[getter]
    fn saved_width(&self) -> usize {
        self.table.spec().saved_width()
    }

    #[pyo3(signature = (keys, create=true, out=None, *, absent="initial"))]
    fn pull<'py>(
        &self,
        py: Python<'py>,
        keys: Keys<'py>,
        create: bool,
        out: Option<Bound<'py, PyArray2<f32>>>,
        absent: &str,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let absent = absence(create, absent)?;
        let keys = keys.as_slice()?;
        let width = self.table.pull_width();
        let rows = match out {
            Some(out) => out,
            None => PyArray2::zeros(py, [keys.len(), width], false),
        };
        if rows.shape() != [keys.len(), width] {
            let (wanted, shape) = (keys.len(), rows.shape());
            return Err(refuse(format!(
                "out must have the shape ({wanted}, {width}), not ({}, {})",
                shape[0], shape[1]
            )));
        }
        if !rows.is_c_contiguous() {
            return Err(refuse("out must be contiguous, row by row".into()));
        }
        let mut out = rows.try_readwrite().map_err(|error| refuse(format!("out can't be written: {error}")))?;
        let slice = out.as_slice_mut()?;
        py.detach(|| self.table.pull(keys, slice, absent));
        drop(out);
        Ok(rows)
    }

    #[pyo3(signature = (keys, rows, draw=0))]
    fn push(&self, py: Python<'_>, keys: Keys<'_>, rows: Rows<'_>, draw: u64) -> PyResult<()> {
        let keys = keys.as_slice()?;
        let rows = rows.of_shape(keys.len(), self.table.push_width())?;
        py.detach(|| self.table.push(keys, rows, draw));
        Ok(())
    }

    #[pyo3(signature = (parts, draw=0))]
    fn push_summed(&self, py: Python<'_>, parts: Vec<(Keys<'_>, Rows<'_>)>, draw: u64) -> PyResult<()> {
        let parts = slices(&parts, self.table.push_width())?;
        py.detach(|| self.table.push_summed(&parts, draw));
        Ok(())
    }

    fn set(&self, py: Python<'_>, keys: Keys<'_>, rows: Rows<'_>) -> PyResult<()> {
        let keys = keys.as_slice()?;
        let rows = rows.of_shape(keys.len(), self.table.spec().dim)?;
        py.detach(|| self.table.set(keys, rows)).map_err(refuse)
    }

    fn add(&self, py: Python<'_>, keys: Keys<'_>, rows: Rows<'_>) -> PyResult<()> {
        let keys = keys.as_slice()?;
        let rows = rows.of_shape(keys.len(), self.table.spec().dim)?;
        py.detach(|| self.table.add(keys, rows)).map_err(refuse)
    }

    #[getter]
    fn learning_rate(&self) -> f32 {
        self.table.learning_rate()
    }

    #[setter]
    fn set_learning_rate(&self, rate: f32) -> PyResult<()> {
        self.table.set_learning_rate(rate).map_err(refuse)
    }

    fn shrink(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.table.shrink())
    }

    fn __len__(&self) -> usize {
        self.table.len() as usize
    }

    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let memory = py.detach(|| self.table.memory());
        let bytes = PyDict::new(py);
        bytes.set_item("values", memory.values)?;
        bytes.set_item("state", memory.state)?;
        bytes.set_item("keys", memory.keys)?;
        bytes.set_item("index", memory.index)?;
        bytes.set_item("slack", memory.slack)?;
        Ok(bytes)
    }

    fn saved_bytes(&self) -> u64 {
        self.table.saved_bytes()
    }

    fn track(&self, trainers: usize) {
        self.table.track(trainers);
    }

    fn take_changed<'py>(&self, py: Python<'py>, trainer: usize) -> PyResult<KeysAndRows<'py>> {
        let shards = 0..self.table.sharding().count();
        let (keys, rows) = py.detach(|| self.table.take_changed(trainer, shards));
        let rows = matrix(py, rows, keys.len(), self.table.pull_width())?;
        Ok((keys.into_pyarray(py), rows))
    }

    #[pyo3(signature = (mode="all"))]
    fn freeze(&self, py: Python<'_>, mode: &str) -> PyResult<()> {
        let mode: SaveMode = serde_json::from_value(mode.into())
            .map_err(|_| refuse(format!("mode must be all, delta, base or full, not {mode}")))?;
        py.detach(|| self.table.freeze(mode)).map_err(refuse)
    }

    fn scan<'py>(&self, py: Python<'py>, shard: usize) -> PyResult<Vec<ScannedRows<'py>>> {
        if shard >= self.table.sharding().count() {
            return Err(PyIndexError::new_err(format!("shard {shard} of {}", self.table.sharding().count())));
        }
        let mut batches = Vec::new();
        py.detach(|| {
            self.table.scan_sorted(shard, &mut |batch| {
                batches.push(batch.clone());
                Ok(())
            })
        })?;
        let width = self.table.spec().saved_width();
        let arrays = batches.into_iter().map(|batch| {
            let data = matrix(py, batch.data, batch.keys.len(), width)?;
            Ok((batch.keys.into_pyarray(py), batch.flags.into_pyarray(py), data))
        });
        arrays.collect()
    }

    #[pyo3(signature = (saved=true))]
    fn thaw(&self, py: Python<'_>, saved: bool) {
        py.detach(|| self.table.thaw(saved));
    }

    fn load(&self, py: Python<'_>, keys: Keys<'_>, flags: PyReadonlyArray1<'_, u32>, data: Rows<'_>) -> PyResult<()> {
        let keys = keys.as_slice()?.to_vec();
        let data = data.of_shape(keys.len(), self.table.spec().saved_width())?.to_vec();
        let flags = flags.as_array().to_vec();
        py.detach(|| self.table.load(&RowBatch { keys, flags, data })).map_err(refuse)
    }

    fn state(&self) -> String {
        self.table.state().to_string()
    }

    fn restore(&self, state: &str) -> PyResult<()> {
        self.table.restore(&state_of(state)?).map_err(refuse)
    }

    fn with_spec(&self, spec_json: &str) -> PyResult<Self> {
        match same_layout(TableSpec::Sparse(self.table.spec().clone()), spec_json)? {
            TableSpec::Sparse(spec) => Ok(Self { table: self.table.with_spec(spec).map_err(refuse)? }),
            TableSpec::Dense(_) => Err(refuse("a table stays of its kind".into())),
        }
    }
}

/// A dense table in this process.
#[pyclass(name = "DenseTable", module = "umiak_native", frozen)]
pub struct PyDenseTable {
    table: DenseTable,
}

#[pymethods]
impl PyDenseTable {
    #[new]
    #[pyo3(signature = (spec_json, shards=256, server=0, servers=1))]
    fn new(spec_json: &str, shards: usize, server: usize, servers: usize) -> PyResult<Self> {
        let sharding = sharding(shards)?;
        if server >= servers {
            return Err(refuse(format!("server {server} of {servers}")));
        }
        match parse(spec_json)? {
            TableSpec::Dense(spec) => {
                let owned = sharding.shards_of(server, servers);
                Ok(Self { table: DenseTable::new(spec, sharding, owned).map_err(refuse)? })
            }
            TableSpec::Sparse(_) => Err(refuse("this is the spec of a sparse table: use Table".into())),
        }
    }

    #[getter]
    fn spec(&self) -> PyResult<String> {
        json(&TableSpec::Dense(self.table.spec().clone()))
    }

    #[getter]
    fn range(&self) -> (usize, usize) {
        (self.table.range().start, self.table.range().end)
    }

    fn pull<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let mut values = vec![0.0; self.table.range().len()];
        py.detach(|| self.table.pull(&mut values)).map_err(refuse)?;
        Ok(values.into_pyarray(py))
    }

    fn pull_into(&self, py: Python<'_>, out: &Bound<'_, PyArray1<f32>>) -> PyResult<()> {
        let mut filled = out.try_readwrite().map_err(|error| PyValueError::new_err(error.to_string()))?;
        let out = filled.as_slice_mut().map_err(|error| PyValueError::new_err(error.to_string()))?;
        py.detach(|| self.table.pull(out)).map_err(refuse)
    }

    fn push(&self, py: Python<'_>, gradients: Floats<'_>) -> PyResult<()> {
        let gradients = gradients.as_slice()?;
        py.detach(|| self.table.push(gradients)).map_err(refuse)
    }

    fn push_summed(&self, py: Python<'_>, parts: Vec<Floats<'_>>) -> PyResult<()> {
        let parts = parts.iter().map(Floats::as_slice).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| self.table.push_summed(&parts)).map_err(refuse)
    }

    #[pyo3(signature = (values, only_if_unset=false))]
    fn set(&self, py: Python<'_>, values: Floats<'_>, only_if_unset: bool) -> PyResult<bool> {
        let values = values.as_slice()?;
        py.detach(|| self.table.set(values, only_if_unset)).map_err(refuse)
    }

    #[getter]
    fn is_set(&self) -> bool {
        self.table.is_set()
    }

    #[getter]
    fn learning_rate(&self) -> f32 {
        self.table.learning_rate()
    }

    #[setter]
    fn set_learning_rate(&self, rate: f32) -> PyResult<()> {
        self.table.set_learning_rate(rate).map_err(refuse)
    }

    fn freeze(&self) -> PyResult<()> {
        self.table.freeze().map_err(refuse)
    }

    fn saved_bytes(&self) -> usize {
        self.table.bytes()
    }

    #[allow(clippy::type_complexity)]
    fn chunk<'py>(
        &self,
        py: Python<'py>,
        shard: usize,
    ) -> Option<(usize, Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<f32>>)> {
        let (offset, values, state) = self.table.chunk(shard)?;
        Some((offset, values.into_pyarray(py), state.into_pyarray(py)))
    }

    fn thaw(&self) {
        self.table.thaw();
    }

    fn load_chunk(&self, offset: usize, values: Floats<'_>, state: Floats<'_>) -> PyResult<()> {
        self.table.load_chunk(offset, values.as_slice()?, state.as_slice()?).map_err(refuse)
    }

    fn state(&self) -> String {
        self.table.state().to_string()
    }

    fn restore(&self, state: &str) -> PyResult<()> {
        self.table.restore(&state_of(state)?).map_err(refuse)
    }

    fn with_spec(&self, spec_json: &str) -> PyResult<Self> {
        match same_layout(TableSpec::Dense(self.table.spec().clone()), spec_json)? {
            TableSpec::Dense(spec) => Ok(Self { table: self.table.with_spec(spec).map_err(refuse)? }),
            TableSpec::Sparse(_) => Err(refuse("a table stays of its kind".into())),
        }
    }
}

fn slices<'a>(parts: &'a [(Keys<'_>, Rows<'_>)], width: usize) -> PyResult<Vec<(&'a [u64], &'a [f32])>> {
    let slices = parts.iter().map(|(keys, rows)| {
        let keys = keys.as_slice()?;
        Ok((keys, rows.of_shape(keys.len(), width)?))
    });
    slices.collect()
}

#[pyfunction]
fn mix<'py>(py: Python<'py>, keys: Keys<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
    Ok(keys.as_slice()?.iter().map(|&key| keys::mix(key)).collect::<Vec<_>>().into_pyarray(py))
}

#[pyfunction]
#[pyo3(signature = (keys, shards=256))]
fn shard_of<'py>(py: Python<'py>, keys: Keys<'py>, shards: usize) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let sharding = sharding(shards)?;
    let shards = keys.as_slice()?.iter().map(|&key| sharding.shard_of(keys::mix(key)) as i64);
    Ok(shards.collect::<Vec<_>>().into_pyarray(py))
}

#[pyfunction]
#[pyo3(signature = (keys, servers, shards=256))]
fn server_of<'py>(
    py: Python<'py>,
    keys: Keys<'py>,
    servers: usize,
    shards: usize,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let sharding = sharding(shards)?;
    if servers == 0 {
        return Err(refuse("there must be a server".into()));
    }
    let servers = keys.as_slice()?.iter().map(|&key| {
        let shard = sharding.shard_of(keys::mix(key));
        sharding.server_of(shard, servers) as i64
    });
    Ok(servers.collect::<Vec<_>>().into_pyarray(py))
}

#[pyfunction]
#[allow(clippy::type_complexity)]
fn unique<'py>(py: Python<'py>, keys: Keys<'py>) -> PyResult<(Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<i64>>)> {
    let keys = keys.as_slice()?;
    let (unique, inverse) = py.detach(|| gather::unique(keys));
    Ok((unique.into_pyarray(py), inverse.into_pyarray(py)))
}

#[pyfunction]
#[pyo3(signature = (parts, last_counts=0))]
fn merge<'py>(py: Python<'py>, parts: Vec<(Keys<'py>, Rows<'py>)>, last_counts: usize) -> PyResult<KeysAndRows<'py>> {
    let width = match parts.first() {
        Some((_, rows)) => rows.parts()?.1[1],
        None => return Err(refuse("no parts to merge".into())),
    };
    if last_counts > width {
        return Err(refuse(format!("last_counts is {last_counts}, and rows have {width} columns")));
    }
    let parts = slices(&parts, width)?;
    let (keys, rows) = py.detach(|| gather::merge(&parts, width, last_counts));
    let rows = matrix(py, rows, keys.len(), width)?;
    Ok((keys.into_pyarray(py), rows))
}

#[pyfunction]
fn squares(py: Python<'_>, numbers: Floats<'_>) -> PyResult<f64> {
    let numbers = numbers.as_slice()?;
    Ok(py.detach(|| rules::squares(numbers)))
}

fn pooling(mode: &str) -> PyResult<Pooling> {
    match mode {
        "sum" => Ok(Pooling::Sum),
        "mean" => Ok(Pooling::Mean),
        _ => Err(refuse(format!("mode must be sum or mean, not {mode}"))),
    }
}

#[pyfunction]
#[pyo3(signature = (rows, inverse, offsets, mode="sum"))]
fn pool<'py>(
    py: Python<'py>,
    rows: Rows<'py>,
    inverse: PyReadonlyArray1<'py, i64>,
    offsets: PyReadonlyArray1<'py, i64>,
    mode: &str,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let (rows, [count, width]) = rows.parts()?;
    let (inverse, offsets, pooling) = (inverse.as_slice()?, offsets.as_slice()?, pooling(mode)?);
    gather::check(count, inverse, offsets).map_err(refuse)?;
    let segments = offsets.len() - 1;
    let mut out = vec![0.0; segments * width];
    if width > 0 {
        py.detach(|| gather::pool(rows, width, inverse, offsets, pooling, &mut out));
    }
    matrix(py, out, segments, width)
}

#[pyfunction]
#[pyo3(signature = (gradients, inverse, offsets, rows, mode="sum"))]
fn pool_grad<'py>(
    py: Python<'py>,
    gradients: Rows<'py>,
    inverse: PyReadonlyArray1<'py, i64>,
    offsets: PyReadonlyArray1<'py, i64>,
    rows: usize,
    mode: &str,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let (inverse, offsets, pooling) = (inverse.as_slice()?, offsets.as_slice()?, pooling(mode)?);
    gather::check(rows, inverse, offsets).map_err(refuse)?;
    let (_, [_, width]) = gradients.parts()?;
    let gradients = gradients.of_shape(offsets.len() - 1, width)?;
    let mut out = vec![0.0; rows * width];
    if width > 0 {
        py.detach(|| gather::pool_grad(gradients, width, inverse, offsets, pooling, &mut out));
    }
    matrix(py, out, rows, width)
}

#[pyfunction]
fn fingerprint(py: Python<'_>, values: Floats<'_>) -> PyResult<u64> {
    let values = values.as_slice()?;
    Ok(py.detach(|| crate::fingerprint::fingerprint(values)))
}

#[pyfunction]
#[pyo3(signature = (pin=None))]
fn kernel_variant(pin: Option<&str>) -> PyResult<&'static str> {
    if let Some(name) = pin {
        let variant = Variant::ALL.into_iter().find(|variant| variant.name() == name);
        match variant {
            Some(variant) if kernels::pin(variant) => {}
            Some(_) => return Err(refuse(format!("this machine can't run {name}"))),
            None => return Err(refuse(format!("a variant is baseline, avx2 or avx512, not {name}"))),
        }
    }
    Ok(kernels::variant().name())
}
