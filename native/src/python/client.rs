//! `Client`: a trainer's side. Arrays are checked and borrowed here, and the GIL is released for everything else.

use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use numpy::{
    PyArray, PyArray1, PyArray2, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyReadwriteArrayDyn,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use serde::Deserialize;

use super::errors;
use super::table::absence;
use crate::client::context::CallOptions;
use crate::client::dense::Pieces;
use crate::client::dial::{self, Credentials, NoEntry};
use crate::client::error::{ClientError, ErrorDetail, Outcome};
use crate::client::next_rows::NextRows;
use crate::client::orders::RowChange;
use crate::client::session::{self, Turn};
use crate::wire::frame::{Header, Op, flag};
use crate::wire::stream::{self, TlsFiles};

type KeysAndRows<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray2<f32>>);

#[pyclass(frozen, module = "umiak_native")]
pub struct Client {
    inner: ManuallyDrop<session::Client>,
}

impl Client {
    /// Carries out one operation without the GIL. Python's signal handlers run meanwhile; what they raise ends it.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        limit_s: Option<f64>,
        work: impl FnOnce(&mut Turn<'_>) -> Outcome<T> + Send,
    ) -> PyResult<T> {
        let limit = limit_s.map(errors::duration).transpose()?;
        let mut raised = None;
        let (begun, mut tell_after) = (Instant::now(), TELL_AFTER);
        let outcome = py.detach(|| {
            let mut pulse = || {
                if begun.elapsed() >= tell_after
                    && let Some(words) = self.inner.waiting_for()
                {
                    tell(&format!("umiak.ps: {words}, for {} s", begun.elapsed().as_secs()));
                    tell_after = (tell_after * 6).min(tell_after + MOST_PAUSE);
                }
                raised = Python::attach(|py| py.check_signals()).err();
                raised.is_none()
            };
            work(&mut self.inner.turn(CallOptions::new(limit, &mut pulse))?)
        });
        match (outcome, raised) {
            (Err(ClientError::Interrupted), Some(raised)) => Err(raised),
            (outcome, _) => outcome.map_err(|error| errors::from_client(py, error)),
        }
    }
}

/// What an operation waits for is told after this time, and then more and more rarely.
const TELL_AFTER: Duration = Duration::from_secs(10);
const MOST_PAUSE: Duration = Duration::from_secs(300);

/// A line on `sys.stderr`. That it can't be written is no reason to end a training.
fn tell(line: &str) {
    Python::attach(|py| {
        let print = || {
            let stderr = py.import("sys")?.getattr("stderr")?;
            stderr.call_method1("write", (format!("{line}\n"),))?;
            stderr.call_method0("flush")
        };
        drop(print());
    });
}

/// Keys as u64, whatever their shape; those of int64 are the same bits.
enum Keys<'py> {
    Unsigned(PyReadonlyArrayDyn<'py, u64>),
    Signed(PyReadonlyArrayDyn<'py, i64>),
    Copied(Vec<u64>, Vec<usize>),
}

impl<'py> Keys<'py> {
    fn take(keys: &Bound<'py, PyAny>) -> PyResult<Keys<'py>> {
        if let Ok(array) = keys.cast::<PyArrayDyn<u64>>() {
            let array = array.readonly();
            return Ok(match array.is_c_contiguous() {
                true => Keys::Unsigned(array),
                false => Keys::Copied(array.as_array().iter().copied().collect(), array.shape().to_vec()),
            });
        }
        if let Ok(array) = keys.cast::<PyArrayDyn<i64>>() {
            let array = array.readonly();
            return Ok(match array.is_c_contiguous() {
                true => Keys::Signed(array),
                false => Keys::Copied(array.as_array().iter().map(|key| *key as u64).collect(), array.shape().to_vec()),
            });
        }
        Err(PyTypeError::new_err("keys must be a numpy array of uint64 or int64"))
    }

    fn shape(&self) -> &[usize] {
        match self {
            Keys::Unsigned(array) => array.shape(),
            Keys::Signed(array) => array.shape(),
            Keys::Copied(_, shape) => shape,
        }
    }

    fn slice(&self) -> &[u64] {
        match self {
            // `take` has seen that they are contiguous.
            Keys::Unsigned(array) => array.as_slice().unwrap_or_default(),
            Keys::Signed(array) => {
                let slice = array.as_slice().unwrap_or_default();
                // SAFETY: i64 and u64 have the same size and alignment, and any bits are either.
                unsafe { std::slice::from_raw_parts(slice.as_ptr().cast(), slice.len()) }
            }
            Keys::Copied(keys, _) => keys,
        }
    }
}

/// Rows as f32, of any shape that has the right number of elements in the right order.
enum Rows<'py> {
    Borrowed(PyReadonlyArrayDyn<'py, f32>),
    Copied(Vec<f32>),
}

impl<'py> Rows<'py> {
    fn take(rows: &Bound<'py, PyAny>, what: &str) -> PyResult<(Rows<'py>, Vec<usize>)> {
        let Ok(array) = rows.cast::<PyArrayDyn<f32>>() else {
            return Err(PyTypeError::new_err(format!("{what} must be a numpy array of float32")));
        };
        let array = array.readonly();
        let shape = array.shape().to_vec();
        Ok(match array.is_c_contiguous() {
            true => (Rows::Borrowed(array), shape),
            false => (Rows::Copied(array.as_array().iter().copied().collect()), shape),
        })
    }

    fn slice(&self) -> &[f32] {
        match self {
            Rows::Borrowed(array) => array.as_slice().unwrap_or_default(),
            Rows::Copied(rows) => rows,
        }
    }
}

/// One array, or several that follow each other.
fn take_pieces<'py>(gradients: &Bound<'py, PyAny>) -> PyResult<Vec<Rows<'py>>> {
    let Ok(several) = gradients.cast::<PyList>() else {
        return Ok(vec![Rows::take(gradients, "gradients")?.0]);
    };
    several.iter().map(|array| Ok(Rows::take(&array, "gradients")?.0)).collect()
}

