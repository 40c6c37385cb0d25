//! Where printing elements' lines go: to the user, or to the file that OUTFILE names.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};

use thruway_element::{Arg, ArgError, Args, Cx, Ty};
use thruway_packet::Packet;
use thruway_wire::MacAddr;

/// The argument OUTFILE.
pub(super) const OUTFILE: Arg =
    Arg::keyword("OUTFILE", Ty::OutFile, "where lines go, in place of standard error");

/// The destination of lines.
#[derive(Default)]
pub(super) struct Lines {
    name: Option<String>,
    file: Option<BufWriter<File>>,
    /// Why lines could not be written to the file.
    failed: Option<String>,
}

impl Lines {
    pub(super) fn from_args(args: &Args<'_>) -> Result<Lines, ArgError> {
        Ok(Lines { name: args.opt("OUTFILE")?, ..Lines::default() })
    }

    pub(super) fn open(&mut self) -> Result<(), String> {
        if let Some(name) = &self.name {
            let file = File::create(name).map_err(|error| format!("{name}: {error}"))?;
            self.file = Some(BufWriter::new(file));
        }
        Ok(())
    }

    pub(super) fn show(&mut self, cx: &mut Cx<'_>, line: &str) {
        match &mut self.file {
            None => cx.log(line),
            Some(file) => {
                if let Err(error) = writeln!(file, "{line}") {
                    self.failed.get_or_insert(error.to_string());
                }
            }
        }
    }

    pub(super) fn close(&mut self) -> Result<(), String> {
        let flushed = self.file.take().map_or(Ok(()), |mut file| file.flush());
        let error = self.failed.take().or(flushed.err().map(|error| error.to_string()));
        let name = self.name.as_deref().unwrap_or("");
        error.map_or(Ok(()), |error| Err(format!("{name}: {error}; some lines are lost")))
    }
}

/// Writes the addresses of the packet's Ethernet header, if it has one, as Click does: in capitals
/// and with dashes. Writing to a String does not fail.
pub(super) fn write_ether(line: &mut String, packet: &Packet) {
    if let Some(header) = packet.mac_bytes(14)
        && let Some((dst, rest)) = header.split_first_chunk()
        && let Some(src) = rest.first_chunk()
    {
        let (src, dst) = (MacAddr(*src), MacAddr(*dst));
        let _ = write!(line, "{:#} > {:#}: ", src.dashed(), dst.dashed());
    }
}
