//! Exceptions of servers and clients.

use pyo3::create_exception;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

create_exception!(umiak_native, PsError, PyRuntimeError);
create_exception!(umiak_native, Refused, PsError);
create_exception!(umiak_native, ServerLost, PsError);
create_exception!(umiak_native, ServerForgot, PsError);
create_exception!(umiak_native, TrainerLost, PsError);
create_exception!(umiak_native, Timeout, PsError);

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let base = py.get_type::<PsError>();
    base.setattr("code", "")?;
    base.setattr("hint", py.None())?;
    module.add("PsError", base)?;
    module.add("Refused", py.get_type::<Refused>())?;
    module.add("ServerLost", py.get_type::<ServerLost>())?;
    module.add("ServerForgot", py.get_type::<ServerForgot>())?;
    module.add("TrainerLost", py.get_type::<TrainerLost>())?;
    module.add("Timeout", py.get_type::<Timeout>())?;
    Ok(())
}
