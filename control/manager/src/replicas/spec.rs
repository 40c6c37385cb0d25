//! What an operator declares of a function's replicas.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::kind::CheckError;

/// Most replicas of a function: half as many ports as the language knows, as each has one or two.
pub const REPLICAS_MAX: u16 = 64;
/// Most steps of a canary.
const STEPS_MAX: usize = 16;
/// Steps where none are given, in percent.
const STEPS: &[u8] = &[10, 50];
/// Bounds of windows and of times without load.
const TIME_MIN: Duration = Duration::from_secs(1);
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// Packets that the new version must have had before it is judged, where not said otherwise.
const PACKETS: u64 = 100;
/// Packets that wait for a replica at which another one is added, where not said otherwise.
const WAITING: u64 = 128;

/// Replicas of a function that a chain uses: each a process of its own, behind a `Balance` that the
/// manager writes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplicasSpec {
    /// How many, 1 to 64; one if neither this nor `scaling` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u16>,
    /// Has their number follow the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<ScalingSpec>,
    /// Has a new version of the function begin with a share of the new sessions. Without it a new
    /// version gets all sessions as soon as it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanarySpec>,
}

/// Bounds between which the number of replicas follows the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScalingSpec {
    /// Fewest replicas, from 1 on.
    pub min: u16,
    /// Most replicas, up to 64.
    pub max: u16,
    /// Packets that wait for each replica, on average, at which another one is added [default:
    /// 128].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// How long one replica fewer must have been enough before one is taken away [default: `60s`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calm: Option<String>,
    /// How far ahead the load is forecast, by the trend of the last ten seconds: another replica is
    /// added if all would be busy for more than 85 % of the time then. For functions that sleep
    /// while they have no packets [default: the load is not forecast].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<String>,
}

/// How a new version proves itself. It is worse when it exceeds a limit of these.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CanarySpec {
    /// Percent of new sessions that go to the new version, in each step [default: 10, 50].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<u8>,
    /// How long each step lasts [default: `30s`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// Packets that the new version must have had in a step before it is judged by them [default:
    /// 100]. A step lasts until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// By how much its part of lost and dropped packets may exceed the old version's [default:
    /// `1%`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<String>,
    /// How often its process may fail in a step: end, hang, or break the protocol [default: 0].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<u64>,
    /// Packets that may wait for it, on average, while fewer wait for the old version [default: no
    /// limit].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// How long 99 % of its batches may take at most, while those of the old version take less:
    /// `2ms` [default: no limit].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
}

/// [`ScalingSpec`], read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scaling {
    /// Fewest replicas.
    pub min: u16,
    /// Most replicas.
    pub max: u16,
    /// Packets that wait for each at which another one is added.
    pub waiting: u64,
    /// How long fewer must have been enough.
    pub calm: Duration,
    /// How far ahead the load is forecast.
    pub ahead: Option<Duration>,
}

/// [`CanarySpec`], read.
#[derive(Debug, Clone, PartialEq)]
pub struct Canary {
    /// Percent of new sessions in each step.
    pub steps: Vec<u8>,
    /// How long each step lasts.
    pub window: Duration,
    /// Packets before it is judged by them.
    pub packets: u64,
    /// Part of packets that it may lose more than the old version.
    pub drops: f64,
    /// Failures of its process.
    pub failures: u64,
    /// Packets that may wait for it.
    pub waiting: Option<u64>,
    /// How long 99 % of its batches may take.
    pub latency: Option<Duration>,
}

impl ReplicasSpec {
    /// Whether it can be followed. `field` is its name.
    ///
    /// # Errors
    /// The field that is wrong.
    pub fn check(&self, field: &str) -> Result<(), CheckError> {
        if self.count.is_some() && self.scaling.is_some() {
            let message = "it has count and scaling; keep one".to_owned();
            return Err(CheckError::new(format!("{field}.count"), message));
        }
        if let Some(count) = self.count {
            in_bounds(count, &format!("{field}.count"))?;
        }
        if let Some(scaling) = &self.scaling {
            scaling.read(&format!("{field}.scaling"))?;
        }
        if let Some(canary) = &self.canary {
            canary.read(&format!("{field}.canary"))?;
        }
        Ok(())
    }

    /// How many there are to be at first.
    pub fn count_at_first(&self) -> u16 {
        self.count.or(self.scaling.as_ref().map(|scaling| scaling.min)).unwrap_or(1)
    }

    /// As many as before, if that is within the bounds, else the nearest bound.
    pub fn within_bounds(&self, before: u16) -> u16 {
        match &self.scaling {
            Some(scaling) => before.clamp(scaling.min, scaling.max.max(scaling.min)),
            None => self.count_at_first(),
        }
    }

    /// How the number follows the load, if it does.
    pub fn scaling(&self) -> Option<Scaling> {
        self.scaling.as_ref()?.read("").ok()
    }

    /// How a new version proves itself, if it has to.
    pub fn canary(&self) -> Option<Canary> {
        self.canary.as_ref()?.read("").ok()
    }
}

impl ScalingSpec {
    fn read(&self, field: &str) -> Result<Scaling, CheckError> {
        let &ScalingSpec { min, max, .. } = self;
        in_bounds(min, &format!("{field}.min"))?;
        in_bounds(max, &format!("{field}.max"))?;
        if max < min {
            let message = format!("{max} is less than min, {min}");
            return Err(CheckError::new(format!("{field}.max"), message));
        }
        let waiting = self.waiting.unwrap_or(WAITING);
        if waiting == 0 {
            let message = "no packet would have to wait for another replica; give 1 or more";
            return Err(CheckError::new(format!("{field}.waiting"), message.to_owned()));
        }
        let calm = time(self.calm.as_deref(), 60, &format!("{field}.calm"))?;
        let ahead = self.ahead.as_deref();
        let ahead =
            ahead.map(|ahead| time(Some(ahead), 0, &format!("{field}.ahead"))).transpose()?;
        Ok(Scaling { min, max, waiting, calm, ahead })
    }
}

