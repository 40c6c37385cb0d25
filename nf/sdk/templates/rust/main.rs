//! A network function that drops packets longer than its argument says (1000 bytes without one).
#![forbid(unsafe_code)]

use std::process::ExitCode;

use thruway_nf::{Batch, Config, Start, Verdict};

/// Makes the function: reads its arguments, names its counters. What it gives is called with every
/// batch of packets.
fn function(
    start: &mut Start<'_>,
    args: &[String],
) -> Result<impl FnMut(&mut Batch<'_>) + use<>, String> {
    let len_max: usize = match args {
        [] => 1000,
        [word] => word.parse().map_err(|_| format!("'{word}' is not a number of bytes"))?,
        _ => return Err("argument: bytes of the longest packet to pass".into()),
    };
    let dropped = start.counter("dropped");
    Ok(move |batch: &mut Batch<'_>| {
        batch.each(|packet| {
            // packet.bytes() and packet.bytes_mut() are its bytes, from the Ethernet header on.
            if packet.len() <= len_max {
                return Verdict::Next(0);
            }
            dropped.add(1);
            Verdict::Drop
        });
    })
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let config = Config { name: env!("CARGO_PKG_NAME"), ..Config::DEFAULT };
    thruway_nf::run(&config, |start| function(start, &args))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thruway_nf::trial::{Arrival, Setup};

    #[test]
    fn long_packets_are_dropped_and_counted() {
        let args = ["100".to_owned()];
        let mut trial =
            Setup::DEFAULT.thread(Config::DEFAULT, move |start| function(start, &args)).unwrap();
        let given = trial.exchange(&[&[1; 100], &[2; 101]]).unwrap();
        assert_eq!(given[0].bytes, [1; 100]);
        assert_eq!(given[1].arrival, Arrival::Dropped);
        assert_eq!(trial.counter("dropped"), Some(1));
        trial.finish().unwrap();
    }
}
