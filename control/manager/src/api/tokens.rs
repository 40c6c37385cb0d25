//! `/v1/tokens`: who may use the API.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::body::{JsonBody, NamePath, Params};
use super::context::Context;
use super::problem::{Kind, Problem};
use super::views::{NewToken, NoParams, TokenList, TokenMade, TokenView};
use crate::ChainName;
use crate::access::{Caller, Proof, certificate_of_pem};
use crate::grant::Grant;

/// Lists tokens and client certificates; never their secrets
#[utoipa::path(get, path = "/v1/tokens", tag = "access", responses(
    (status = 200, description = "all of them, by name", body = TokenList),
))]
pub async fn list(
    State(context): State<Context>,
    Params(NoParams {}): Params<NoParams>,
) -> Json<TokenList> {
    let items = context.manager.access().list();
    Json(TokenList { items: items.iter().map(TokenView::of).collect() })
}

/// Makes a token, or lets the owner of a certificate in
///
/// The token is in this answer alone: of it only a hash is kept.
#[utoipa::path(post, path = "/v1/tokens", tag = "access", request_body = NewToken, responses(
    (status = 201, description = "made", body = TokenMade),
    (status = 409, description = "the name is taken, or there are too many", body = Problem,
     content_type = "application/problem+json"),
))]
pub async fn create(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
    Params(NoParams {}): Params<NoParams>,
    JsonBody(new): JsonBody<NewToken>,
) -> Result<Response, Problem> {
    let certificate = new.certificate.as_deref().map(|text| certificate_of_pem(text.as_bytes()));
    let certificate = certificate
        .transpose()
        .map_err(|why| Problem::new(Kind::Invalid, why).field("certificate"))?;
    let grant = Grant {
        name: ChainName::new(&new.name)?,
        role: new.role,
        expires: new.expires,
        certificate: certificate.map(Proof::Certificate),
        author: caller.author(),
    };
    let (credential, token) = context.call(move |manager| manager.grant(grant)).await?;
    let made =
        TokenMade { made: TokenView::of(&credential), token: token.map(|token| token.text()) };
    // No cache keeps a secret.
    let headers = [(header::CACHE_CONTROL, "no-store")];
    Ok((StatusCode::CREATED, headers, Json(made)).into_response())
}

/// Revokes a token or certificate: it is refused from now on, and its event streams end
#[utoipa::path(delete, path = "/v1/tokens/{name}", tag = "access",
    params(("name" = String, Path, description = "name of the token or certificate")), responses(
    (status = 204, description = "revoked"),
    (status = 404, description = "no such token; `known` lists those that there are",
     body = Problem, content_type = "application/problem+json"),
))]
pub async fn revoke(
    State(context): State<Context>,
    NamePath(name): NamePath<ChainName>,
    Params(NoParams {}): Params<NoParams>,
) -> Result<StatusCode, Problem> {
    let revoked = name.clone();
    if context.call(move |manager| manager.revoke(&revoked)).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let all = context.manager.access().list();
    let known = all.iter().map(|one| one.name.to_string()).collect();
    let detail = format!("there is no token or certificate '{name}'");
    Err(Problem::new(Kind::NotFound, detail).field("name").known(known))
}
