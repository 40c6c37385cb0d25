use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::super::unpack::{Bounds, Coding, Unpacker};
use super::*;

use super::super::packers::{zstd, zstd_frame};

/// What is unpacked, and after how many bytes there was how much of it.
fn steps(packed: &[u8], step: usize) -> Result<(Vec<u8>, Vec<usize>), Fault> {
    let bounds = Bounds { ratio: u32::MAX, ..Bounds::DEFAULT };
    let (mut unpacker, mut out, mut sizes) = (Unpacker::new(Coding::Zstd), Vec::new(), Vec::new());
    for piece in packed.chunks(step) {
        let most = Bounds::of_packet(piece.len());
        unpacker.feed(piece, &bounds, (&mut out, most))?;
        sizes.push(out.len());
    }
    unpacker.finish().map(|()| (out, sizes))
}

/// Text that does not repeat soon, and repeats from far away.
fn text(len: usize, period: usize) -> Vec<u8> {
    let word = |n: usize| (n % period).wrapping_mul(0x9e37_79b9) >> 7;
    (0..len / 4 + 1).flat_map(|n| (word(n) as u32 & 0x0fff_ffff).to_le_bytes()).take(len).collect()
}

/// Every block is there as soon as it has come, and is right, over many windows.
#[test]
fn content_is_there_block_by_block() {
    for (len, period) in [(3 << 20, 1000), (3 << 20, 30_000), (10 << 20, 100_000)] {
        let plain = text(len, period);
        let (out, sizes) = steps(&zstd(&plain), 256).unwrap();
        assert!(out == plain, "{len} {period}");
        let most = sizes.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(most <= 1 << 20, "{most}");
    }
    let blocks = [(RAW, &b"one "[..], 4), (RAW, b"two ", 4), (RLE, b"a", 3)];
    let frame = zstd_frame(0, 0, &blocks);
    let sizes = steps(&frame, 1).unwrap().1;
    assert_eq!(sizes, [[0; 12].as_slice(), &[4; 7], &[8; 3], &[8], &[11]].concat());
}

/// What the program `zstd` makes of bytes with these options; nothing where it is not there.
fn by_program(plain: &[u8], options: &[&str]) -> Option<Vec<u8>> {
    let mut command = Command::new("zstd");
    command.args(["-q", "-c"]).args(options).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().ok()?;
    let mut into = process.stdin.take().unwrap();
    let done = std::thread::scope(|scope| {
        scope.spawn(move || into.write_all(plain).unwrap());
        process.wait_with_output().unwrap()
    });
    assert!(done.status.success());
    Some(done.stdout)
}

/// Windows of 512 KiB to 8 MiB, of which one is forgotten, and matches from as far away.
#[test]
fn what_the_program_packs_unpacks() {
    for (options, period) in
        [(&["-1"][..], 100_000), (&["-3", "--check"], 400_000), (&["-6", "--long=23"], 1_500_000)]
    {
        let plain = text(12 << 20, period);
        let Some(packed) = by_program(&plain, options) else {
            return eprintln!("SKIPPED: the program zstd is not there");
        };
        // A block that is one match has 20 bytes, and a packet with many of them would be a bomb.
        let (out, _) = steps(&packed, 16).unwrap();
        assert!(out == plain, "{options:?} {period} {}", packed.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Small windows, which are forgotten often.
    #[test]
    fn windows_are_put_back(
        parts in prop::collection::vec((0..3u8, 1..1024usize, any::<u8>()), 1..900),
        step in 1..3000usize,
    ) {
        let plain: Vec<Vec<u8>> = parts.iter().map(|(kind, len, byte)| match kind {
            0 => vec![*byte; *len],
            _ => (0..*len).map(|at| byte.wrapping_add(at as u8)).collect(),
        }).collect();
        let blocks: Vec<(u8, &[u8], usize)> = plain.iter().zip(&parts).map(|(bytes, (kind, ..))| {
            match kind {
                0 => (RLE, &bytes[..1], bytes.len()),
                _ => (RAW, &bytes[..], bytes.len()),
            }
        }).collect();
        let (out, _) = steps(&zstd_frame(0, 0, &blocks), step).unwrap();
        prop_assert_eq!(out, plain.concat());
    }

    /// Where a bit of it is wrong, it is refused or something else comes out; nothing panics.
    #[test]
    fn wrong_frames(at in any::<prop::sample::Index>(), bit in 0..8u32, step in 1..200usize) {
        let mut packed = zstd(&text(3000, 200));
        let at = at.index(packed.len());
        packed[at] ^= 1 << bit;
        let _ = steps(&packed, step);
    }
}

/// What `zstd -19 --check` makes of `the word, ` nine times: a match, a sum.
const CHECKED: &[u8] = include_bytes!("checked.zst");

#[test]
fn lengths_and_sums_are_true_or_refused() {
    let plain = b"the word, ".repeat(9);
    for step in [1, 5, 100] {
        assert_eq!(steps(CHECKED, step).unwrap().0, plain);
    }
    let len = CHECKED.len();
    let mut wrong = CHECKED.to_vec();
    wrong[len - 1] ^= 1;
    assert_eq!(steps(&wrong, 100), Err(Fault::BadCoding));
    assert_eq!(steps(&CHECKED[..len - 1], 100), Err(Fault::BadCoding));
    // One byte says how many there are: less, more.
    for declared in [3, 5] {
        let frame = zstd_frame(0x20, declared, &[(RAW, b"word", 4)]);
        assert_eq!(steps(&frame, 100), Err(Fault::BadCoding), "{declared}");
    }
    assert_eq!(steps(&zstd_frame(0x20, 4, &[(RAW, b"word", 4)]), 100).unwrap().0, b"word");
}

#[test]
fn what_is_no_frame_is_refused() {
    let word: &[(u8, &[u8], usize)] = &[(RAW, b"word", 4)];
    for (frame, why) in [
        (zstd_frame(0, 0x69, word), "a window of more than 8 MiB"),
        (zstd_frame(8, 0, word), "a reserved bit"),
        (zstd_frame(0, 0, &[(3, b"word", 4)]), "a reserved type"),
        (zstd_frame(0, 0, &[(RAW, &[0; 1025], 1025)]), "a block of more than a window"),
        (zstd_frame(0, 0x68, &[(RLE, b"a", (128 << 10) + 1)]), "a block of more than 128 KiB"),
        (zstd_frame(0, 0, &[(COMPRESSED, &[0, 255, 255, 255], 4)]), "too many sequences"),
        (zstd_frame(0, 0, &[(COMPRESSED, b"nonsense", 8)]), "a block that is none"),
        (zstd_frame(1, 0, &[]), "a dictionary"),
        (vec![0x27, 0xb5, 0x2f, 0xfd, 0xe0, 1, 2, 3], "an older format"),
    ] {
        let frame = if why == "a dictionary" { [frame, vec![7, 1, 0, 0]].concat() } else { frame };
        assert_eq!(steps(&frame, 3).map(|_| ()), Err(Fault::BadCoding), "{why}");
    }
    // What is said to be skipped takes no memory, however long.
    let skipped = [0x5f, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff, 1, 2, 3];
    assert_eq!(steps(&skipped, 2), Err(Fault::BadCoding), "cut short");
    // A frame costs work, whatever it makes.
    let frames = zstd_frame(0, 0, &[(RAW, b"", 0)]).repeat(5000);
    assert_eq!(steps(&frames, frames.len()), Err(Fault::Bomb));
    assert!(steps(&frames, 1460).is_ok());
}
