//! A capture as a sink of packets: what ToDump and capture ports share.

use std::sync::Arc;

use parking_lot::Mutex;
use thruway_element::Args;
use thruway_packet::{Anno, Batch};
use thruway_port::capture::{CaptureWriter, WriterOptions};

/// A capture file that is written by every thread that reaches the element.
pub struct CaptureOut {
    path: String,
    /// `None` before it is created and after it is finished.
    writer: Arc<Mutex<Option<CaptureWriter>>>,
    /// Whether each batch goes out at once.
    unbuffered: bool,
    /// Whether what a capture left out counts into the packets' length on the wire.
    extra_length: bool,
    /// Packets that could not be written since writing first failed.
    lost: u64,
}

/// The fate of a batch.
pub struct Written {
    /// Packets in the file or its buffer.
    pub packets: usize,
    /// Their bytes, as they came in.
    pub bytes: u64,
    /// Why the rest could not be written; only at the first failure.
    pub error: Option<String>,
}

impl CaptureOut {
    /// The file at `path`, not created yet; its replicas write to one file.
    pub fn new(args: &Args<'_>, path: String) -> CaptureOut {
        let writer = args.shared("capture", || Mutex::new(None));
        CaptureOut { path, writer, unbuffered: false, extra_length: true, lost: 0 }
    }

    /// The same, with each batch written at once, or with extra length left out.
    pub fn with(self, unbuffered: bool, extra_length: bool) -> CaptureOut {
        CaptureOut { unbuffered, extra_length, ..self }
    }

    /// The file's name as given.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Creates the file, once.
    pub fn create(&mut self, options: &WriterOptions) -> Result<(), String> {
        let mut writer = self.writer.lock();
        if writer.is_none() {
            let created = CaptureWriter::create(&self.path, options);
            *writer = Some(created.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    /// Writes a batch; packets without a time get `now`.
    pub fn write(&mut self, batch: &Batch, now: i64) -> Written {
        let mut done = Written { packets: 0, bytes: 0, error: None };
        let failure = {
            let mut writer = self.writer.lock();
            match writer.as_mut() {
                Some(writer) => self.write_all(writer, batch, now, &mut done).err(),
                None => Some(format!("'{}' is closed", self.path)),
            }
        };
        if let Some(failure) = failure {
            done.error = (self.lost == 0).then_some(failure);
            self.lost += (batch.len() - done.packets) as u64;
        }
        done
    }

    fn write_all(
        &self,
        writer: &mut CaptureWriter,
        batch: &Batch,
        now: i64,
        done: &mut Written,
    ) -> Result<(), String> {
        for packet in batch {
            let time = if packet.timestamp() == 0 { now } else { packet.timestamp() };
            let extra = match self.extra_length {
                true => packet.anno_number(Anno::EXTRA_LENGTH),
                false => 0,
            };
            let wire_len = (packet.len() as u32).saturating_add(extra);
            let time = u64::try_from(time).unwrap_or(0);
            writer.write(time, packet.data(), wire_len).map_err(|error| error.to_string())?;
            done.packets += 1;
            done.bytes += packet.len() as u64;
        }
        match self.unbuffered {
            true => writer.flush().map_err(|error| error.to_string()),
            false => Ok(()),
        }
    }

    /// Writes out what is buffered.
    pub fn flush(&mut self) -> Result<(), String> {
        match self.writer.lock().as_mut() {
            Some(writer) => writer.flush().map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    /// Writes out the rest and closes the file.
    pub fn finish(&mut self) -> Result<(), String> {
        let writer = self.writer.lock().take();
        let finished = writer.map_or(Ok(()), |writer| writer.finish());
        finished.map_err(|error| match self.lost {
            0 => error.to_string(),
            lost => format!("{error}; {lost} packets were not written"),
        })
    }
}
