//! The web page: static files, for everybody who can connect. What they show they ask of the API,
//! as whoever has the token.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use super::context::Context;
use super::gate;

/// Path, media type and content of each file.
type File = (&'static str, &'static str, &'static str);

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A script of the page: built by TypeScript from the source of the same name.
macro_rules! script {
    ($name:literal) => {
        (
            concat!("/page/", $name, ".js"),
            SCRIPT,
            include_str!(concat!("../../page/built/", $name, ".js")),
        )
    };
}

/// All files of the page.
const FILES: &[File] = &[
    ("/", "text/html; charset=utf-8", include_str!("../../page/index.html")),
    ("/page/style.css", "text/css; charset=utf-8", include_str!("../../page/style.css")),
    ("/page/icon.svg", "image/svg+xml", include_str!("../../page/icon.svg")),
    ("/page/preact.js", SCRIPT, include_str!("../../page/preact/preact.js")),
    script!("api"),
    script!("chain"),
    script!("chains"),
    script!("costs"),
    script!("declare"),
    script!("dialog"),
    script!("drops"),
    script!("format"),
    script!("graph"),
    script!("layout"),
    script!("lines"),
    script!("login"),
    script!("looks"),
    script!("main"),
    script!("rates"),
    script!("sessions"),
    script!("stream"),
    script!("tables"),
];

/// What a browser may do for the page: run its own scripts, use its own style, and ask this server.
/// Nothing is written inline, nobody may frame it, and no form is sent.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Header fields of each file.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // Another manager's page must not be mixed with this one's.
    (header::CACHE_CONTROL, "no-cache"),
];

/// Serves the files.
pub fn router(context: &Context) -> Router<Context> {
    FILES
        .iter()
        .fold(Router::new(), |router, (path, kind, content)| {
            router.route(path, get(move || async move { answer(kind, content) }))
        })
        .layer(from_fn_with_state(context.clone(), open))
}

fn answer(kind: &'static str, content: &'static str) -> Response {
    let mut response = content.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Lets everybody in, but not too often.
async fn open(State(context): State<Context>, request: Request, next: Next) -> Response {
    match gate::not_too_often(&context, request.extensions().get().copied()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{hex, sha256};

    /// Of the released file; see `page/preact/README.md`.
    const PREACT: &str = "bdcbd9abdf2c77c5c45326eab42191e949222d479d0d5f69467387a77040cb55";

    #[test]
    fn the_framework_is_the_released_file() {
        let found = FILES.iter().find(|(path, _, _)| *path == "/page/preact.js").expect("served");
        assert_eq!(hex(&sha256(found.2.as_bytes())), PREACT);
    }

    /// The policy forbids what is written inline, so the page would not work.
    #[test]
    fn nothing_is_written_inline() {
        let page = FILES[0].2;
        assert_eq!(
            page.matches("<script").count(),
            page.matches("<script type=\"module\" src=").count()
        );
        for inline in ["<style", " style=", " onclick", "javascript:"] {
            assert!(!page.contains(inline), "{inline}");
        }
    }

    /// Texts of chains are untrusted: they are only ever shown as text.
    #[test]
    fn no_script_of_ours_makes_markup_of_text() {
        let ours = FILES.iter().filter(|(path, _, _)| *path != "/page/preact.js");
        for (path, _, content) in ours {
            for unsafe_word in ["innerHTML", "outerHTML", "insertAdjacent", "eval(", "Function("] {
                assert!(!content.contains(unsafe_word), "{path}: {unsafe_word}");
            }
        }
    }

    /// Each import leads to a file that is served, beside the one that has it.
    #[test]
    fn every_module_is_served() {
        for (path, _, content) in FILES.iter().filter(|(_, kind, _)| *kind == SCRIPT) {
            for rest in content.split(" from \"./").skip(1) {
                let name = rest.split('"').next().unwrap_or_default();
                let target = format!("/page/{name}");
                assert!(FILES.iter().any(|(path, _, _)| *path == target), "{path}: {target}");
            }
        }
    }
}
