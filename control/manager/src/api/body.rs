//! What requests bring: bodies, parameters, preconditions; each error names the field.

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use thruway_element::nearest;

use super::problem::{Kind, Problem};
use crate::kind::Name;
use crate::store::Precondition;

/// Longest body, in bytes.
pub const BODY_LEN_MAX: usize = 1 << 20;

/// A body of JSON.
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<JsonBody<T>, Problem> {
        is_json(request.headers())?;
        let bytes = read_body(request.into_body()).await?;
        parse_json(&bytes).map(JsonBody)
    }
}

/// Refuses another media type; none is taken for JSON.
fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = kind.to_str().unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    // What curl -d says when it is not told another one.
    let taken = ["application/json", "application/x-www-form-urlencoded"];
    match taken.iter().any(|one| essence.eq_ignore_ascii_case(one)) {
        true => Ok(()),
        false => {
            let detail = format!("the body has type {essence}; send application/json");
            Err(Problem::new(Kind::MediaType, detail).field("Content-Type"))
        }
    }
}

async fn read_body(body: Body) -> Result<Vec<u8>, Problem> {
    match Limited::new(body, BODY_LEN_MAX).collect().await {
        Ok(whole) => Ok(whole.to_bytes().into()),
        Err(error) if error.is::<LengthLimitError>() => {
            let detail = format!("the body is longer than {BODY_LEN_MAX} bytes");
            Err(Problem::new(Kind::TooLong, detail))
        }
        Err(error) => {
            Err(Problem::new(Kind::Malformed, format!("the body cannot be read: {error}")))
        }
    }
}

/// Reads JSON; an error names the field, and what may have been meant.
///
/// # Errors
/// It is not JSON, or not of this type.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Fields without their names would be taken by their order.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(Problem::new(Kind::Invalid, "the body is an array; send an object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        match inner.is_data() {
            true => invalid(&path, &inner.to_string()),
            false => Problem::new(Kind::Malformed, format!("the body is not JSON: {inner}")),
        }
    })?;
    let end = reader.end();
    end.map_err(|error| Problem::new(Kind::Malformed, format!("the body is not JSON: {error}")))?;
    Ok(value)
}

/// What serde says of a field, as a problem.
fn invalid(path: &str, message: &str) -> Problem {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let parent = path.trim_end_matches('.');
    let problem = Problem::new(Kind::Invalid, message);
    if message.starts_with("unknown field") && !quoted.is_empty() {
        let (unknown, known) = (quoted[0], &quoted[1..]);
        let field = match parent {
            "" => unknown.to_owned(),
            path if path.ends_with(unknown) => path.to_owned(),
            path => format!("{path}.{unknown}"),
        };
        let suggestion = nearest(unknown, known.iter().copied()).map(str::to_owned);
        let known = known.iter().map(|&one| one.to_owned()).collect();
        let mut problem = problem.field(field).known(known);
        if let Some(meant) = &suggestion {
            problem.detail = format!("unknown field `{unknown}`; did you mean `{meant}`?");
        }
        Problem { suggestion, ..problem }
    } else if message.starts_with("missing field") && !quoted.is_empty() {
        problem.field(quoted[0])
    } else if parent.is_empty() {
        problem
    } else {
        problem.field(parent)
    }
}

/// Parameters behind the `?`.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Params<T>, Problem> {
        let parsed = Query::try_from_uri(&parts.uri);
        parsed.map(|Query(value)| Params(value)).map_err(|rejection| {
            let text = rejection.body_text();
            let text = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
            // `limit: invalid digit found in string`
            match text.split_once(": ") {
                Some((path, message)) => invalid(path, message),
                None => invalid("", text),
            }
        })
    }
}

/// Parts of the path.
pub struct PathParts<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParts<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathParts<T>, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(PathParts(value)),
            Err(rejection) => Err(Problem::new(Kind::Malformed, rejection.body_text())),
        }
    }
}

/// The resource that a path names.
pub struct NamePath<N>(pub N);

impl<N: Name, S: Send + Sync> FromRequestParts<S> for NamePath<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<NamePath<N>, Problem> {
        let PathParts(name) = PathParts::<String>::from_request_parts(parts, state).await?;
        Ok(NamePath(N::parse(&name)?))
    }
}

/// What `If-Match` and `If-None-Match` ask for (RFC 9110 sections 13.1.1 and 13.1.2). An entity tag
/// is a generation: `"3"`.
///
/// # Errors
/// Another tag, or both headers.
pub fn precondition(headers: &HeaderMap) -> Result<Precondition, Problem> {
    let text = |name: HeaderName| match headers.get(&name).map(|value| value.to_str()) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text.trim())),
        Some(Err(_)) => Err(tag_error(&name)),
    };
    match (text(header::IF_MATCH)?, text(header::IF_NONE_MATCH)?) {
        (None, None) => Ok(Precondition::Any),
        (None, Some("*")) => Ok(Precondition::Absent),
        (Some("*"), None) => Ok(Precondition::Present),
        (Some(tag), None) => {
            let bare = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or(tag);
            let digits = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit());
            let number = bare.parse().ok().filter(|_| digits);
            number.map(Precondition::Generation).ok_or_else(|| tag_error(&header::IF_MATCH))
        }
        (_, Some(_)) => Err(tag_error(&header::IF_NONE_MATCH)),
    }
}

