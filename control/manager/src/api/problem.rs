//! Errors of the API (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::AccessError;
use crate::grant::GrantError;
use crate::manager::ChangeError;
use crate::store::StoreError;
use crate::{CheckError, NameError, PlaneError};

/// Media type of errors.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What kind of error it is, for programs: `urn:thruway:problem:stale`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same for people.
    pub title: String,
    /// Status code of the response.
    pub status: u16,
    /// What is wrong with this request, and what to do.
    pub detail: String,
    /// Field, parameter or header that is wrong: `variables.LAN`, `limit`, `If-Match`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What may have been meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// What there is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<String>,
    /// Generation that the resource is at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_generation: Option<u64>,
}

/// Kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Not the API's syntax.
    Malformed,
    /// Nobody knows who calls.
    Unauthorized,
    /// Who calls may not do that.
    Forbidden,
    /// The peer calls too often.
    TooOften,
    /// There is no such thing.
    NotFound,
    /// The resource has no such method.
    Method,
    /// The request took too long.
    Timeout,
    /// The state does not allow it.
    Conflict,
    /// The resource is at another generation.
    Stale,
    /// The body is too long.
    TooLong,
    /// The body is not JSON.
    MediaType,
    /// The fields or the configuration are wrong.
    Invalid,
    /// Too many at a time.
    Busy,
    /// The manager failed.
    Internal,
    /// The data plane refused or did not answer.
    DataPlane,
    /// The disk is full.
    Full,
}

impl Kind {
    fn describe(self) -> (&'static str, &'static str, StatusCode) {
        match self {
            Kind::Malformed => ("malformed", "Malformed request", StatusCode::BAD_REQUEST),
            Kind::Unauthorized => ("unauthorized", "Who calls?", StatusCode::UNAUTHORIZED),
            Kind::TooOften => ("too-often", "Too often", StatusCode::TOO_MANY_REQUESTS),
            Kind::Forbidden => ("forbidden", "Not allowed", StatusCode::FORBIDDEN),
            Kind::NotFound => ("not-found", "Not found", StatusCode::NOT_FOUND),
            Kind::Method => ("method", "No such method", StatusCode::METHOD_NOT_ALLOWED),
            Kind::Timeout => ("timeout", "Took too long", StatusCode::REQUEST_TIMEOUT),
            Kind::Conflict => ("conflict", "Conflict", StatusCode::CONFLICT),
            Kind::Stale => ("stale", "Another generation", StatusCode::PRECONDITION_FAILED),
            Kind::TooLong => ("too-long", "Too long", StatusCode::PAYLOAD_TOO_LARGE),
            Kind::MediaType => {
                ("media-type", "Not this media type", StatusCode::UNSUPPORTED_MEDIA_TYPE)
            }
            Kind::Invalid => ("invalid", "Invalid", StatusCode::UNPROCESSABLE_ENTITY),
            Kind::Busy => ("busy", "Too many at a time", StatusCode::SERVICE_UNAVAILABLE),
            Kind::Internal => ("internal", "The manager failed", StatusCode::INTERNAL_SERVER_ERROR),
            Kind::DataPlane => ("data-plane", "The data plane refused", StatusCode::BAD_GATEWAY),
            Kind::Full => ("full", "The disk is full", StatusCode::INSUFFICIENT_STORAGE),
        }
    }
}

impl Problem {
    /// An error of a kind.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Problem {
        let (slug, title, status) = kind.describe();
        Problem {
            kind: format!("urn:thruway:problem:{slug}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            field: None,
            suggestion: None,
            known: Vec::new(),
            current_generation: None,
        }
    }

    /// Names the field.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Problem {
        self.field = Some(field.into());
        self
    }

    /// Lists what there is.
    #[must_use]
    pub fn known(mut self, known: Vec<String>) -> Problem {
        self.known = known;
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = HeaderValue::from_static(PROBLEM_JSON);
        // A struct of texts and numbers is always JSON.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, kind)], body).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        } else if status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let detail = error.to_string();
        match error {
            StoreError::NoResource { known, .. } => {
                Problem::new(Kind::NotFound, detail).field("name").known(known)
            }
            StoreError::NoGeneration { .. } => {
                Problem::new(Kind::NotFound, detail).field("generation")
            }
            StoreError::Unresolved { field, known, .. } => {
                Problem::new(Kind::Invalid, detail).field(field).known(known)
            }
            StoreError::NameTaken(_) => Problem::new(Kind::Conflict, detail).field("name"),
            StoreError::InUseBy { users, .. } => {
                Problem::new(Kind::Conflict, detail).field("name").known(users)
            }
            StoreError::Deletion { .. }
            | StoreError::TooMany { .. }
            | StoreError::TooManyCredentials(_) => Problem::new(Kind::Conflict, detail),
            StoreError::Stale { current, .. } => Problem {
                current_generation: current,
                ..Problem::new(Kind::Stale, detail).field("If-Match")
            },
            StoreError::Full(_) => Problem::new(Kind::Full, detail),
            _ => Problem::new(Kind::Internal, detail),
        }
    }
}

impl From<CheckError> for Problem {
    fn from(error: CheckError) -> Problem {
        Problem::new(Kind::Invalid, error.message).field(error.field.into_owned())
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Problem {
        match error {
            ChangeError::Check(error) => error.into(),
            ChangeError::Store(error) => error.into(),
            ChangeError::Managed(_) => {
                Problem::new(Kind::Conflict, error.to_string()).field("managed_by")
            }
        }
    }
}

impl From<GrantError> for Problem {
    fn from(error: GrantError) -> Problem {
        match error {
            GrantError::Store(error) => error.into(),
            GrantError::Past => Problem::new(Kind::Invalid, error.to_string()).field("expires"),
            GrantError::Random(_) => Problem::new(Kind::Internal, error.to_string()),
        }
    }
}

impl From<AccessError> for Problem {
    fn from(error: AccessError) -> Problem {
        Problem::new(Kind::Unauthorized, error.to_string())
    }
}

impl From<NameError> for Problem {
    fn from(error: NameError) -> Problem {
        Problem::new(Kind::Invalid, error.to_string()).field("name")
    }
}

impl From<PlaneError> for Problem {
    fn from(error: PlaneError) -> Problem {
        let kind = match error {
            PlaneError::NotRunning(_) | PlaneError::NoReport(_) => Kind::Conflict,
            PlaneError::Refused(_) => Kind::DataPlane,
        };
        Problem::new(kind, error.to_string())
    }
}
