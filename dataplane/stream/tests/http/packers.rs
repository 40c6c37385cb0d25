//! Packed bodies, for the tests of this folder and for those of unpackers.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

pub fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// Deflate without a header.
pub fn raw(bytes: &[u8]) -> Vec<u8> {
    let mut packer = DeflateEncoder::new(Vec::new(), Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// A Brotli stream of uncompressed metablocks (RFC 7932 section 9.2), which needs no packer.
pub fn brotli_plain(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, chunk) in bytes.chunks(1 << 16).enumerate() {
        // WBITS 16 is one bit 0, in front of the first metablock.
        let begin = u64::from(index == 0);
        let header = ((chunk.len() as u64 - 1) << 3 | 1 << 19) << begin;
        out.extend(&header.to_le_bytes()[..3]);
        out.extend(chunk);
    }
    out.push(3);
    out
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// A frame with this descriptor, these fields in a byte, and blocks: type, bytes, the size that is
/// said (RFC 8878 section 3.1.1).
pub fn zstd_frame(descriptor: u8, field: u8, blocks: &[(u8, &[u8], usize)]) -> Vec<u8> {
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, descriptor, field];
    for (index, (kind, bytes, size)) in blocks.iter().enumerate() {
        let is_last = u32::from(index + 1 == blocks.len());
        let header = (*size as u32) << 3 | u32::from(*kind) << 1 | is_last;
        out.extend(&header.to_le_bytes()[..3]);
        out.extend_from_slice(bytes);
    }
    out
}
