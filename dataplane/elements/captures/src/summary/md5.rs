//! MD5 (RFC 1321): what distinguishes payloads in summaries. Not for anything that someone may
//! forge.

use std::fmt::Write as _;
use std::sync::LazyLock;

/// Bytes of a block.
const BLOCK: usize = 64;
/// By how many bits each of the four rounds turns a word, in turn (section 3.4).
const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
/// The state before the first block (section 3.3).
const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
/// Click's digits of 6 bits each.
const DIGITS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";

/// The constants of the steps: the sine of their number, in parts of 2^32.
static SINES: LazyLock<[u32; BLOCK]> = LazyLock::new(|| {
    std::array::from_fn(|step| (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32)
});

fn add_block(state: &mut [u32; 4], block: &[u8], sines: &[u32; BLOCK]) {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..BLOCK {
        let (mixed, word) = match step / 16 {
            0 => (b & c | !b & d, step),
            1 => (b & d | c & !d, 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        let sum = a.wrapping_add(mixed).wrapping_add(words[word % 16]).wrapping_add(sines[step]);
        let turned = sum.rotate_left(TURNS[step / 16][step % 4]);
        (a, d, c, b) = (d, c, b, b.wrapping_add(turned));
    }
    for (word, sum) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(sum);
    }
}

/// The digest of some bytes.
pub(super) fn digest(bytes: &[u8]) -> [u8; 16] {
    let (mut state, sines) = (START, &*SINES);
    let blocks = bytes.chunks_exact(BLOCK);
    let mut last = blocks.remainder().to_vec();
    blocks.for_each(|block| add_block(&mut state, block, sines));
    last.push(0x80);
    // So that the length ends a block.
    last.resize((last.len() + 8).next_multiple_of(BLOCK) - 8, 0);
    last.extend((bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    last.chunks_exact(BLOCK).for_each(|block| add_block(&mut state, block, sines));
    let mut digest = [0; 16];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

/// Appends a digest in hexadecimal digits.
pub(super) fn write_hex(digest: [u8; 16], out: &mut String) {
    digest.iter().for_each(|byte| {
        let _ = write!(out, "{byte:02x}"); // a String does not fail
    });
}

/// Appends a digest as Click writes it: 22 digits of 6 bits, the lowest first.
pub(super) fn write_text(digest: [u8; 16], out: &mut String) {
    let number = u128::from_le_bytes(digest);
    out.extend((0..22).map(|nth| char::from(DIGITS[(number >> (6 * nth) & 63) as usize])));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of RFC 1321, section A.5, and of lengths about that of a block by another program.
    #[test]
    fn known_digests() {
        let known = [
            (String::new(), "d41d8cd98f00b204e9800998ecf8427e", "u3bJz@iaYsq6aMaMSJVq_b"),
            ("abc".into(), "900150983cd24fb0d6963f7d28e17f72", "qgauyYJ0pbR1w_tFOe_FYb"),
            ("message digest".into(), "f96b697d7cb7938d525a2f31aaf161d0", ""),
            ("a".repeat(60), "cc7ed669cf88f201c3297c6a91e1d18d", "m7N1P9mIYhWWPWNArgE0nc"),
            ("x".repeat(200), "30a83621ce5422fbdfdd539777458c78", "WGQnH4mvIS@3Dp1L3veJ4b"),
        ];
        for (text, hex, short) in known {
            let mut out = [String::new(), String::new()];
            write_hex(digest(text.as_bytes()), &mut out[0]);
            write_text(digest(text.as_bytes()), &mut out[1]);
            assert_eq!(out[0], hex, "{text}");
            assert!(short.is_empty() || out[1] == short, "{text}: {}", out[1]);
        }
    }
}
