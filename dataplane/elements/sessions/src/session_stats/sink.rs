//! Where records go: a file, a collector.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;

use thruway_elements_support::collector::Collector;

use super::ipfix::Exporter;
use super::record::{CSV_HEADER, Record};

/// The file's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Lines of text.
    Csv,
    /// IPFIX messages one after the other (RFC 5655).
    Ipfix,
}

/// The user's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) path: Option<String>,
    pub(super) format: Format,
    pub(super) collector: Option<SocketAddr>,
    /// Observation domain of IPFIX.
    pub(super) domain: u32,
}

/// The results of writing.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Records that were lost.
    pub(super) lost: u64,
    /// Why, at the first time.
    pub(super) error: Option<String>,
}

impl Outcome {
    /// The first failure is reported, later ones are only counted.
    fn fail(&mut self, records: u64, reported: &mut bool, why: impl FnOnce() -> String) {
        self.lost += records;
        if !std::mem::replace(reported, true) {
            self.error = Some(why());
        }
    }
}

type Out = BufWriter<Box<dyn Write + Send>>;

struct ToFile {
    path: String,
    out: Out,
    /// For IPFIX.
    exporter: Option<Exporter>,
    line: String,
    reported: bool,
}

impl ToFile {
    fn create(path: &str, format: Format, domain: u32) -> Result<ToFile, String> {
        let open = || -> io::Result<Box<dyn Write + Send>> {
            Ok(if path == "-" { Box::new(io::stdout()) } else { Box::new(File::create(path)?) })
        };
        let failed = |error| format!("cannot write '{path}': {error}");
        let mut out = BufWriter::new(open().map_err(failed)?);
        let exporter = (format == Format::Ipfix).then(|| Exporter::new(domain));
        if exporter.is_none() {
            out.write_all(CSV_HEADER.as_bytes()).map_err(failed)?;
        }
        Ok(ToFile { path: path.to_owned(), out, exporter, line: String::new(), reported: false })
    }

    fn failed(&mut self, outcome: &mut Outcome, records: u64, error: &io::Error) {
        let path = &self.path;
        outcome.fail(records, &mut self.reported, || format!("cannot write '{path}': {error}"));
    }

    fn write(&mut self, record: &Record, now: i64, outcome: &mut Outcome) {
        let Some(exporter) = &mut self.exporter else {
            self.line.clear();
            record.write_csv(&mut self.line);
            if let Err(error) = self.out.write_all(self.line.as_bytes()) {
                self.failed(outcome, 1, &error);
            }
            return;
        };
        let (out, mut failure) = (&mut self.out, None);
        exporter.add(record, now, &mut |message, count| {
            failure = out.write_all(message).err().map(|error| (error, count));
        });
        if let Some((error, count)) = failure {
            self.failed(outcome, count.into(), &error);
        }
    }

    fn flush(&mut self, now: i64, outcome: &mut Outcome) {
        let (out, mut failure) = (&mut self.out, None);
        if let Some(exporter) = &mut self.exporter {
            exporter.finish(now, &mut |message, count| {
                failure = out.write_all(message).err().map(|error| (error, count));
            });
        }
        let flushed = self.out.flush().err().map(|error| (error, 0));
        if let Some((error, count)) = failure.or(flushed) {
            self.failed(outcome, count.into(), &error);
        }
    }
}

struct ToCollector {
    collector: Collector,
    exporter: Exporter,
}

impl ToCollector {
    fn open(to: SocketAddr, domain: u32) -> Result<ToCollector, String> {
        Ok(ToCollector { collector: Collector::open(to)?, exporter: Exporter::new(domain) })
    }

    /// Adds a record to the message, or sends what is there.
    fn write(&mut self, record: Option<&Record>, now: i64, outcome: &mut Outcome) {
        let ToCollector { collector, exporter } = self;
        let mut send = |message: &[u8], count: u32| {
            if let Err(unsent) = collector.send(message) {
                outcome.lost += u64::from(count);
                outcome.error = unsent.why.or(outcome.error.take());
            }
        };
        match record {
            Some(record) => exporter.add(record, now, &mut send),
            None => exporter.finish(now, &mut send),
        }
    }
}

/// The shared output of all replicas of one element.
#[derive(Default)]
pub(super) struct Sink {
    opened: bool,
    file: Option<ToFile>,
    collector: Option<ToCollector>,
}

impl Sink {
    /// Opens what is wanted, once.
    pub(super) fn open(&mut self, wanted: &Wanted) -> Result<(), String> {
        if std::mem::replace(&mut self.opened, true) {
            return Ok(());
        }
        if let Some(path) = &wanted.path {
            self.file = Some(ToFile::create(path, wanted.format, wanted.domain)?);
        }
        if let Some(to) = wanted.collector {
            self.collector = Some(ToCollector::open(to, wanted.domain)?);
        }
        Ok(())
    }

    /// Writes a record, perhaps into a buffer.
    pub(super) fn write(&mut self, record: &Record, now: i64) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(file) = &mut self.file {
            file.write(record, now, &mut outcome);
        }
        if let Some(collector) = &mut self.collector {
            collector.write(Some(record), now, &mut outcome);
        }
        outcome
    }

    /// Writes out what is in buffers.
    pub(super) fn flush(&mut self, now: i64) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(file) = &mut self.file {
            file.flush(now, &mut outcome);
        }
        if let Some(collector) = &mut self.collector {
            collector.write(None, now, &mut outcome);
        }
        outcome
    }
}
