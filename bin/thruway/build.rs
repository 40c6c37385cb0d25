//! Puts the library for authors of functions into the program: `thruway nf new` works without a
//! checkout. OUT_DIR/library.rs gets the list of its files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The library's crates. Their tests stay behind, and so do what only those need.
const CRATES: &[&str] = &[
    "base/payload",
    "base/region",
    "base/sync",
    "dataplane/exchange",
    "nf/abi",
    "nf/sdk",
    "nf/sdk-c",
];

/// What else belongs to it.
const FILES: &[&str] = &[
    "Cargo.lock",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "docs/nf-authors.md",
    "docs/streams.md",
    "examples/captures/NOTICE.md",
];

/// Set for a program that is given to others: its bytes do not depend on where it was built.
const FOR_OTHERS: &str = "THRUWAY_FOR_OTHERS";

const CAPTURE: &str = "examples/captures/lan.pcap";
/// Packets of the capture that come along.
const PACKETS: usize = 500;

fn main() -> io::Result<()> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    // Without it `thruway nf new` builds against the library that the program has in it.
    println!("cargo::rerun-if-env-changed={FOR_OTHERS}");
    if env::var_os(FOR_OTHERS).is_none() {
        println!("cargo::rustc-env=THRUWAY_CHECKOUT={}", checkout.display());
    }
    let mut list = String::from("const FILES: &[(&str, &[u8])] = &[\n");
    let mut add = |name: &str, path: &Path| {
        println!("cargo::rerun-if-changed={}", path.display());
        // Writing to a string cannot fail.
        let _ = writeln!(list, "    ({name:?}, include_bytes!({path:?})),");
    };
    for name in FILES {
        add(name, &checkout.join(name));
    }
    for folder in CRATES {
        for part in ["src", "include"] {
            let part = format!("{folder}/{part}");
            println!("cargo::rerun-if-changed={}", checkout.join(&part).display());
            for name in files(&checkout, &part)? {
                add(&name, &checkout.join(&name));
            }
        }
        let name = format!("{folder}/Cargo.toml");
        add(&name, &written(&out, &name, &without_tests(&read(&checkout, &name)?))?);
    }
    let workspace = workspace(&read(&checkout, "Cargo.toml")?);
    add("Cargo.toml", &written(&out, "Cargo.toml", workspace.as_bytes())?);
    println!("cargo::rerun-if-changed={}", checkout.join(CAPTURE).display());
    let packets = first_packets(&fs::read(checkout.join(CAPTURE))?);
    add(CAPTURE, &written(&out, CAPTURE, &packets)?);
    list.push_str("];\n");
    fs::write(out.join("library.rs"), list)
}

fn read(checkout: &Path, name: &str) -> io::Result<String> {
    println!("cargo::rerun-if-changed={}", checkout.join(name).display());
    fs::read_to_string(checkout.join(name))
}

/// A file in OUT_DIR.
fn written(out: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let path = out.join(name.replace('/', "-"));
    fs::write(&path, bytes)?;
    Ok(path)
}

/// All files below a folder, sorted; none if there is no such folder.
fn files(checkout: &Path, folder: &str) -> io::Result<Vec<String>> {
    let mut all = Vec::new();
    let path = checkout.join(folder);
    if !path.is_dir() {
        return Ok(all);
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => all.extend(files(checkout, &name)?),
            false => all.push(name),
        }
    }
    all.sort();
    Ok(all)
}

/// A crate's manifest without what its tests need: some of that is not part of the library.
fn without_tests(manifest: &str) -> Vec<u8> {
    let mut kept = String::new();
    let mut keeps = true;
    for line in manifest.lines() {
        if line.starts_with('[') {
            keeps = !["dev-dependencies", "cfg(loom)"].iter().any(|word| line.contains(word));
        }
        if keeps {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept.into_bytes()
}

/// The workspace's manifest, with the library's crates as its members.
fn workspace(manifest: &str) -> String {
    let members: Vec<String> = CRATES.iter().map(|name| format!("{name:?}")).collect();
    let members = format!("members = [{}]", members.join(", "));
    let line = |line: &str| match line {
        _ if line.starts_with("members = ") => members.clone() + "\n",
        _ if line.starts_with("exclude = ") => String::new(),
        _ => line.to_owned() + "\n",
    };
    manifest.lines().map(line).collect()
}

/// The first packets of a capture (pcap, little-endian: a head of 24 bytes, then records with a
/// head of 16 bytes, in which the length is at 8).
fn first_packets(capture: &[u8]) -> Vec<u8> {
    let mut end = 24;
    for _ in 0..PACKETS {
        let Some(len) = capture.get(end + 8..end + 12) else { break };
        end += 16 + u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
    }
    capture[..end.min(capture.len())].to_vec()
}
