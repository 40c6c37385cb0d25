//! What a program needs to be loaded, read from its ELF headers.
//!
//! The file is a stranger's: each number in it is checked before it is used, and what is read is
//! bounded. Format: System V gABI, chapters 4 and 5 (64-bit, little-endian).

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Most program headers that are read.
const HEADERS_MAX: u16 = 128;
/// Most entries of the dynamic section that are read.
const DYNAMIC_MAX: u64 = 4096;
/// Longest name of a library or interpreter, in bytes (PATH_MAX).
const NAME_LEN_MAX: usize = 4096;
/// Bytes of a name that are read at a time: most names are shorter.
const PIECE_LEN: usize = 64;
/// Most libraries that one file may need.
const NEEDED_MAX: usize = 256;

/// Size of a program header, and of an entry of the dynamic section, in bytes.
const HEADER_LEN: u64 = 56;
const DYNAMIC_LEN: u64 = 16;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;

/// The machine that this host's programs are for (`e_machine`).
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
/// The machine that this host's programs are for (`e_machine`).
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;

/// Bytes at offsets: a file, or memory in tests.
pub(crate) trait Bytes {
    /// Fills `into` from `offset`; `None` if there are not as many bytes.
    fn read(&self, offset: u64, into: &mut [u8]) -> Option<()>;
}

impl Bytes for File {
    fn read(&self, offset: u64, into: &mut [u8]) -> Option<()> {
        self.read_exact_at(into, offset).ok()
    }
}

impl Bytes for [u8] {
    fn read(&self, offset: u64, into: &mut [u8]) -> Option<()> {
        let begin = usize::try_from(offset).ok()?;
        into.copy_from_slice(self.get(begin..begin.checked_add(into.len())?)?);
        Some(())
    }
}

/// What the kernel and the dynamic loader will look for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Elf {
    /// The dynamic loader; none in a static program.
    pub interpreter: Option<String>,
    /// Names of libraries.
    pub needed: Vec<String>,
}

/// Why a file is not a program for this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotElf {
    /// It begins with `#!`.
    Script,
    /// It is something else, or damaged.
    Other,
    /// It is for another kind of processor.
    Machine,
}

impl NotElf {
    /// What it is, and what to do.
    pub fn why(self) -> &'static str {
        match self {
            NotElf::Script => {
                "it is a script; an isolated function is a program (ELF), which its interpreter \
                 may be: give that, the script as an argument, and READABLE for its files"
            }
            NotElf::Other => "it is not a program for this system (64-bit ELF), or it is damaged",
            NotElf::Machine => "it is a program for another kind of processor; compile it for this",
        }
    }
}

struct Header {
    sort: u32,
    offset: u64,
    address: u64,
    len: u64,
}

/// Reads what a program or library needs.
pub(crate) fn read(file: &(impl Bytes + ?Sized)) -> Result<Elf, NotElf> {
    let mut start = [0; 64];
    if file.read(0, &mut start).is_none() {
        let mut mark = [0; 2];
        let is_script = file.read(0, &mut mark).is_some() && &mark == b"#!";
        return Err(if is_script { NotElf::Script } else { NotElf::Other });
    }
    if start.starts_with(b"#!") {
        return Err(NotElf::Script);
    }
    // Magic, 64 bits, little-endian; an executable or a shared object.
    if !start.starts_with(b"\x7fELF\x02\x01") || ![2, 3].contains(&u16_at(&start, 16)) {
        return Err(NotElf::Other);
    }
    if u16_at(&start, 18) != MACHINE {
        return Err(NotElf::Machine);
    }
    contents(file, &start).ok_or(NotElf::Other)
}

fn contents(file: &(impl Bytes + ?Sized), start: &[u8; 64]) -> Option<Elf> {
    let headers = headers(file, start)?;
    let mut elf = Elf::default();
    for header in &headers {
        match header.sort {
            PT_INTERP => {
                let len = usize::try_from(header.len).ok()?.min(NAME_LEN_MAX);
                elf.interpreter = Some(name(file, header.offset, len)?);
            }
            PT_DYNAMIC => elf.needed = needed(file, header, &headers)?,
            _ => {}
        }
    }
    Some(elf)
}

fn headers(file: &(impl Bytes + ?Sized), start: &[u8; 64]) -> Option<Vec<Header>> {
    let (table, size, count) = (u64_at(start, 32), u16_at(start, 54), u16_at(start, 56));
    if u64::from(size) != HEADER_LEN || count > HEADERS_MAX {
        return None;
    }
    let mut headers = Vec::with_capacity(usize::from(count));
    for index in 0..u64::from(count) {
        let mut bytes = [0; HEADER_LEN as usize];
        file.read(table.checked_add(index * HEADER_LEN)?, &mut bytes)?;
        headers.push(Header {
            sort: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            offset: u64_at(&bytes, 8),
            address: u64_at(&bytes, 16),
            len: u64_at(&bytes, 32),
        });
    }
    Some(headers)
}

