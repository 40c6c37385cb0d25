//! A batch as Python sees it.

use std::collections::HashMap;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::context::{Context, checked_output};
use crate::packet::Packet;

/// A packet as it came.
#[derive(Debug, Clone)]
pub(crate) struct Came {
    pub bytes: Vec<u8>,
    pub input: usize,
    pub direction: u8,
    pub session: Option<u32>,
    pub headroom: usize,
}

/// Packets that wait, in their order. Those that are not looked at go on unchanged, by output 0.
#[pyclass(extends = Context, module = "thruway_nf")]
pub(crate) struct Batch {
    pub came: Vec<Came>,
    /// Packets that were looked at one by one.
    pub packets: Vec<Option<Py<Packet>>>,
    /// By session: its scratch, the same object for all of its packets.
    pub scratch: HashMap<u32, Py<PyByteArray>>,
    /// What `send` said: outputs, and none for a drop.
    pub sent: Option<Vec<Option<u8>>>,
    /// The array of first bytes, and how many of each packet.
    pub heads: Option<(usize, Py<PyByteArray>)>,
}

impl Batch {
    pub fn new(came: Vec<Came>, scratch: HashMap<u32, Py<PyByteArray>>) -> Batch {
        let packets = (0..came.len()).map(|_| None).collect();
        Batch { came, packets, scratch, sent: None, heads: None }
    }

    fn packet(
        &mut self,
        py: Python<'_>,
        index: usize,
        outputs: u32,
    ) -> PyResult<Option<Py<Packet>>> {
        let Some(came) = self.came.get(index) else { return Ok(None) };
        if self.heads.is_some() {
            let why = "a batch is taken packet by packet, or by heads(), not both";
            return Err(PyValueError::new_err(why));
        }
        if let Some(Some(packet)) = self.packets.get(index) {
            return Ok(Some(packet.clone_ref(py)));
        }
        let scratch = came.session.and_then(|session| self.scratch.get(&session));
        let packet = Py::new(
            py,
            Packet {
                data: PyByteArray::new(py, &came.bytes).unbind(),
                input: came.input,
                direction: came.direction,
                session: came.session,
                scratch: scratch.map(|scratch| scratch.clone_ref(py)),
                output: Some(0),
                outputs,
                moved: 0,
                headroom: came.headroom as i64,
                emitted: Vec::new(),
            },
        )?;
        self.packets[index] = Some(packet.clone_ref(py));
        Ok(Some(packet))
    }
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.came.len()
    }

    fn __getitem__(mut this: PyRefMut<'_, Self>, index: isize) -> PyResult<Py<Packet>> {
        let (py, outputs) = (this.py(), this.as_super().outputs);
        let len = this.came.len();
        let from_start = if index < 0 { index + len as isize } else { index };
        let index = usize::try_from(from_start).unwrap_or(len);
        let packet = this.packet(py, index, outputs)?;
        packet.ok_or_else(|| PyIndexError::new_err(format!("the batch has {len} packets")))
    }

    /// The first `n` bytes of all packets: an array of numpy, a row for each, zeros behind short
    /// ones. What is changed in it is changed in the packets.
    fn heads(mut this: PyRefMut<'_, Self>, n: usize) -> PyResult<Py<PyAny>> {
        let py = this.py();
        if n == 0 || n > 65_535 {
            return Err(PyValueError::new_err("heads(n): n must be from 1 to 65535"));
        }
        if this.packets.iter().any(Option::is_some) || this.heads.is_some() {
            let why = "a batch is taken packet by packet, or by heads(), once, not both";
            return Err(PyValueError::new_err(why));
        }
        let rows = first_bytes(&this.came, n);
        let bytes = PyByteArray::new(py, &rows);
        this.heads = Some((n, bytes.clone().unbind()));
        let array = py.import("numpy")?.call_method1("frombuffer", (bytes, "uint8"))?;
        Ok(array.call_method1("reshape", (this.came.len(), n))?.unbind())
    }

    /// The lengths of all packets, as an array of numpy.
    #[getter]
    fn lengths(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let lengths: Vec<usize> = self.came.iter().map(|came| came.bytes.len()).collect();
        Ok(py.import("numpy")?.call_method1("array", (lengths, "uint16"))?.unbind())
    }

    /// Says where all packets leave: a number for each, its output, or -1 to drop it.
    fn send(mut this: PyRefMut<'_, Self>, outputs: Vec<i64>) -> PyResult<()> {
        let len = this.came.len();
        if outputs.len() != len {
            let given = outputs.len();
            let why = format!("send(): {given} outputs for a batch of {len} packets");
            return Err(PyValueError::new_err(why));
        }
        let there = this.as_super().outputs;
        let checked = |output: i64| match output {
            -1 => Ok(None),
            _ => checked_output(output, there).map(Some),
        };
        let sent = outputs.into_iter().map(checked).collect::<PyResult<_>>()?;
        this.sent = Some(sent);
        Ok(())
    }
}

/// So many first bytes of each packet, zeros behind short ones.
pub(crate) fn first_bytes(came: &[Came], n: usize) -> Vec<u8> {
    let mut rows = vec![0; came.len() * n];
    for (row, came) in rows.chunks_mut(n).zip(came) {
        let len = n.min(came.bytes.len());
        row[..len].copy_from_slice(&came.bytes[..len]);
    }
    rows
}