impl CanarySpec {
    fn read(&self, field: &str) -> Result<Canary, CheckError> {
        let wrong =
            |name: &str, message: String| Err(CheckError::new(format!("{field}.{name}"), message));
        let steps = if self.steps.is_empty() { STEPS } else { &self.steps };
        let grow = steps.windows(2).all(|pair| pair[0] < pair[1]);
        if steps.len() > STEPS_MAX || !grow || steps.iter().any(|step| !(1..100).contains(step)) {
            let message = format!("give 1 to {STEPS_MAX} percentages that grow, from 1 to 99");
            return wrong("steps", message);
        }
        let latency = self.latency.as_deref().map(|text| (text, humantime::parse_duration(text)));
        let latency = match latency {
            Some((text, Err(error))) => {
                return wrong("latency", format!("'{}': {error}", text.escape_debug()));
            }
            Some((_, Ok(latency))) => Some(latency),
            None => None,
        };
        let Some(drops) = part(self.drops.as_deref().unwrap_or("1%")) else {
            return wrong("drops", "give a part in percent, such as 0.5%".to_owned());
        };
        Ok(Canary {
            steps: steps.to_vec(),
            window: time(self.window.as_deref(), 30, &format!("{field}.window"))?,
            packets: self.packets.unwrap_or(PACKETS).max(1),
            drops,
            failures: self.failures.unwrap_or(0),
            waiting: self.waiting,
            latency,
        })
    }
}

fn in_bounds(count: u16, field: &str) -> Result<(), CheckError> {
    match count {
        1..=REPLICAS_MAX => Ok(()),
        _ => {
            let message = format!("{count} replicas; give 1 to {REPLICAS_MAX}");
            Err(CheckError::new(field.to_owned(), message))
        }
    }
}

/// A time, or so many seconds.
fn time(text: Option<&str>, seconds: u64, field: &str) -> Result<Duration, CheckError> {
    let Some(text) = text else { return Ok(Duration::from_secs(seconds)) };
    match humantime::parse_duration(text) {
        Ok(time) if (TIME_MIN..=TIME_MAX).contains(&time) => Ok(time),
        Ok(_) => Err(CheckError::new(field.to_owned(), format!("'{text}': give 1s to 24h"))),
        Err(error) => {
            Err(CheckError::new(field.to_owned(), format!("'{}': {error}", text.escape_debug())))
        }
    }
}

/// A percentage as a part of one.
fn part(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> String {
        let spec: ReplicasSpec = serde_json::from_str(json).expect("of that form");
        spec.check("replicas.words").expect_err(json).field.into_owned()
    }

    #[test]
    fn what_cannot_be_followed_is_refused_by_its_field() {
        for (json, field) in [
            (r#"{"count": 0}"#, "count"),
            (r#"{"count": 65}"#, "count"),
            (r#"{"count": 2, "scaling": {"min": 1, "max": 2}}"#, "count"),
            (r#"{"scaling": {"min": 0, "max": 2}}"#, "scaling.min"),
            (r#"{"scaling": {"min": 3, "max": 2}}"#, "scaling.max"),
            (r#"{"scaling": {"min": 1, "max": 65}}"#, "scaling.max"),
            (r#"{"scaling": {"min": 1, "max": 2, "waiting": 0}}"#, "scaling.waiting"),
            (r#"{"scaling": {"min": 1, "max": 2, "calm": "soon"}}"#, "scaling.calm"),
            (r#"{"scaling": {"min": 1, "max": 2, "ahead": "1ms"}}"#, "scaling.ahead"),
            (r#"{"canary": {"steps": [50, 10]}}"#, "canary.steps"),
            (r#"{"canary": {"steps": [100]}}"#, "canary.steps"),
            (r#"{"canary": {"window": "1ms"}}"#, "canary.window"),
            (r#"{"canary": {"drops": "1"}}"#, "canary.drops"),
            (r#"{"canary": {"drops": "101%"}}"#, "canary.drops"),
            (r#"{"canary": {"latency": "fast"}}"#, "canary.latency"),
        ] {
            assert_eq!(refused(json), format!("replicas.words.{field}"));
        }
    }

    #[test]
    fn what_is_left_out_has_a_value() {
        let spec = ReplicasSpec { canary: Some(CanarySpec::default()), ..ReplicasSpec::default() };
        spec.check("x").expect("good");
        let canary = spec.canary().expect("read");
        assert_eq!((canary.steps.as_slice(), canary.window.as_secs()), ([10, 50].as_slice(), 30));
        assert!((canary.drops - 0.01).abs() < 1e-9 && canary.latency.is_none());
        assert_eq!(spec.count_at_first(), 1);
        let scaling = ScalingSpec { min: 2, max: 4, waiting: None, calm: None, ahead: None };
        let spec = ReplicasSpec { scaling: Some(scaling), ..ReplicasSpec::default() };
        let bounded = [1, 3, 9].map(|before| spec.within_bounds(before));
        assert_eq!((spec.count_at_first(), bounded), (2, [2, 3, 4]));
    }
}
