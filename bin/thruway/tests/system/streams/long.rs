//! What takes long: gigabytes, and all combinations of what the other tests try one by one.

use std::time::Duration;

use super::options::combinations;
use super::path::{Chain, Faults, Path};
use super::talks::{Talk, hold};
use super::trials::{ALL, SWAPS};
use crate::process::at_length;
use crate::trials::undergo;

/// Among so many connections there is one that loses the same segment six times.
const PATIENCE: Duration = Duration::from_secs(150);

/// A transfer each way at once; of more than 2 GiB where that is asked for, so that sequence
/// numbers begin anew (they count to 4 GiB, from anywhere) and pass the sign bit.
pub fn transfer(chain: &Chain<'_>) {
    let path = Path::new(chain);
    let len = if at_length() { 2200 << 20 } else { 8 << 20 };
    hold(&path, vec![Talk { is_ip6: false, ..Talk::of(1, len) }], 1);
    let both = |is_ip6| Talk { is_ip6, ..Talk::of(2, len / 10) };
    hold(&path, vec![both(true), both(false)], 2);
    path.stop();
}

/// All trials with all faults and with all combinations of options; nothing if not asked for.
pub fn everything(chain: &Chain<'_>) {
    let all = [Faults::NONE, Faults::ROUGH, Faults::JITTER, Faults::BURSTS, Faults::CONGESTED];
    for (number, faults) in all.into_iter().enumerate().filter(|_| at_length()) {
        for method in ["XDP", "LINUX"] {
            println!("faults {number} of {}, {method}", all.len());
            let mut path = Path::new(&Chain { faults, method, ..*chain });
            path.patience = PATIENCE;
            undergo(&path, ALL);
            undergo(&path, SWAPS);
            combinations(&path);
            path.stop();
        }
    }
}
