//! Following packets in a Thruway that runs already, through its ControlSocket.

use std::time::{Duration, Instant};

use thruway_sync::atomic::{AtomicBool, Ordering};

use super::args::{Wanted, name};
use super::collect::Collected;
use crate::reach::reach;

/// How often it is asked what was seen.
const LOOK: Duration = Duration::from_millis(50);

/// Traces until all was seen; why it ended earlier, if it did.
pub fn follow(
    address: &str,
    wanted: &Wanted<'_>,
    over: &AtomicBool,
    collected: &mut Collected,
) -> anyhow::Result<Option<String>> {
    let mut client = reach(address)?;
    let name = name();
    client.write("trace", &wanted.start(&name))?;
    let begin = Instant::now();
    let ask = format!("trace {name}");
    let mut last = false;
    loop {
        match client.read(&ask) {
            Ok(answer) => collected.take(&answer)?,
            Err(error) => return Ok(Some(why(address, &ask, &error))),
        }
        if last && collected.knows_time() {
            break;
        }
        let late = wanted.limit.is_some_and(|limit| begin.elapsed() >= limit);
        last = last || late || over.load(Ordering::Relaxed) || collected.is_done();
        std::thread::sleep(LOOK);
    }
    // A client that is gone traces no more.
    let _ = client.write("trace", &format!("stop {name}"));
    Ok(None)
}

/// Why an answer did not come.
fn why(address: &str, ask: &str, error: &anyhow::Error) -> String {
    match reach(address) {
        // Another configuration answers by now.
        Ok(mut client) => match client.read(ask) {
            Ok(_) => format!("the connection broke: {error}"),
            Err(error) if error.to_string().contains("no trace") => {
                "the configuration was replaced meanwhile; this was seen until then".to_owned()
            }
            Err(error) => format!("it ended early: {error}"),
        },
        Err(_) => format!("the Thruway at '{address}' ended; this was seen until then"),
    }
}
