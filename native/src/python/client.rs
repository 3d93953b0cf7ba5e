//! `Client`: a trainer's side.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;

#[pyclass(frozen, module = "umiak_native")]
pub struct Client {}

#[allow(unused_variables, clippy::too_many_arguments)]
#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (config, token=None))]
    fn new(config: &str, token: Option<&[u8]>) -> PyResult<Self> {
        Err(PyNotImplementedError::new_err("Client"))
    }

    #[pyo3(signature = ())]
    fn connect(&self) -> PyResult<String> {
        Err(PyNotImplementedError::new_err("connect"))
    }

    #[pyo3(signature = (name, spec))]
    fn create_table(&self, name: &str, spec: &str) -> PyResult<u32> {
        Err(PyNotImplementedError::new_err("create_table"))
    }

    #[pyo3(signature = (table))]
    fn pull_width(&self, table: u32) -> PyResult<usize> {
        Err(PyNotImplementedError::new_err("pull_width"))
    }

    #[pyo3(signature = (table))]
    fn push_width(&self, table: u32) -> PyResult<usize> {
        Err(PyNotImplementedError::new_err("push_width"))
    }

    #[pyo3(signature = (table, keys, out=None, *, create=true, step=0, limit_s=None))]
    fn pull(
        &self,
        table: u32,
        keys: Bound<'_, PyAny>,
        out: Option<Bound<'_, PyAny>>,
        create: bool,
        step: u64,
        limit_s: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        Err(PyNotImplementedError::new_err("pull"))
    }

    #[pyo3(signature = (table, keys, rows, *, step=None))]
    fn push(&self, table: u32, keys: Bound<'_, PyAny>, rows: Bound<'_, PyAny>, step: Option<u64>) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("push"))
    }

    #[pyo3(signature = (table, keys, rows))]
    fn set(&self, table: u32, keys: Bound<'_, PyAny>, rows: Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("set"))
    }

    #[pyo3(signature = (table, keys, rows))]
    fn add(&self, table: u32, keys: Bound<'_, PyAny>, rows: Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("add"))
    }

    #[pyo3(signature = (table))]
    fn changed(&self, table: u32) -> PyResult<Py<PyAny>> {
        Err(PyNotImplementedError::new_err("changed"))
    }

    #[pyo3(signature = (table, out=None, *, step=0, limit_s=None))]
    fn pull_dense(
        &self,
        table: u32,
        out: Option<Bound<'_, PyAny>>,
        step: u64,
        limit_s: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        Err(PyNotImplementedError::new_err("pull_dense"))
    }

    #[pyo3(signature = (table, gradients, *, step=None))]
    fn push_dense(&self, table: u32, gradients: Bound<'_, PyAny>, step: Option<u64>) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("push_dense"))
    }

    #[pyo3(signature = (table, values, *, if_unset=false))]
    fn set_dense(&self, table: u32, values: Bound<'_, PyAny>, if_unset: bool) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("set_dense"))
    }

    #[pyo3(signature = (table, learning_rate))]
    fn set_learning_rate(&self, table: u32, learning_rate: f32) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("set_learning_rate"))
    }

    #[pyo3(signature = (table))]
    fn shrink(&self, table: u32) -> PyResult<u64> {
        Err(PyNotImplementedError::new_err("shrink"))
    }

    #[pyo3(signature = (step, *, limit_s=None))]
    fn prepare(&self, step: u64, limit_s: Option<f64>) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("prepare"))
    }

    #[pyo3(signature = (step, *, limit_s=None))]
    fn commit(&self, step: u64, limit_s: Option<f64>) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("commit"))
    }

    #[pyo3(signature = (step))]
    fn abort(&self, step: u64) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("abort"))
    }

    #[pyo3(signature = ())]
    fn resume(&self) -> PyResult<u64> {
        Err(PyNotImplementedError::new_err("resume"))
    }

    #[pyo3(signature = (name, *, limit_s=None))]
    fn barrier(&self, name: &str, limit_s: Option<f64>) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("barrier"))
    }

    #[pyo3(signature = ())]
    fn done(&self) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("done"))
    }

    #[pyo3(signature = (request))]
    fn save(&self, request: &str) -> PyResult<String> {
        Err(PyNotImplementedError::new_err("save"))
    }

    #[pyo3(signature = (request))]
    fn load(&self, request: &str) -> PyResult<String> {
        Err(PyNotImplementedError::new_err("load"))
    }

    #[pyo3(signature = ())]
    fn status(&self) -> PyResult<String> {
        Err(PyNotImplementedError::new_err("status"))
    }

    #[pyo3(signature = ())]
    fn waiting_for(&self) -> PyResult<Option<String>> {
        Err(PyNotImplementedError::new_err("waiting_for"))
    }

    #[pyo3(signature = ())]
    fn close(&self) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("close"))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Client>()
}
