//! Sends a frame of its own whenever nothing has passed for a while, so that the other end of a
//! link knows that this one lives.
//!
//! `Nf(EXEC "keep_alive 500")`: after 500 ms of silence. Handlers: `period`, to read and write.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use thruway_nf::{Batch, Config, Counter, Cx, Function, Timer};

/// From nobody, to the nearest bridge, of the type for experiments (IEEE 802, clause 9.2.4).
const FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    [frame[0], frame[1], frame[2], frame[5], frame[6]] = [0x01, 0x80, 0xc2, 0x0e, 0x02];
    [frame[12], frame[13]] = [0x88, 0xb5];
    frame
};

struct KeepAlive {
    period: Duration,
    has_traffic: bool,
    sent: Counter,
}

impl Function for KeepAlive {
    fn batch(&mut self, _batch: &mut Batch<'_>) {
        // What is left in a batch goes on unchanged.
        self.has_traffic = true;
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _timer: Timer) {
        if !std::mem::take(&mut self.has_traffic) && cx.inject(0, &FRAME).is_ok() {
            self.sent.add(1);
        }
        cx.after(self.period);
    }

    fn read(&mut self, handler: &str, _parameter: &str) -> Result<String, String> {
        match handler {
            "period" => Ok(self.period.as_millis().to_string()),
            _ => Err(format!("no handler '{handler}'; there is: period")),
        }
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        match handler {
            "period" => self.period = period(value)?,
            _ => return Err(format!("no handler '{handler}'; there is: period")),
        }
        Ok(())
    }
}

fn period(text: &str) -> Result<Duration, String> {
    match text.trim().parse() {
        Ok(ms @ 1..) => Ok(Duration::from_millis(ms)),
        _ => Err(format!("'{text}' is not a number of milliseconds, at least 1")),
    }
}

fn main() -> ExitCode {
    let config = Config { name: "keep-alive", ..Config::DEFAULT };
    thruway_nf::run(&config, |start| {
        let period = period(&std::env::args().nth(1).unwrap_or_default())?;
        start.after(period);
        Ok(KeepAlive { period, has_traffic: true, sent: start.counter("sent") })
    })
}
