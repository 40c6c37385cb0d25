//! The files that AggregateCounter writes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::Ipv4Addr;

/// How values and counts are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Both in decimal.
    Text,
    /// The value as an address, the count in decimal.
    Ip,
    /// Both as 32-bit little-endian numbers.
    Binary,
}

/// Writes rows of value and count to a file, `-` for standard output.
pub(super) fn write(
    name: &str,
    banner: &str,
    rows: &[(u32, u32)],
    format: Format,
    open: impl FnOnce(&str) -> io::Result<File>,
) -> io::Result<()> {
    match name {
        "" => Err(io::Error::new(io::ErrorKind::InvalidInput, "expected the name of a file")),
        "-" => write_to(&mut io::stdout().lock(), banner, rows, format),
        name => write_to(&mut BufWriter::new(open(name)?), banner, rows, format),
    }
}

fn write_to(
    out: &mut impl Write,
    banner: &str,
    rows: &[(u32, u32)],
    format: Format,
) -> io::Result<()> {
    writeln!(out, "!IPAggregate 1.0")?;
    if !banner.is_empty() {
        writeln!(out, "{}", banner.trim_end_matches('\n'))?;
    }
    writeln!(out, "!num_nonzero {}", rows.len())?;
    match format {
        Format::Text => {}
        Format::Ip => writeln!(out, "!ip")?,
        Format::Binary => writeln!(out, "!packed_le")?,
    }
    for (value, count) in rows {
        match format {
            Format::Text => writeln!(out, "{value} {count}")?,
            Format::Ip => writeln!(out, "{} {count}", Ipv4Addr::from_bits(*value))?,
            Format::Binary => {
                out.write_all(&value.to_le_bytes())?;
                out.write_all(&count.to_le_bytes())?;
            }
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let written = |banner, format| {
            let mut out = Vec::new();
            write_to(&mut out, banner, &[(1, 2), (0x0a00_0001, 3)], format).unwrap();
            out
        };
        assert_eq!(
            written("", Format::Text),
            b"!IPAggregate 1.0\n!num_nonzero 2\n1 2\n167772161 3\n"
        );
        assert_eq!(
            written("hi\n", Format::Ip),
            b"!IPAggregate 1.0\nhi\n!num_nonzero 2\n!ip\n0.0.0.1 2\n10.0.0.1 3\n"
        );
        let binary = written("", Format::Binary);
        assert!(binary.ends_with(b"!packed_le\n\x01\0\0\0\x02\0\0\0\x01\0\0\x0a\x03\0\0\0"));
    }
}
