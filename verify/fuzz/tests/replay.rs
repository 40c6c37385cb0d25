//! All inputs that the fuzzer was given or that it found, and what it found wrong once; and a few
//! mutations of each, the same every time.

use std::path::{Path, PathBuf};

use thruway_fuzz::{TARGETS, Target};
use thruway_random::Random;

/// Mutations of each input.
const MUTATIONS: usize = 3;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The inputs in a folder for a target, in the order of their names.
fn inputs(kind: &str, target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder(kind).join(target.name)) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
}

fn mutated(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.index(4) {
        let at = random.index(bytes.len().max(1));
        match random.index(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at.min(bytes.len()), random.next_u64() as u8),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.next_u64() as u8),
        }
    }
    bytes
}

#[test]
fn what_was_found_stays_mended() {
    for target in TARGETS {
        for (path, bytes) in inputs("regressions", target) {
            println!("{}", path.display());
            (target.run)(&bytes);
        }
    }
}

#[test]
fn the_corpus_and_what_is_near_it() {
    let mut random = Random::from_seed(0x9e37_79b9_7f4a_7c15);
    for target in TARGETS {
        let inputs = inputs("corpus", target);
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for (path, bytes) in inputs {
            // What a failure is about: the harness prints it.
            println!("{}", path.display());
            (target.run)(&bytes);
            for _ in 0..MUTATIONS {
                let bytes = mutated(&bytes, &mut random);
                println!("  mutated: {bytes:02x?}");
                (target.run)(&bytes);
            }
        }
    }
}

#[test]
fn the_corpus_is_small_and_belongs_to_targets() {
    let mut len = 0;
    for kind in ["corpus", "regressions"] {
        for entry in std::fs::read_dir(folder(kind)).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let target = TARGETS.iter().find(|target| target.name == name);
            let target = target.unwrap_or_else(|| panic!("{}: no such target", path.display()));
            len += inputs(kind, target).iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        }
    }
    assert!(len < 1 << 20, "{len} bytes: minimise it, scripts/fuzz --minimise");
    assert!(TARGETS.is_sorted_by_key(|target| target.name));
}
