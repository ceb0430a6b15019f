//! Access control: which requests of browsers are answered.
//!
//! ```text
//!   Unix socket                only its owner can connect
//!   page = "127.0.0.1:8080"    every local user can connect; a request needs the token
//! ```
//!
//! A browser acts not only for its user: any site that it shows can send requests to a loopback address (CSRF), and can
//! let its own name resolve to that address (DNS rebinding). So a request is answered only if
//!
//! - its host is a name that no site can have: an address of loopback or `localhost`, on the Unix socket any name
//!   without a dot;
//! - no other site has caused it, per the headers of the browser (`Origin`, `Sec-Fetch-Site`);
//! - on TCP: it has the token in a header, which another site cannot set without permission (CORS), and this service
//!   gives no site that permission. A request without the token can read only the files of the page and the description
//!   of the interface, which are the same for every router, and the metrics, which contain no addresses, routes or
//!   settings.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, HOST, HeaderMap, HeaderName,
    ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::places::Lease;

/// The header with the token.
const TOKEN_HEADER: &str = "x-weir-token";
/// Shortest token.
const TOKEN_BYTES_MIN: usize = 16;

/// The proof of access that a request needs.
#[derive(Clone, Debug)]
pub(crate) enum Guard {
    /// Nothing more than access to the Unix socket.
    Socket,
    /// The token.
    Page(Token),
}

/// The secret of clients that may read and change everything over TCP.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// Parses the text of a file; surrounding white space is ignored.
    pub fn new(text: &str) -> Result<Self, String> {
        let token = text.trim();
        let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
        if is_plain && token.len() >= TOKEN_BYTES_MIN {
            Ok(Self(token.into()))
        } else {
            Err(format!(
                "a token needs at least {TOKEN_BYTES_MIN} letters, digits or punctuation marks, without spaces; \
                 `openssl rand -hex 16` generates one"
            ))
        }
    }

    /// Creates a new token, in a file next to the socket, which only its owner can read. Returns the path of the file.
    pub fn beside(socket: &Path) -> io::Result<(Self, PathBuf)> {
        let path = socket.with_extension("token");
        let mut bytes = [0; TOKEN_BYTES_MIN];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let written = file.write_all(format!("{token}\n").as_bytes());
        written.inspect_err(|_| drop(fs::remove_file(&path)))?;
        Ok((Self(token.into()), path))
    }

    /// Compares in constant time, so that the time does not reveal how much of the text is right.
    fn is(&self, text: &[u8]) -> bool {
        let token = self.0.as_bytes();
        let differences = token.iter().zip(text).fold(0, |all, (a, b)| all | (a ^ b));
        token.len() == text.len() && differences == 0
    }
}

