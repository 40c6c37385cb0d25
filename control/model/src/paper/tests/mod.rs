mod formulas;
mod models;
mod page;
mod properties;

use super::*;
use crate::Hardware;

fn host() -> (Hardware, Mapping) {
    let hardware = hardware();
    let mapping = Mapping::of(&hardware, "xeon").unwrap();
    (hardware, mapping)
}

fn size(bytes: u32) -> Size {
    Size::fixed(bytes)
}

fn table(components: u32, entry: u32, max: u64, collision: f64) -> HashTable {
    HashTable { components, entry: size(entry), max, collision }
}
