//! The driver of the whole router: stops, signals, lines for the user.

use std::sync::Arc;

/// Hears the lines for the user, from any thread; it must return soon and write none itself.
pub type LogSink = Arc<dyn Fn(&str) + Send + Sync>;

/// The driver, which runs all threads until a stop. By default, there is none.
pub trait Driver {
    /// Asks the driver to stop, as a source at its LIMIT or a `stop` handler does.
    fn stop(&mut self) {}

    /// Number of stop requests that no element has taken up yet; takes one up if `take`.
    fn pending_stops(&mut self, take: bool) -> u32 {
        let _ = take;
        0
    }

    /// Declares that `node` takes up stops (DriverManager), so that the driver no longer does; or
    /// that it no longer takes them up, which always works.
    ///
    /// # Errors
    /// Another element takes them up already.
    fn manage_stops(&mut self, node: u32, on: bool) -> Result<(), String> {
        let _ = (node, on);
        Ok(())
    }

    /// Has handler `run` of `node` written, once, when the process receives this signal.
    ///
    /// # Errors
    /// Where this driver passes no signals on.
    fn take_signal(&mut self, node: u32, signal: i32) -> Result<(), String> {
        let _ = (node, signal);
        Err("this driver does not pass signals on to elements".to_owned())
    }

    /// Acts as if the process had received this signal, before the next round begins. False, and
    /// nothing done, when no element waits for it.
    fn raise(&mut self, signal: i32) -> bool {
        let _ = signal;
        false
    }

    /// Copies all lines for the user to `sink` while the configuration exists.
    fn add_log_sink(&mut self, sink: LogSink) {
        let _ = sink;
    }
}
