//! Pages for browsers: of a router, and of a control element.
//!
//! ```text
//!   Unix socket                GET / is the page; only the owner of the socket can connect
//!   page = "127.0.0.1:8080"    the same for clients that have its token
//! ```
//!
//! Pages are files of this folder, and fetch nothing from elsewhere. [`guard`] refuses requests that a browser should
//! not have sent.

use std::io;
use std::net::SocketAddr;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use tokio::net::TcpListener;

pub(crate) mod guard;

pub use self::guard::Token;

/// The files of the pages: path, media type and text.
const PARTS: [(&str, &str, &str); 4] = [
    ("/page/style.css", "text/css", include_str!("style.css")),
    (
        "/page/shared.js",
        "text/javascript",
        include_str!("shared.js"),
    ),
    (
        "/page/router.js",
        "text/javascript",
        include_str!("router.js"),
    ),
    ("/page/ce.js", "text/javascript", include_str!("ce.js")),
];
/// The page of a router.
const ROUTER: &str = include_str!("router.html");
/// The page of a control element.
const CONTROL_ELEMENT: &str = include_str!("ce.html");

/// The page's listener, before it answers requests.
#[derive(Debug)]
pub struct Page {
    pub(crate) listener: TcpListener,
    pub(crate) token: Token,
}

impl Page {
    /// Listens at a loopback address.
    pub async fn bind(address: SocketAddr, token: Token) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            let why = "the page is plain HTTP and listens only on loopback addresses";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let listener = TcpListener::bind(address).await?;
        Ok(Self { listener, token })
    }

    /// The address at which the page listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The page of a router.
pub(crate) async fn of_router() -> Response {
    file("text/html", ROUTER)
}

/// The page of a control element.
pub(crate) async fn of_control_element() -> Response {
    file("text/html", CONTROL_ELEMENT)
}

/// The paths of these files.
pub(crate) fn parts<S: Clone + Send + Sync + 'static>()
-> impl Iterator<Item = (&'static str, MethodRouter<S>)> {
    let handler = |(path, kind, text): (&'static str, &'static str, &'static str)| {
        (path, get(move || async move { file(kind, text) }))
    };
    PARTS.into_iter().map(handler)
}

fn file(kind: &str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, format!("{kind}; charset=utf-8"))], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages must not fetch anything from elsewhere, must not run inline scripts, and must not insert foreign text
    /// as HTML.
    #[test]
    fn pages_are_whole_in_themselves() {
        let parts = PARTS.map(|(path, _, text)| (path, text));
        for (name, text) in [("router", ROUTER), ("ce", CONTROL_ELEMENT)]
            .into_iter()
            .chain(parts)
        {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "@import",
                "url(",
                "<style",
                " style=",
                " onclick=",
            ] {
                assert!(!text.contains(word), "{name}: {word}");
            }
            for (at, _) in text
                .match_indices("src=")
                .chain(text.match_indices("href="))
            {
                let target = text[at..].split('"').nth(1).unwrap_or_default();
                assert!(
                    PARTS.iter().any(|(path, ..)| *path == target)
                        || ["/metrics", "/v1/openapi.json"].contains(&target),
                    "{name}: {target}"
                );
            }
            let foreign = text.matches("http://").count() + text.matches("https://").count();
            assert_eq!(
                foreign,
                text.matches("http://www.w3.org/2000/svg").count(),
                "{name}"
            );
        }
    }
}
