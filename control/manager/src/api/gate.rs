//! The gate before every operation: who calls, how often, what for, for how long; and the record of
//! it.

use std::time::SystemTime;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::context::{Context, Peer, REQUEST_TIME_MAX};
use super::problem::{Kind, Problem};
use super::rate::{BURST, RATE};
use super::sites;
use crate::access::{Caller, Role};
use crate::audit::Call;

/// Lets a request in, bounds its time, counts it and records it.
pub async fn gate(State(context): State<Context>, mut request: Request, next: Next) -> Response {
    let time = SystemTime::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let peer = request.extensions().get::<Peer>().copied();
    let admitted = admit(&context, peer, request.headers(), time);
    let caller = admitted.as_ref().ok().cloned();
    let response = match admitted {
        Err(problem) => problem.into_response(),
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            bounded(request, next).await
        }
    };
    let status = response.status().as_u16();
    let route = route.as_ref().map_or("other", MatchedPath::as_str);
    context.counts.count(&method, route, status);
    if let Some(audit) = &context.audit {
        let call = Call {
            time,
            took: time.elapsed().unwrap_or_default(),
            role: caller.as_ref().map(|caller| caller.role().as_str()),
            caller: caller.as_ref().map(Caller::author),
            address: address(peer),
            method: method.as_str(),
            path: &path,
            generation: generation(&method, response.headers()),
            status,
        };
        // Without a log the service goes on; that it has none is seen in the metrics.
        if audit.record(&call).is_err() {
            context.counts.audit_failures.inc();
        }
    }
    response
}

/// Lets only callers in whose role is enough.
pub async fn need(State(needed): State<Role>, request: Request, next: Next) -> Response {
    let refused = match request.extensions().get::<Caller>() {
        Some(caller) if caller.may(needed) => return next.run(request).await,
        Some(caller) => {
            let (author, role) = (caller.author(), caller.role());
            format!("{author} has the role {role}; {} needs {needed}", request.method())
        }
        None => "who calls is not known".to_owned(),
    };
    Problem::new(Kind::Forbidden, refused).into_response()
}

async fn bounded(request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_TIME_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let detail = format!("the request took more than {} s", REQUEST_TIME_MAX.as_secs());
            Problem::new(Kind::Timeout, detail).into_response()
        }
    }
}

/// Who calls.
fn admit(
    context: &Context,
    peer: Option<Peer>,
    headers: &HeaderMap,
    now: SystemTime,
) -> Result<Caller, Problem> {
    sites::check(headers, peer)?;
    let certificate = match peer {
        None => return Err(Problem::new(Kind::Internal, "the connection has no peer")),
        Some(Peer::Local { uid }) => return Ok(Caller::Local { uid }),
        Some(Peer::Remote { certificate, .. }) => certificate,
    };
    not_too_often(context, peer)?;
    let registry = context.manager.access();
    match (bearer(headers)?, certificate) {
        (Some(token), _) => Ok(registry.admit_token(token, now)?),
        (None, Some(hash)) => Ok(registry.admit_certificate(&hash, now)?),
        (None, None) => {
            let detail = "send a token (`Authorization: Bearer TOKEN`) or a client certificate; \
                          `thruway token create` on the manager's host makes a token";
            Err(Problem::new(Kind::Unauthorized, detail))
        }
    }
}

/// Refuses a peer on the network that calls too often.
pub(super) fn not_too_often(context: &Context, peer: Option<Peer>) -> Result<(), Problem> {
    match peer {
        Some(Peer::Remote { address, .. }) if !context.rates.take(address) => {
            let detail = format!(
                "{address} calls too often: {RATE} calls a second are taken, {BURST} at once; wait"
            );
            Err(Problem::new(Kind::TooOften, detail))
        }
        _ => Ok(()),
    }
}

/// The token of a request (RFC 6750 section 2.1).
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = all.next() else { return Ok(None) };
    let token = value.to_str().ok().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    match token.filter(|_| all.next().is_none()) {
        Some(token) => Ok(Some(token)),
        None => {
            let detail = "send one header `Authorization: Bearer TOKEN`";
            Err(Problem::new(Kind::Unauthorized, detail).field("Authorization"))
        }
    }
}

fn address(peer: Option<Peer>) -> Option<std::net::IpAddr> {
    match peer {
        Some(Peer::Remote { address, .. }) => Some(address.to_canonical()),
        _ => None,
    }
}

/// The generation that a change made.
fn generation(method: &axum::http::Method, headers: &HeaderMap) -> Option<u64> {
    if method.is_safe() {
        return None;
    }
    headers.get(header::ETAG)?.to_str().ok()?.trim_matches('"').parse().ok()
}
