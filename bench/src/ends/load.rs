//! What clients ask for, and how often they got it.

use std::process::Stdio;

use anyhow::{Context as _, bail};

use crate::namespace::Namespace;

/// A kind of request.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Unique; `OBJECT/WAY`.
    pub name: &'static str,
    /// The file asked for.
    pub object: &'static str,
    /// Its length.
    pub len: usize,
    /// Clients at once.
    pub clients: u32,
    /// A connection serves one request.
    pub closes: bool,
    /// How many times the requests of haproxy per CPU second we want, if that was said.
    pub goal: Option<f64>,
}

/// Every load.
pub const LOADS: [Load; 5] = [
    Load {
        name: "1kB/kept",
        object: "1k",
        len: 1_000,
        clients: 32,
        closes: false,
        goal: Some(3.0),
    },
    Load { name: "1kB/new", object: "1k", len: 1_000, clients: 32, closes: true, goal: Some(3.0) },
    Load { name: "8kB/kept", object: "8k", len: 8_000, clients: 32, closes: false, goal: None },
    Load { name: "8kB/new", object: "8k", len: 8_000, clients: 32, closes: true, goal: None },
    Load {
        name: "1MB/kept",
        object: "1m",
        len: 1_000_000,
        clients: 8,
        closes: false,
        goal: Some(2.0),
    },
];

/// What a load came to.
pub struct Answered {
    /// The number of the process that asked.
    pub pid: u32,
    /// How many requests were answered.
    pub requests: u64,
    /// In how many seconds.
    pub seconds: f64,
}

impl Load {
    /// Asks this address for so many seconds.
    ///
    /// # Errors
    /// An answer was missing, wrong or late.
    pub fn run(&self, client: &Namespace, host: &str, seconds: u32) -> anyhow::Result<Answered> {
        let mut command = client.command("wrk");
        command.args(["-t1", &format!("-c{}", self.clients), &format!("-d{seconds}s")]);
        if self.closes {
            command.args(["-H", "Connection: close"]);
        }
        command.arg(format!("http://{host}/{}", self.object)).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).spawn().context("cannot run wrk")?;
        let pid = child.id();
        let output = child.wait_with_output().context("cannot run wrk")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let counted =
            answered(&text).map(|(requests, seconds)| Answered { pid, requests, seconds });
        counted.with_context(|| format!("{} at {host}: {}", self.name, text.trim()))
    }
}

/// What wrk counted: requests and seconds.
fn answered(text: &str) -> anyhow::Result<(u64, f64)> {
    if let Some(line) = text
        .lines()
        .find(|line| line.trim_start().starts_with("Socket errors") || line.contains("Non-2xx"))
    {
        bail!("{}", line.trim());
    }
    let line = text.lines().find(|line| line.contains(" requests in "));
    let mut words =
        line.context("wrk counted nothing")?.split([' ', ',']).filter(|w| !w.is_empty());
    let requests = words.next().and_then(|word| word.parse().ok());
    let time = words.nth(2).and_then(seconds);
    requests.zip(time).filter(|(requests, _)| *requests > 0).context("no answers")
}

/// "2.10s" or "1.00m" of wrk.
fn seconds(word: &str) -> Option<f64> {
    let unit = |word: &str, end| word.strip_suffix(end).and_then(|n: &str| n.parse::<f64>().ok());
    let milliseconds = unit(word, "ms").map(|n| n / 1000.0);
    milliseconds.or_else(|| unit(word, "s")).or_else(|| unit(word, "m").map(|n| n * 60.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Running 2s test @ http://10.1.0.1/1k
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   451.00us  101.00us   3.40ms   92.00%
  84422 requests in 2.10s, 100.00MB read
Requests/sec:  40200.00
";

    #[test]
    fn what_wrk_prints_is_read() {
        assert_eq!(answered(TEXT).expect("counts"), (84_422, 2.1));
        assert_eq!(seconds("1.50m"), Some(90.0));
        assert_eq!(seconds("500.00ms"), Some(0.5));
    }

    #[test]
    fn missing_answers_are_errors() {
        let timeouts = format!("{TEXT}  Socket errors: connect 0, read 0, write 0, timeout 7\n");
        assert!(answered(&timeouts).expect_err("errors").to_string().contains("timeout 7"));
        let wrong = format!("{TEXT}  Non-2xx or 3xx responses: 3\n");
        assert!(answered(&wrong).is_err());
        assert!(answered(&TEXT.replace("84422", "0")).is_err());
        assert!(answered("").is_err());
    }
}