/// Refuses requests that a browser should not have sent, and sets security headers in every answer.
pub(crate) async fn admit(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let is_page = matches!(guard, Guard::Page(_));
    let parts = (request.method(), request.uri(), request.headers());
    let mut response = match guard.check(parts.0, parts.1, parts.2) {
        Ok(is_proved) => {
            let lease = request.extensions().get::<Lease>().cloned();
            if let Some(lease) = lease.filter(|_| is_proved) {
                lease.settle().await;
            }
            next.run(request).await
        }
        Err((status, why)) => (status, why).into_response(),
    };
    const HEADERS: [(HeaderName, &str); 4] = [
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'",
        ),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    if is_page {
        let close = HeaderValue::from_static("close"); // an idle browser must not keep a slot
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

impl Guard {
    /// Whether an admitted request has proved that its sender has access, or why it is refused.
    fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<bool, (StatusCode, &'static str)> {
        let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let host = text(&HOST).or_else(|| uri.authority().map(|authority| authority.as_str()));
        if !self.serves(host) {
            let why = "this host name is not served; use 127.0.0.1 or localhost";
            return Err((StatusCode::MISDIRECTED_REQUEST, why));
        }
        let is_foreign = |origin: &str| origin.strip_prefix("http://") != host;
        let fetched = text(&HeaderName::from_static("sec-fetch-site"));
        let is_fetched = fetched.is_none_or(|site| site == "same-origin" || site == "none");
        if text(&ORIGIN).is_some_and(is_foreign) || !is_fetched {
            return Err((StatusCode::FORBIDDEN, "cross-site requests are refused"));
        }
        let Self::Page(right) = self else {
            return Ok(true);
        };
        let own = headers.get(TOKEN_HEADER).map(HeaderValue::as_bytes);
        let bearer = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let bearer = bearer.and_then(|value| value.strip_prefix(b"Bearer "));
        let is_proved = own.or(bearer).is_some_and(|given| right.is(given));
        let is_safe = method == Method::GET || method == Method::HEAD;
        if is_proved || (is_safe && is_public(uri.path())) {
            Ok(is_proved)
        } else {
            let why = "this request needs the page's token in the header `x-weir-token`; the log names the file \
                           with the token";
            Err((StatusCode::UNAUTHORIZED, why))
        }
    }

    /// Whether the service answers to this host name.
    fn serves(&self, host: Option<&str>) -> bool {
        let Some(host) = host else {
            return matches!(self, Self::Socket); // HTTP/1.0, which no browser speaks
        };
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let literal = name.trim_start_matches('[').trim_end_matches(']');
        match literal.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => match self {
                Self::Socket => !name.contains('.'),
                Self::Page(_) => name == "localhost",
            },
        }
    }
}

/// Whether every local user may read this path of the page, without the token.
fn is_public(path: &str) -> bool {
    ["/", "/metrics", "/v1/openapi.json"].contains(&path) || path.starts_with("/page/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "0123456789abcdef";

    fn page() -> Guard {
        Guard::Page(Token::new(&format!(" {RIGHT}\n")).unwrap())
    }

    /// The status of a request; 200 if it is admitted.
    fn status(guard: &Guard, method: Method, headers: &[(&'static str, &str)]) -> u16 {
        status_at(guard, "/", method, headers)
    }

    fn status_at(
        guard: &Guard,
        path: &'static str,
        method: Method,
        headers: &[(&'static str, &str)],
    ) -> u16 {
        let headers = headers.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            )
        });
        let headers = HeaderMap::from_iter(headers);
        let checked = guard.check(&method, &Uri::from_static(path), &headers);
        checked.map_or_else(|(status, _)| status.as_u16(), |_| 200)
    }

    #[test]
    fn a_name_that_a_site_can_have_is_not_served() {
        let page = page();
        let get = |guard: &Guard, host| status(guard, Method::GET, &[("host", host)]);
        for host in [
            "127.0.0.1:8080",
            "localhost:8080",
            "localhost",
            "[::1]:8080",
        ] {
            assert_eq!(get(&page, host), 200, "{host}");
        }
        for host in [
            "evil.example:8080",
            "weir",
            "192.0.2.1:8080",
            "127.0.0.1.evil.example",
            "",
            ":80",
        ] {
            assert_eq!(get(&page, host), 421, "{host}");
        }
        assert_eq!(status(&page, Method::GET, &[]), 421);
        assert_eq!(get(&Guard::Socket, "weir"), 200);
        assert_eq!(get(&Guard::Socket, "evil.example"), 421);
        assert_eq!(status(&Guard::Socket, Method::GET, &[]), 200);
    }

    #[test]
    fn another_site_gets_nothing() {
        let host = ("host", "127.0.0.1:8080");
        for guard in [Guard::Socket, page()] {
            let get = |more| status(&guard, Method::GET, &[host, more]);
            assert_eq!(get(("origin", "http://127.0.0.1:8080")), 200);
            assert_eq!(get(("origin", "http://127.0.0.1:8081")), 403);
            assert_eq!(get(("origin", "null")), 403);
            assert_eq!(get(("sec-fetch-site", "same-origin")), 200);
            assert_eq!(get(("sec-fetch-site", "none")), 200);
            assert_eq!(get(("sec-fetch-site", "cross-site")), 403);
            assert_eq!(get(("sec-fetch-site", "same-site")), 403);
        }
    }

    #[test]
    fn everything_but_the_page_itself_and_metrics_needs_the_token() {
        let host = ("host", "127.0.0.1:8080");
        let read = |path, more| status_at(&page(), path, Method::GET, &[host, more]);
        let plain = ("accept", "*/*");
        for path in ["/", "/page/router.js", "/metrics", "/v1/openapi.json"] {
            assert_eq!(read(path, plain), 200, "{path}");
        }
        for path in ["/v1/ports", "/v1/config", "/x", "/pages"] {
            assert_eq!(read(path, plain), 401, "{path}");
            assert_eq!(read(path, ("x-weir-token", RIGHT)), 200, "{path}");
            let bearer = ("authorization", "Bearer 0123456789abcdef");
            assert_eq!(read(path, bearer), 200, "{path}");
        }
        for wrong in [
            "",
            "0123456789abcdeF",
            "0123456789abcdef0",
            "0123456789abcde",
        ] {
            assert_eq!(read("/v1/ports", ("x-weir-token", wrong)), 401, "{wrong}");
        }
        for method in [
            Method::POST,
            Method::DELETE,
            Method::PUT,
            Method::PATCH,
            Method::OPTIONS,
        ] {
            let with = |more| status(&page(), method.clone(), &[host, more]);
            assert_eq!(with(plain), 401, "{method}");
            assert_eq!(with(("x-weir-token", RIGHT)), 200, "{method}");
        }
        assert_eq!(
            status(&Guard::Socket, Method::PATCH, &[("host", "weir")]),
            200
        );
    }

    #[test]
    fn a_weak_token_is_refused() {
        for weak in ["", "short", "0123456 89abcdef", "0123456789abcdé"] {
            assert!(Token::new(weak).is_err(), "{weak}");
        }
        assert_eq!(format!("{:?}", Token::new(RIGHT).unwrap()), "Token(..)");
    }
}
