//! Arguments and handlers that ARPQuerier and IP6NDSolicitor have in common.

use std::fmt::Write;

use thruway_element::{Arg, ArgErrors, Args, HandlerError, Names, Nanos, Ty};
use thruway_wire::MacAddr;

use super::{Address, ENTRIES_MAX, Limits, Shared};

/// Arguments of a table of neighbours; [`limits`] reads them.
pub const CAPACITY: Arg =
    Arg::keyword("CAPACITY", Ty::UInt, "packets that may wait; 0 for no bound").or("2048");
/// See [`CAPACITY`].
pub const ENTRY_CAPACITY: Arg =
    Arg::keyword("ENTRY_CAPACITY", Ty::UInt, "addresses; 0 for the most there are").or("0");
/// See [`CAPACITY`].
pub const ENTRY_PACKET_CAPACITY: Arg =
    Arg::keyword("ENTRY_PACKET_CAPACITY", Ty::UInt, "packets that may wait for one address")
        .or("0");
/// See [`CAPACITY`].
pub const CAPACITY_SLIM_FACTOR: Arg =
    Arg::keyword("CAPACITY_SLIM_FACTOR", Ty::UInt, "1/n of the packets go at CAPACITY").or("2");

/// Nanoseconds between two looks for old entries.
pub const EXPIRE_EVERY: i64 = 1_000_000_000;

/// The bounds by the arguments that ARPQuerier and IP6NDSolicitor have in common.
pub fn limits(args: &Args<'_>, query_intervals: (i64, i64)) -> Result<Limits, ArgErrors> {
    let slim_factor: usize = args.get("CAPACITY_SLIM_FACTOR")?;
    if slim_factor == 0 {
        return Err(args.error("CAPACITY_SLIM_FACTOR", "must be at least 1").into());
    }
    let entries = match args.get::<usize>("ENTRY_CAPACITY")? {
        0 => ENTRIES_MAX,
        n => n.min(ENTRIES_MAX),
    };
    let timeout = match args.get::<Nanos>("TIMEOUT")? {
        Nanos(n @ 0..) => n,
        _ => return Err(args.error("TIMEOUT", "must not be negative").into()),
    };
    Ok(Limits {
        packets: args.get("CAPACITY")?,
        entries,
        entry_packets: args.get("ENTRY_PACKET_CAPACITY")?,
        slim_factor,
        timeout,
        poll_timeout: 0,
        query_interval: query_intervals.0,
        query_interval_late: query_intervals.1,
    })
}

/// The same with POLL_TIMEOUT, which is the questioner's.
pub fn limits_and_poll(args: &Args<'_>, intervals: (i64, i64)) -> Result<Limits, ArgErrors> {
    let poll_timeout = match args.get::<Nanos>("POLL_TIMEOUT")? {
        Nanos(n @ 0..) => n,
        _ => return Err(args.error("POLL_TIMEOUT", "must not be negative").into()),
    };
    Ok(Limits { poll_timeout, ..limits(args, intervals)? })
}

/// ETH, or in the short form the Ethernet address that goes by the name of IP.
pub fn own_mac(args: &Args<'_>) -> Result<MacAddr, ArgErrors> {
    if let Some(mac) = args.opt("ETH")? {
        return Ok(mac);
    }
    let name = args.text("IP").unwrap_or_default();
    args.parse(name).map_err(|why| args.error("ETH", format!("{why}; give ETH")).into())
}

/// Parses the words of an `insert` or `delete` handler.
fn words<const N: usize>(name: &str, value: &str) -> Result<[String; N], HandlerError> {
    let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
    let wanted = if N == 1 { "an address" } else { "an address and an Ethernet address" };
    words.try_into().map_err(|_| HandlerError::refused(format!("{name}: expected {wanted}")))
}

/// The `table` handler: a line per address, the oldest first.
fn table_text<A: Address>(shared: &Shared<A>, now: i64) -> String {
    let mut text = String::new();
    shared.show(now, |row| {
        let (seconds, micros) = (row.age / 1_000_000_000, row.age / 1_000 % 1_000_000);
        let mac = row.mac.dashed();
        let known = u8::from(row.known);
        let _ = writeln!(text, "{} {known} {mac:#} {seconds}.{micros:06}", row.key);
    });
    text
}

/// The read handlers that both have; `None` for any other.
pub fn read<A: Address>(shared: &Shared<A>, drops: u64, now: i64, name: &str) -> Option<String> {
    let (count, length) = shared.counts();
    Some(match name {
        "table" => table_text(shared, now),
        "drops" => drops.to_string(),
        "count" => count.to_string(),
        "length" => length.to_string(),
        _ => return None,
    })
}

/// The entry that handler `insert` or `delete` is to make: an address and where it is, the
/// broadcast address if nowhere.
pub fn change<A: Address>(
    names: &Names,
    name: &str,
    value: &str,
) -> Result<(A, MacAddr), HandlerError> {
    match name {
        "insert" => {
            let [address, mac] = words(name, value)?;
            Ok((names.handler_value(name, &address)?, names.handler_value(name, &mac)?))
        }
        "delete" => {
            let [address] = words(name, value)?;
            Ok((names.handler_value(name, &address)?, MacAddr::BROADCAST))
        }
        _ => Err(HandlerError::no_write(name)),
    }
}
