//! Conditions: statements about a resource.

use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a statement holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Status {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

impl From<bool> for Status {
    fn from(holds: bool) -> Status {
        if holds { Status::True } else { Status::False }
    }
}

/// A statement about a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub status: Status,
    /// Why, one word for programs.
    pub reason: String,
    /// Why, and what to do, for people.
    pub message: String,
    /// Generation of the resource that it is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// Since when `status` is as it is (RFC 3339).
    pub last_transition_time: String,
}

impl Condition {
    /// A statement that holds, or not, for a reason.
    pub fn new(
        type_: &str,
        status: impl Into<Status>,
        reason: &str,
        message: impl Into<String>,
    ) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.into(),
            reason: reason.to_owned(),
            message: message.into(),
            observed_generation: 0,
            last_transition_time: String::new(),
        }
    }

    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.status == Status::True
    }
}

/// Conditions, one for each type.
pub trait Conditions {
    /// The condition of a type.
    fn of_type(&self, type_: &str) -> Option<&Condition>;

    /// Whether a condition holds; not if there is none.
    fn holds(&self, type_: &str) -> bool {
        self.of_type(type_).is_some_and(Condition::holds)
    }

    /// These, with the generation that they are about and the times of those before them where
    /// nothing changed.
    fn since(self, before: &[Condition], generation: i64, now: &str) -> Vec<Condition>;
}

impl Conditions for Vec<Condition> {
    fn of_type(&self, type_: &str) -> Option<&Condition> {
        self.as_slice().iter().find(|one| one.type_ == type_)
    }

    fn since(self, before: &[Condition], generation: i64, now: &str) -> Vec<Condition> {
        let timed = |mut one: Condition| {
            let old = before.iter().find(|old| old.type_ == one.type_ && old.status == one.status);
            let time = old.map_or(now, |old| old.last_transition_time.as_str());
            one.last_transition_time = time.to_owned();
            one.observed_generation = generation;
            one
        };
        self.into_iter().map(timed).collect()
    }
}

/// The time now, as conditions have it.
pub fn now_text() -> String {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
