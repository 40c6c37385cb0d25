use proptest::prelude::*;

use super::super::inflate::STEP;
use super::*;

use super::super::packers::{brotli_plain, gzip, raw, zlib, zstd, zstd_frame};

const TEXT: &[u8] = b"the quick brown fox jumps over the lazy dog, the quick brown fox";

fn unpack(coding: Coding, packed: &[u8], step: usize) -> Result<Vec<u8>, Fault> {
    let (mut unpacker, mut out) = (Unpacker::new(coding), Vec::new());
    for piece in packed.chunks(step.max(1)) {
        let most = Bounds::of_packet(piece.len());
        unpacker.feed(piece, &Bounds::DEFAULT, (&mut out, most))?;
    }
    unpacker.finish().map(|()| out)
}

proptest! {
    #[test]
    fn what_was_packed_comes_out(
        bytes in prop::collection::vec(0..20u8, 0..3000),
        step in 1..200usize,
    ) {
        let members = [gzip(&bytes), gzip(b"more")].concat();
        prop_assert_eq!(unpack(Coding::Gzip, &members, step), Ok([&bytes[..], b"more"].concat()));
        prop_assert_eq!(unpack(Coding::Deflate, &zlib(&bytes), step), Ok(bytes.clone()));
        prop_assert_eq!(unpack(Coding::Deflate, &raw(&bytes), step), Ok(bytes.clone()));
        let frames = [zstd(&bytes), vec![0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9], zstd(b"more")];
        let more = [&bytes[..], b"more"].concat();
        prop_assert_eq!(unpack(Coding::Zstd, &frames.concat(), step), Ok(more));
        if !bytes.is_empty() {
            prop_assert_eq!(unpack(Coding::Brotli, &brotli_plain(&bytes), step), Ok(bytes));
        }
    }

    #[test]
    fn nothing_makes_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..300), step in 1..50usize) {
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
            let _ = unpack(coding, &bytes, step);
        }
    }

    /// Where a bit of it is wrong, other bytes never come out without a fault.
    #[test]
    fn wrong_gzip_is_found(at in any::<prop::sample::Index>(), bit in 0..8u32) {
        let mut packed = gzip(TEXT);
        let at = at.index(packed.len());
        packed[at] ^= 1 << bit;
        if let Ok(out) = unpack(Coding::Gzip, &packed, 7) {
            prop_assert_eq!(out, TEXT);
        }
    }
}

#[test]
fn headers_with_all_fields() {
    let mut packed = vec![0x1f, 0x8b, 8, HEADER_ALL, 0, 0, 0, 0, 0, 3];
    packed.extend([3, 0, 1, 2, 3]);
    packed.extend(b"name\0comment\0\x12\x34");
    packed.extend(&gzip(TEXT)[10..]);
    for step in [1, 2, 5, 1000] {
        assert_eq!(unpack(Coding::Gzip, &packed, step), Ok(TEXT.to_vec()), "{step}");
    }
    for cut in 1..packed.len() {
        assert_eq!(unpack(Coding::Gzip, &packed[..cut], 9), Err(Fault::BadCoding), "{cut}");
    }
}

const HEADER_ALL: u8 = 0b1_1110;

#[test]
fn what_is_not_packed_is_refused() {
    for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
        let plain = unpack(coding, b"the forbidden word, as it is", 1000);
        assert_eq!(plain, Err(Fault::BadCoding), "{coding:?}");
    }
    let behind = [gzip(TEXT), b"plain".to_vec()].concat();
    assert_eq!(unpack(Coding::Gzip, &behind, 1000), Err(Fault::BadCoding));
    let behind = [raw(TEXT), b"plain".to_vec()].concat();
    assert_eq!(unpack(Coding::Deflate, &behind, 1000), Err(Fault::BadCoding));
}

#[test]
fn bombs_end_by_the_bound() {
    let bomb = gzip(&vec![0; 64 << 20]);
    assert!(bomb.len() < 70_000);
    for step in [100, 1460, 9000] {
        let (mut unpacker, mut made, mut end) = (Unpacker::new(Coding::Gzip), 0, Ok(()));
        for piece in bomb.chunks(step) {
            let mut out = Vec::new();
            let most = Bounds::of_packet(step);
            end = unpacker.feed(piece, &Bounds::DEFAULT, (&mut out, most));
            assert!(out.len() <= most + STEP, "{step}: {}", out.len());
            made += out.len();
            if end.is_err() {
                break;
            }
        }
        assert_eq!(end, Err(Fault::Bomb), "{step}");
        assert!(made < 4 << 20, "{step}: {made}");
    }
    // Blocks of four bytes that make 128 KiB each.
    let bomb = zstd_frame(0, 0x50, &[(1, &b"a"[..], 128 << 10); 64]);
    let mut unpacker = Unpacker::new(Coding::Zstd);
    let fed = unpacker.feed(&bomb, &Bounds::DEFAULT, (&mut Vec::new(), usize::MAX / 2));
    assert_eq!(fed, Err(Fault::Bomb));
    let (mut unpacker, mut out) = (Unpacker::new(Coding::Zstd), Vec::new());
    let fed = unpacker.feed(&bomb, &Bounds::DEFAULT, (&mut out, Bounds::of_packet(bomb.len())));
    assert_eq!(fed, Err(Fault::Bomb));
    assert!(out.len() <= (1 << 20) + (130 << 10));
    let small = Bounds { bytes: 1000, ..Bounds::DEFAULT };
    let mut unpacker = Unpacker::new(Coding::Deflate);
    let fed = unpacker.feed(&zlib(&[7; 1001]), &small, (&mut Vec::new(), 5000));
    assert_eq!(fed, Err(Fault::Bomb));
}

#[test]
fn memory_of_all_is_bounded() {
    let bounds = Bounds { memory: INFLATE_COST * 2 + 1000, ..Bounds::DEFAULT };
    let mut all = Unpackers::default();
    let mut one = all.open(Coding::Gzip, &bounds).unwrap();
    let two = all.open(Coding::Deflate, &bounds).unwrap();
    assert_ne!(one, two);
    assert_eq!(all.open(Coding::Gzip, &bounds), Err(Fault::UnpackMemory));
    all.close(&mut one);
    assert_eq!((one, all.memory()), (0, INFLATE_COST));
    assert!(all.open(Coding::Gzip, &bounds).is_ok());
    // A window of 16 MiB, which the first byte asks for.
    let bounds = Bounds { memory: 1 << 20, ..Bounds::DEFAULT };
    let mut all = Unpackers::default();
    let brotli = all.open(Coding::Brotli, &bounds).unwrap();
    let fed = all.feed(brotli, (&[0x0f], &bounds), (&mut Vec::new(), 1000));
    assert_eq!(fed, Err(Fault::UnpackMemory));
    // One of 8 MiB that is only said to be there costs nothing; what it holds does.
    let mut all = Unpackers::default();
    let mut zstd = all.open(Coding::Zstd, &bounds).unwrap();
    let begin = zstd_frame(0, 0x68, &[(1, b"a", 64 << 10)]);
    let blocks = zstd_frame(0, 0x68, &[(1, &b"a"[..], 128 << 10); 8]);
    let small = all.feed(zstd, (&begin, &bounds), (&mut Vec::new(), 1 << 20));
    assert_eq!((small, all.memory() < 600 << 10), (Ok(()), true), "{}", all.memory());
    let fed = all.feed(zstd, (&blocks, &bounds), (&mut Vec::new(), 4 << 20));
    assert_eq!(fed, Err(Fault::UnpackMemory));
    all.close(&mut zstd);
    assert_eq!(all.memory(), 0);
}