/// Keys and their rows.
fn take_rows<'py>(keys: &Bound<'py, PyAny>, rows: &Bound<'py, PyAny>) -> PyResult<(Keys<'py>, Rows<'py>)> {
    let keys = Keys::take(keys)?;
    let (rows, shape) = Rows::take(rows, "rows")?;
    if !shape.starts_with(keys.shape()) {
        let words = format!("rows of the shape {shape:?} do not belong to keys of the shape {:?}", keys.shape());
        return Err(PyValueError::new_err(words));
    }
    Ok((keys, rows))
}

/// Rows of the next step: the table, the keys, and where the rows go.
type ToRead<'py> = (u32, Bound<'py, PyAny>, Bound<'py, PyArrayDyn<f32>>);
type Reading<'py> = (u32, Keys<'py>, PyReadwriteArrayDyn<'py, f32>);

fn take_to_read<'py>(given: &[ToRead<'py>]) -> PyResult<Vec<Reading<'py>>> {
    let borrowed = |(table, keys, out): &ToRead<'py>| {
        let out = out.try_readwrite().map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((*table, Keys::take(keys)?, out))
    };
    given.iter().map(borrowed).collect()
}

fn as_next_rows<'a>(reading: &'a mut [Reading<'_>]) -> PyResult<Vec<NextRows<'a>>> {
    let borrowed = |(table, keys, out): &'a mut Reading<'_>| {
        let out = out.as_slice_mut().map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(NextRows { table: *table, keys: keys.slice(), out })
    };
    reading.iter_mut().map(borrowed).collect()
}

/// An array to be filled: the caller's, or a new one.
fn to_fill<'py>(
    py: Python<'py>,
    out: Option<Bound<'py, PyAny>>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
    let Some(out) = out else {
        // Zeros cost a pass over memory; what is not filled because of an error is never seen.
        // SAFETY: every element is written before the array is handed out, and f32 needs no initialization to be dropped.
        return Ok(unsafe { PyArray::<f32, _>::new(py, shape, false) });
    };
    let Ok(array) = out.cast_into::<PyArrayDyn<f32>>() else {
        return Err(PyTypeError::new_err("out must be a numpy array of float32"));
    };
    if array.shape() != shape || !array.is_c_contiguous() {
        let found = array.shape();
        return Err(PyValueError::new_err(format!("out must be C-contiguous with the shape {shape:?}, not {found:?}")));
    }
    Ok(array)
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (config, token=None))]
    fn new(py: Python<'_>, config: &str, token: Option<&[u8]>) -> PyResult<Self> {
        let inner = session::Client::new(config, token).map_err(|error| errors::from_client(py, error))?;
        Ok(Client { inner: ManuallyDrop::new(inner) })
    }

    fn connect(&self, py: Python<'_>) -> PyResult<String> {
        self.run(py, None, |turn| turn.connect()).map(|welcomes| welcomes.to_string())
    }

    #[pyo3(signature = (name, spec, wire="float32"))]
    fn create_table(&self, py: Python<'_>, name: &str, spec: &str, wire: &str) -> PyResult<u32> {
        let is_narrow = match wire {
            "float32" => false,
            "bfloat16" => true,
            _ => return Err(PyValueError::new_err(format!("wire is float32 or bfloat16, not {wire:?}"))),
        };
        let (table, said) = self.run(py, None, |turn| {
            let table = turn.create_table(name, spec, is_narrow)?;
            Ok((table, turn.take_said()))
        })?;
        for line in said {
            // As Python prints it: a notebook or a test may have put something else in the place of stderr.
            let stderr = py.import("sys")?.getattr("stderr")?;
            if !stderr.is_none() {
                stderr.call_method1("write", (format!("umiak.ps: {line}, as this script has it\n"),))?;
            }
        }
        Ok(table)
    }

    fn pull_width(&self, py: Python<'_>, table: u32) -> PyResult<usize> {
        self.run(py, None, |turn| Ok(turn.table(table)?.pull_width()))
    }

    fn push_width(&self, py: Python<'_>, table: u32) -> PyResult<usize> {
        self.run(py, None, |turn| Ok(turn.table(table)?.push_width()))
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (table, keys, out=None, *, create=true, absent="initial", step=0, limit_s=None))]
    fn pull<'py>(
        &self,
        py: Python<'py>,
        table: u32,
        keys: Bound<'py, PyAny>,
        out: Option<Bound<'py, PyAny>>,
        create: bool,
        absent: &str,
        step: u64,
        limit_s: Option<f64>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let absent = absence(create, absent)?;
        let width = self.run(py, None, |turn| Ok(turn.table(table)?.sparse()?.0))?;
        let keys = Keys::take(&keys)?;
        let shape = [keys.shape(), &[width]].concat();
        let array = to_fill(py, out, &shape)?;
        {
            let mut filled = array.try_readwrite().map_err(|error| PyValueError::new_err(error.to_string()))?;
            let out = filled.as_slice_mut().map_err(|error| PyValueError::new_err(error.to_string()))?;
            let keys = keys.slice();
            self.run(py, limit_s, |turn| turn.pull(table, keys, out, absent, step))?;
        }
        Ok(array)
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (table, keys, rows, *, step=None, scale=1.0, mean=false))]
    fn push(
        &self,
        py: Python<'_>,
        table: u32,
        keys: Bound<'_, PyAny>,
        rows: Bound<'_, PyAny>,
        step: Option<u64>,
        scale: f32,
        mean: bool,
    ) -> PyResult<()> {
        self.change(py, (Op::Push, table, scale, mean), &keys, &rows, step)
    }

    fn set(&self, py: Python<'_>, table: u32, keys: Bound<'_, PyAny>, rows: Bound<'_, PyAny>) -> PyResult<()> {
        self.change(py, (Op::Set, table, 1.0, false), &keys, &rows, None)
    }

    fn add(&self, py: Python<'_>, table: u32, keys: Bound<'_, PyAny>, rows: Bound<'_, PyAny>) -> PyResult<()> {
        self.change(py, (Op::Add, table, 1.0, false), &keys, &rows, None)
    }

    fn changed<'py>(&self, py: Python<'py>, table: u32) -> PyResult<KeysAndRows<'py>> {
        let (keys, rows, width) = self.run(py, None, |turn| {
            let (keys, rows) = turn.changed(table)?;
            Ok((keys, rows, turn.table(table)?.pull_width()))
        })?;
        let count = keys.len();
        Ok((PyArray1::from_vec(py, keys), PyArray1::from_vec(py, rows).reshape([count, width])?))
    }

    #[pyo3(signature = (table, out=None, *, step=0, limit_s=None))]
    fn pull_dense<'py>(
        &self,
        py: Python<'py>,
        table: u32,
        out: Option<Bound<'py, PyAny>>,
        step: u64,
        limit_s: Option<f64>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let elements = self.run(py, None, |turn| Ok(turn.table(table)?.dense()?.0))?;
        let array = to_fill(py, out, &[elements])?;
        {
            let mut filled = array.try_readwrite().map_err(|error| PyValueError::new_err(error.to_string()))?;
            let out = filled.as_slice_mut().map_err(|error| PyValueError::new_err(error.to_string()))?;
            self.run(py, limit_s, |turn| turn.pull_dense(table, out, step))?;
        }
        Ok(array)
    }

    #[pyo3(signature = (table, gradients, *, step=None, scale=1.0, mean=false))]
    fn push_dense(
        &self,
        py: Python<'_>,
        table: u32,
        gradients: Bound<'_, PyAny>,
        step: Option<u64>,
        scale: f32,
        mean: bool,
    ) -> PyResult<()> {
        let gradients = take_pieces(&gradients)?;
        let arrays: Vec<&[f32]> = gradients.iter().map(Rows::slice).collect();
        let pieces = Pieces { arrays: &arrays, scale, mean };
        let header = Header { dim: 1, ..Header::of(Op::PushDense) };
        self.run(py, None, |turn| turn.change_dense(header, table, pieces, step))
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (table, gradients, out, *, pushes=Vec::new(), step=None, scale=1.0, mean=false, next_rows=Vec::new()))]
    fn learn_dense<'py>(
        &self,
        py: Python<'py>,
        table: u32,
        gradients: Bound<'py, PyAny>,
        out: Bound<'py, PyAny>,
        pushes: Vec<(u32, Bound<'py, PyAny>, Bound<'py, PyAny>)>,
        step: Option<u64>,
        scale: f32,
        mean: bool,
        next_rows: Vec<ToRead<'py>>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let gradients = take_pieces(&gradients)?;
        let arrays: Vec<&[f32]> = gradients.iter().map(Rows::slice).collect();
        let pieces = Pieces { arrays: &arrays, scale, mean };
        let mut taken = Vec::with_capacity(pushes.len());
        for (table, keys, rows) in &pushes {
            taken.push((*table, take_rows(keys, rows)?));
        }
        let (op, mut pushes) = (Op::Push, Vec::with_capacity(taken.len()));
        for (table, (keys, rows)) in &taken {
            pushes.push(RowChange { op, table: *table, keys: keys.slice(), rows: rows.slice(), scale, mean });
        }
        let elements = self.run(py, None, |turn| Ok(turn.table(table)?.dense()?.0))?;
        let array = to_fill(py, Some(out), &[elements])?;
        {
            let mut filled = array.try_readwrite().map_err(|error| PyValueError::new_err(error.to_string()))?;
            let out = filled.as_slice_mut().map_err(|error| PyValueError::new_err(error.to_string()))?;
            let mut reading = take_to_read(&next_rows)?;
            let mut next = as_next_rows(&mut reading)?;
            self.run(py, None, |turn| turn.learn_dense(table, pieces, &pushes, out, &mut next, step))?;
        }
        Ok(array)
    }

    #[pyo3(signature = (table, values, *, if_unset=false, step=None))]
    fn set_dense(
        &self,
        py: Python<'_>,
        table: u32,
        values: Bound<'_, PyAny>,
        if_unset: bool,
        step: Option<u64>,
    ) -> PyResult<()> {
        let (values, _) = Rows::take(&values, "values")?;
        let pieces = Pieces { arrays: &[values.slice()], scale: 1.0, mean: false };
        let flags = if if_unset { flag::IF_UNSET } else { 0 };
        let header = Header { flags, dim: 1, ..Header::of(Op::SetDense) };
        self.run(py, None, |turn| turn.change_dense(header, table, pieces, step))
    }

    #[pyo3(signature = (table, learning_rate, *, step=None))]
    fn set_learning_rate(&self, py: Python<'_>, table: u32, learning_rate: f32, step: Option<u64>) -> PyResult<()> {
        self.run(py, None, |turn| turn.set_learning_rate(table, learning_rate, step))
    }

    fn shrink(&self, py: Python<'_>, table: u32) -> PyResult<u64> {
        self.run(py, None, |turn| turn.shrink(table))
    }

    #[pyo3(signature = (step, *, limit_s=None))]
    fn prepare(&self, py: Python<'_>, step: u64, limit_s: Option<f64>) -> PyResult<()> {
        self.run(py, limit_s, |turn| turn.prepare(step))
    }

    #[pyo3(signature = (step, *, next_rows=Vec::new(), limit_s=None))]
    fn commit(&self, py: Python<'_>, step: u64, next_rows: Vec<ToRead<'_>>, limit_s: Option<f64>) -> PyResult<()> {
        let mut reading = take_to_read(&next_rows)?;
        let mut next = as_next_rows(&mut reading)?;
        self.run(py, limit_s, |turn| turn.commit(step, &mut next))
    }

    fn abort(&self, py: Python<'_>, step: u64) -> PyResult<()> {
        self.run(py, None, |turn| turn.abort(step))
    }

    fn resume(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, None, |turn| turn.resume())
    }

    #[getter]
    fn step(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.run(py, None, |turn| Ok(turn.step()))
    }

    fn finish_steps(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, None, |turn| turn.finish_steps())
    }

    #[pyo3(signature = (name, *, limit_s=None))]
    fn barrier(&self, py: Python<'_>, name: &str, limit_s: Option<f64>) -> PyResult<()> {
        self.run(py, limit_s, |turn| turn.barrier(name))
    }

    #[pyo3(signature = (name, payload, *, limit_s=None))]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        payload: &[u8],
        limit_s: Option<f64>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let strings = self.run(py, limit_s, |turn| turn.gather(name, payload))?;
        Ok(strings.iter().map(|string| PyBytes::new(py, string)).collect())
    }

    #[pyo3(signature = (name, payload, *, limit_s=None))]
    fn post<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        payload: &[u8],
        limit_s: Option<f64>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let strings = self.run(py, limit_s, |turn| turn.post(name, payload))?;
        Ok(strings.iter().map(|string| PyBytes::new(py, string)).collect())
    }

    #[pyo3(signature = (name, *, limit_s=None))]
    fn take(&self, py: Python<'_>, name: &str, limit_s: Option<f64>) -> PyResult<u64> {
        self.run(py, limit_s, |turn| turn.take(name))
    }

    fn done(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, None, |turn| turn.done())
    }

    fn save(&self, py: Python<'_>, request: &str) -> PyResult<String> {
        self.run(py, None, |turn| turn.ask_all(Op::Save, request)).map(|answers| answers.to_string())
    }

    fn load(&self, py: Python<'_>, request: &str) -> PyResult<String> {
        self.run(py, None, |turn| turn.load(request)).map(|answers| answers.to_string())
    }

    fn status(&self, py: Python<'_>) -> PyResult<String> {
        self.run(py, None, |turn| turn.ask_all(Op::Status, "")).map(|answers| answers.to_string())
    }

    fn waiting_for(&self) -> Option<String> {
        self.inner.waiting_for()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, None, |turn| {
            turn.close();
            Ok(())
        })
    }
}

