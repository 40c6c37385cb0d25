//! Metrics and events, pushed to a collector: OTLP over HTTP, as JSON
//! (OpenTelemetry Protocol Specification 1).
//!
//! Counters are cumulative, so metrics that could not be sent are not sent again: the next ones
//! have them. Events wait in the manager's log of events, which is bounded, until they are taken;
//! those that leave it before are counted as lost.

mod collector;
mod encode;

use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::api::{Context, OtlpCounts, tables};
use crate::events::EventId;
pub use collector::Collector;
use collector::Failure;

/// When a collector is pushed to.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// From the end of one push to the next one.
    pub period: Duration,
    /// Longest time that a request may take.
    pub answer_max: Duration,
}

impl Pace {
    /// Each ten seconds.
    pub const DEFAULT: Pace =
        Pace { period: Duration::from_secs(10), answer_max: Duration::from_secs(10) };
}

/// Pushes to a collector until the program ends. `log` is called when the collector does not take
/// what it is sent any more, and when it does again.
pub async fn push(context: Context, collector: Collector, pace: Pace, log: impl Fn(&str)) {
    let mut ending = context.ending.clone();
    let mut pusher = Pusher::new(context, collector, pace);
    let mut was_refused = false;
    let pushes = async {
        loop {
            let pushed = pusher.push().await;
            match &pushed {
                Ok(()) if was_refused => log("otlp: the collector takes what it is sent again"),
                Err(why) if !was_refused => {
                    log(&format!("otlp: {why}; goes on trying, and counts failures"));
                }
                _ => {}
            }
            was_refused = pushed.is_err();
            tokio::time::sleep(pace.period).await;
        }
    };
    tokio::select! {
        () = pushes => {}
        _ = ending.wait_for(|ending| *ending) => {}
    }
}

struct Pusher {
    context: Context,
    collector: Collector,
    pace: Pace,
    host: String,
    /// The last event that the collector has, or never will have.
    seen: EventId,
}

impl Pusher {
    fn new(context: Context, collector: Collector, pace: Pace) -> Pusher {
        // From now on `/metrics` has them, and so has the first push.
        context.counts.otlp.get_or_init(OtlpCounts::default);
        let seen = context.manager.events().beginning();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Pusher { context, collector, pace, host, seen }
    }

    fn counts(&self) -> &OtlpCounts {
        self.context.counts.otlp.get_or_init(OtlpCounts::default)
    }

    /// Pushes metrics, then the events that the collector does not have; the last failure.
    async fn push(&mut self) -> Result<(), String> {
        let metrics = self.push_metrics().await;
        let events = self.push_events().await;
        events.and(metrics)
    }

    async fn push_metrics(&self) -> Result<(), String> {
        let tables = tables(&self.context).await.map_err(|problem| problem.detail)?;
        let host = self.host.clone();
        // Away from the thread that serves: they may be many.
        let encoded =
            tokio::task::spawn_blocking(move || encode::metrics(&tables, &host, SystemTime::now()));
        let mut done = Ok(());
        for body in encoded.await.map_err(|error| error.to_string())? {
            if let Err(Failure::Later(why) | Failure::Refused(why)) =
                self.post("metrics", &body).await
            {
                done = Err(why);
            }
        }
        done
    }

    async fn push_events(&mut self) -> Result<(), String> {
        let following = self.context.manager.events().following(self.seen);
        let Some((first, _)) = following.events.first() else { return Ok(()) };
        let lost = first.number.saturating_sub(self.seen.number + 1);
        self.counts().lost_events.inc_by(lost);
        // Those are gone, whatever becomes of the rest.
        self.seen.number += lost;
        let body = encode::logs(&following.events, &self.host);
        match self.post("logs", &body).await {
            Ok(()) => self.seen = following.last,
            Err(Failure::Later(why)) => return Err(why),
            Err(Failure::Refused(why)) => {
                // It would refuse them again, and all that follow them.
                self.counts().lost_events.inc_by(following.events.len() as u64);
                self.seen = following.last;
                return Err(why);
            }
        }
        Ok(())
    }

    async fn post(&self, signal: &str, body: &Value) -> Result<(), Failure> {
        let posted = self.collector.post(signal, body, self.pace.answer_max).await;
        match posted {
            Ok(()) => self.counts().requests.inc(),
            Err(_) => self.counts().failures.inc(),
        };
        posted
    }
}
