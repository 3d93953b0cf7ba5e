//! Exceptions of servers and clients.

use std::time::Duration;

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::client::error::{ClientError, ErrorDetail};
use crate::server::service::Refusal;

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

/// An exception with its message, its code and its hint.
fn raise<E: pyo3::type_object::PyTypeInfo>(py: Python<'_>, text: String, detail: &ErrorDetail) -> PyErr {
    let error = PyErr::from_type(py.get_type::<E>(), text);
    let value = error.value(py);
    // An exception takes attributes; if this one does not, the message is still right.
    let _ = value.setattr("code", &detail.code);
    let _ = value.setattr("hint", detail.hint.as_deref());
    error
}

pub fn from_client(py: Python<'_>, error: ClientError) -> PyErr {
    let text = error.to_string();
    match error {
        ClientError::Refused(detail) => raise::<Refused>(py, text, &detail),
        ClientError::TrainerLost(detail) => raise::<TrainerLost>(py, text, &detail),
        ClientError::ServerLost(detail) => raise::<ServerLost>(py, text, &detail),
        ClientError::ServerForgot(detail) => raise::<ServerForgot>(py, text, &detail),
        ClientError::Timeout(detail) => raise::<Timeout>(py, text, &detail),
        ClientError::Interrupted => PyRuntimeError::new_err(text),
    }
}

/// Seconds that Python gave, as a duration.
pub fn duration(seconds: f64) -> PyResult<Duration> {
    let wrong = |_| PyValueError::new_err(format!("{seconds} is not a number of seconds"));
    Duration::try_from_secs_f64(seconds).map_err(wrong)
}

pub fn refused(py: Python<'_>, refusal: Refusal) -> PyErr {
    let Refusal { code, message, hint } = refusal;
    from_client(py, ClientError::Refused(ErrorDetail { code: code.into(), message, hint }))
}