impl Client {
    fn change(
        &self,
        py: Python<'_>,
        (op, table, scale, mean): (Op, u32, f32, bool),
        keys: &Bound<'_, PyAny>,
        rows: &Bound<'_, PyAny>,
        step: Option<u64>,
    ) -> PyResult<()> {
        let (keys, rows) = take_rows(keys, rows)?;
        let change = RowChange { op, table, keys: keys.slice(), rows: rows.slice(), scale, mean };
        self.run(py, None, |turn| turn.change(&change, step))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // In a fork its threads do not exist, and closing its sockets would close those of the process that made it.
        if self.inner.is_forked() {
            return;
        }
        if let Ok(mut turn) = self.inner.turn(CallOptions::new(None, &mut || false)) {
            // Threads that send heartbeats know nothing of Python, so they may be waited for with the GIL held.
            turn.close();
        }
        // SAFETY: it is dropped here and nowhere else, and nothing uses it afterwards.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Look {
    endpoint: String,
    #[serde(default)]
    job: String,
    #[serde(default)]
    tls: Option<TlsFiles>,
}

/// How one server says that it is, as JSON. One attempt, as somebody who only looks.
#[pyfunction]
#[pyo3(signature = (config, token=None))]
fn server_status(py: Python<'_>, config: &str, token: Option<&[u8]>) -> PyResult<String> {
    let refused = |text: String| errors::from_client(py, ClientError::refused("bad-config", text));
    let look: Look = serde_json::from_str(config).map_err(|error| refused(error.to_string()))?;
    let tls = match &look.tls {
        None => None,
        Some(files) => Some(stream::client_tls(files, &look.endpoint).map_err(refused)?),
    };
    let credentials = Credentials {
        endpoint: look.endpoint,
        token: token.unwrap_or_default().to_vec(),
        tls,
        rank: 0,
        incarnation: 1,
        kind: "observer",
        job: look.job,
    };
    let mut raised: Option<PyErr> = None;
    let status = py.detach(|| {
        let mut pulse = || match Python::attach(|py| py.check_signals()) {
            Ok(()) => true,
            Err(error) => {
                raised = Some(error);
                false
            }
        };
        dial::status(&credentials, &mut pulse)
    });
    let error = match status {
        Ok(status) => return Ok(status.to_string()),
        Err(NoEntry::Refused(detail)) => ClientError::from_server(detail),
        Err(NoEntry::Away(why)) => ClientError::ServerLost(ErrorDetail::new("server-lost", why, None)),
        Err(NoEntry::Interrupted) => ClientError::Interrupted,
    };
    Err(raised.unwrap_or_else(|| errors::from_client(py, error)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(server_status, module)?)?;
    module.add_class::<Client>()
}
