//! A packet as Python sees it.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

use crate::context::{checked_output, checked_packet};

/// A packet: a copy of its bytes, and what becomes of it.
#[pyclass(module = "thruway_nf")]
pub(crate) struct Packet {
    /// Its bytes from the link header on, to be changed in place. Bytes that are added or taken
    /// away here count as its end's; `push` and `pull` change its beginning.
    #[pyo3(get)]
    pub data: Py<PyByteArray>,
    /// Input of the element that it came in by.
    #[pyo3(get)]
    pub input: usize,
    /// 0 or 1: which direction of its connection.
    #[pyo3(get)]
    pub direction: u8,
    /// Number of its session, where the host knows sessions.
    #[pyo3(get)]
    pub session: Option<u32>,
    /// Scratch of its session, to be changed in place; of one length.
    #[pyo3(get)]
    pub scratch: Option<Py<PyByteArray>>,
    /// Where it leaves; none when it is dropped.
    pub output: Option<u8>,
    /// Outputs of the element.
    pub outputs: u32,
    /// Bytes by which it begins later than it did.
    pub moved: i64,
    /// Bytes by which it can still grow at its beginning.
    pub headroom: i64,
    /// Packets that leave in consequence of it.
    pub emitted: Vec<(u8, Vec<u8>)>,
}

#[pymethods]
impl Packet {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.data.bind(py).len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.data.bind(py).to_vec())
    }

    /// Other bytes, which begin where the packet does.
    #[setter]
    fn set_data(&mut self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        self.data = PyByteArray::from(data)?.unbind();
        Ok(())
    }

    /// Where it leaves, 0 at first; None when it is dropped.
    #[getter]
    fn output(&self) -> Option<u8> {
        self.output
    }

    #[setter]
    fn set_output(&mut self, output: Option<i64>) -> PyResult<()> {
        self.output = output.map(|output| checked_output(output, self.outputs)).transpose()?;
        Ok(())
    }

    /// Ends it here.
    fn drop(&mut self) {
        self.output = None;
    }

    /// Puts bytes in front of it.
    fn push(&mut self, py: Python<'_>, front: &[u8]) -> PyResult<()> {
        let len = i64::try_from(front.len()).unwrap_or(i64::MAX);
        if len > self.headroom + self.moved {
            let room = self.headroom + self.moved;
            let why = format!("{len} bytes in front: there is room for {room}");
            return Err(PyValueError::new_err(why));
        }
        let data = self.data.bind(py);
        data.as_any().set_item(pyo3::types::PySlice::new(py, 0, 0, 1), PyBytes::new(py, front))?;
        self.moved -= len;
        Ok(())
    }

    /// Takes bytes from its beginning.
    fn pull(&mut self, py: Python<'_>, count: usize) -> PyResult<()> {
        let data = self.data.bind(py);
        if count >= data.len() {
            let len = data.len();
            let why = format!("{count} bytes of {len}: at least one must stay");
            return Err(PyValueError::new_err(why));
        }
        let end = isize::try_from(count).unwrap_or(isize::MAX);
        data.as_any().del_item(pyo3::types::PySlice::new(py, 0, end, 1))?;
        self.moved += end as i64;
        Ok(())
    }

    /// Sends another packet in consequence of this one: it leaves after this one and before the
    /// next, also when this one is dropped.
    fn emit(&mut self, output: i64, data: Vec<u8>) -> PyResult<()> {
        let output = checked_packet(output, self.outputs, &data)?;
        self.emitted.push((output, data));
        Ok(())
    }
}