fn tag_error(name: &HeaderName) -> Problem {
    let (field, detail) = match *name == header::IF_MATCH {
        true => ("If-Match", "give the generation that the change is for, as \"3\", or *"),
        false => ("If-None-Match", "give * alone, so that only a new resource is made"),
    };
    Problem::new(Kind::Malformed, detail).field(field)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ChainSpec;

    /// Words of a body, right ones and others; backquotes are what messages quote with.
    fn word() -> impl Strategy<Value = String> {
        const RIGHT: &[&str] =
            &["configuration", "variables", "threads", "cores", "stopped", "Idle -> Discard"];
        prop_oneof![
            prop::sample::select(RIGHT).prop_map(str::to_owned),
            "[a-z`:. ]{0,12}",
            any::<String>(),
        ]
    }

    /// A value of any shape.
    fn value() -> impl Strategy<Value = serde_json::Value> {
        use serde_json::Value;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            word().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(word(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Whatever JSON comes, it is a specification, or it is refused with a status that says so.
        #[test]
        fn any_json_is_taken_or_refused(value in value()) {
            let bytes = serde_json::to_vec(&value).expect("it is JSON");
            match parse_json::<ChainSpec>(&bytes) {
                Ok(_) => prop_assert!(value.get("configuration").is_some()),
                Err(problem) => prop_assert_eq!(problem.status, 422, "{:?}", value),
            }
        }

        #[test]
        fn any_bytes_are_taken_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
            begins in prop::bool::ANY,
        ) {
            let begin: &[u8] = if begins { br#"{"configuration":"Idle""# } else { b"" };
            if let Err(problem) = parse_json::<ChainSpec>(&[begin, &bytes].concat()) {
                prop_assert!([400, 422].contains(&problem.status));
            }
        }

        /// What a client writes is what the manager reads.
        #[test]
        fn a_specification_arrives_as_it_was(
            configuration in any::<String>(),
            variables in prop::collection::btree_map(any::<String>(), any::<String>(), 0..4),
            threads in prop::option::of(any::<u16>()),
            cores in prop::option::of(any::<String>()),
            stopped in prop::bool::ANY,
        ) {
            let spec = ChainSpec {
                configuration, variables, threads, cores, stopped, ..ChainSpec::default()
            };
            let bytes = serde_json::to_vec(&spec).expect("it is JSON");
            prop_assert_eq!(parse_json::<ChainSpec>(&bytes), Ok(spec));
        }
    }

    fn refused(body: &str) -> Problem {
        parse_json::<ChainSpec>(body.as_bytes()).expect_err("refused")
    }

    #[test]
    fn an_error_names_the_field() {
        let problem = refused(r#"{"configuraton":"x"}"#);
        assert_eq!(problem.field.as_deref(), Some("configuraton"));
        assert_eq!(problem.suggestion.as_deref(), Some("configuration"));
        assert_eq!(problem.detail, "unknown field `configuraton`; did you mean `configuration`?");
        assert_eq!(problem.known.len(), 11);
        let problem = refused(r#"{"configuration":"x","variables":{"LAN":3}}"#);
        assert_eq!(problem.field.as_deref(), Some("variables.LAN"));
        let problem = refused(r#"{"configuration":"x","threads":70000}"#);
        assert_eq!(problem.field.as_deref(), Some("threads"));
        assert_eq!(refused("{}").field.as_deref(), Some("configuration"));
        assert_eq!(refused(r#"{"configuration":"x","zzzzzz":1}"#).suggestion, None);
    }

    #[test]
    fn what_is_not_json_is_malformed() {
        let deep = "[".repeat(1 << 18);
        for body in ["", "{", "{\"configuration\":\"x\"} x", "\u{0}", deep.as_str()] {
            assert!([400, 422].contains(&refused(body).status), "{body:.9}");
        }
        assert_eq!(refused("{").status, 400);
        assert_eq!(
            refused(" [\"Idle -> Discard\"]").detail,
            "the body is an array; send an object"
        );
        assert_eq!(refused("{\"configuration\":\"x\"} x").status, 400);
    }

    #[test]
    fn tags_are_generations() {
        let parse = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().expect("a header"));
            precondition(&headers)
        };
        for text in ["\"3\"", "3", " \"3\" "] {
            assert_eq!(parse("if-match", text), Ok(Precondition::Generation(3)));
        }
        assert_eq!(parse("if-match", "*"), Ok(Precondition::Present));
        assert_eq!(parse("if-none-match", "*"), Ok(Precondition::Absent));
        for text in ["", "\"", "W/\"3\"", "\"3\", \"4\"", "-3", "+3", "99999999999999999999"] {
            assert_eq!(parse("if-match", text).expect_err("no tag").status, 400, "{text}");
        }
        assert!(parse("if-none-match", "\"3\"").is_err());
    }
}