/// Names in the dynamic section, whose strings are at an address that some segment loads.
fn needed(
    file: &(impl Bytes + ?Sized),
    dynamic: &Header,
    headers: &[Header],
) -> Option<Vec<String>> {
    let mut names_at = Vec::new();
    let mut strings = None;
    for index in 0..(dynamic.len / DYNAMIC_LEN).min(DYNAMIC_MAX) {
        let mut entry = [0; DYNAMIC_LEN as usize];
        file.read(dynamic.offset.checked_add(index * DYNAMIC_LEN)?, &mut entry)?;
        match (u64_at(&entry, 0), u64_at(&entry, 8)) {
            (0, _) => break,
            (DT_NEEDED, value) => names_at.push(value),
            (DT_STRTAB, value) => strings = Some(value),
            _ => {}
        }
    }
    if names_at.is_empty() {
        return Some(Vec::new());
    }
    if names_at.len() > NEEDED_MAX {
        return None;
    }
    let strings = offset_of(strings?, headers)?;
    names_at.iter().map(|at| name(file, strings.checked_add(*at)?, 256)).collect()
}

/// Where in the file an address is loaded from.
fn offset_of(address: u64, headers: &[Header]) -> Option<u64> {
    headers.iter().filter(|header| header.sort == PT_LOAD).find_map(|header| {
        let within = address.checked_sub(header.address)?;
        if within >= header.len {
            return None;
        }
        header.offset.checked_add(within)
    })
}

/// A string that ends with a zero byte, of at most `len` bytes with it.
fn name(file: &(impl Bytes + ?Sized), offset: u64, len: usize) -> Option<String> {
    let mut bytes = Vec::new();
    // Halved near the end of the file, where less can be read.
    let mut step = PIECE_LEN;
    while bytes.len() < len {
        let mut piece = [0; PIECE_LEN];
        let piece = &mut piece[..step.min(len - bytes.len())];
        if file.read(offset.checked_add(bytes.len() as u64)?, piece).is_none() {
            step = (piece.len() > 1).then_some(piece.len() / 2)?;
            continue;
        }
        let end = piece.iter().position(|byte| *byte == 0);
        bytes.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
        if end.is_some() {
            return String::from_utf8(bytes).ok();
        }
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn own_program() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn this_test_needs_the_c_library() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let elf = read(&file).unwrap();
        assert!(elf.interpreter.as_deref().is_some_and(|path| path.starts_with("/lib")), "{elf:?}");
        assert!(elf.needed.iter().any(|name| name.starts_with("libc.so")), "{elf:?}");
    }

    #[test]
    fn what_is_no_program_is_told_apart() {
        assert_eq!(read(b"#!/bin/sh\n".as_slice()), Err(NotElf::Script));
        assert_eq!(read(b"".as_slice()), Err(NotElf::Other));
        assert_eq!(read([0x7f; 100].as_slice()), Err(NotElf::Other));
        let mut other = own_program();
        other[18] = 8;
        assert_eq!(read(other.as_slice()), Err(NotElf::Machine));
    }

    #[test]
    fn names_end_with_a_zero_byte() {
        let long = "n".repeat(200);
        for text in ["", "a", "libc.so.6", &long] {
            let file = format!("xx{text}\0y");
            assert_eq!(name(file.as_bytes(), 2, 256).as_deref(), Some(text));
            assert_eq!(name(file.as_bytes(), 2, text.len() + 1).as_deref(), Some(text));
            assert_eq!(name(file.as_bytes(), 2, text.len()), None);
            assert_eq!(name(&file.as_bytes()[..2 + text.len()], 2, 256), None);
        }
        assert_eq!(name(b"a\0".as_slice(), u64::MAX, 256), None);
        assert_eq!(name(b"\xff\0".as_slice(), 0, 256), None);
    }

    proptest! {
        /// A damaged program gives an answer or an error, never a panic or a long search.
        #[test]
        fn damage_is_survived(
            changes in prop::collection::vec((0_usize..2048, any::<u8>()), 1..20),
            len in 0_usize..8192,
        ) {
            static PROGRAM: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(own_program);
            let mut bytes = PROGRAM[..PROGRAM.len().min(1 << 16)].to_vec();
            for (at, value) in changes {
                bytes[at] = value;
            }
            let _ = read(bytes.as_slice());
            bytes.truncate(len);
            let _ = read(bytes.as_slice());
        }
    }
}
