//! `Server`: a listener and the state behind it.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;

#[pyclass(frozen, module = "umiak_native")]
pub struct Server {}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (config, token=None))]
    fn new(config: &str, token: Option<&[u8]>) -> PyResult<Self> {
        let _ = (config, token);
        Err(PyNotImplementedError::new_err("Server"))
    }

    fn start(&self) -> PyResult<u16> {
        Err(PyNotImplementedError::new_err("start"))
    }

    #[pyo3(signature = (timeout_s=None))]
    fn wait(&self, timeout_s: Option<f64>) -> PyResult<Option<String>> {
        let _ = timeout_s;
        Err(PyNotImplementedError::new_err("wait"))
    }

    fn status(&self) -> PyResult<String> {
        Err(PyNotImplementedError::new_err("status"))
    }

    fn stop(&self) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("stop"))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Server>()
}
