//! The face that Python sees: the module `umiak_native`. Arguments are checked here, the GIL is released here, and errors
//! become exceptions here; nothing is decided here. `umiak_native.pyi` is its description, and is checked against it.

use pyo3::prelude::*;

mod arrays;
mod client;
mod errors;
mod features;
mod hashing;
mod multislot;
mod reader;
mod server;
mod store;
mod table;
mod tabular;

#[pymodule]
fn umiak_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    table::register(module)?;
    tabular::register(module)?;
    reader::register(module)?;
    multislot::register(module)?;
    hashing::register(module)?;
    errors::register(module)?;
    features::register(module)?;
    store::register(module)?;
    server::register(module)?;
    client::register(module)?;
    Ok(())
}
