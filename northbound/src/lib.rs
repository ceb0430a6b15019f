//! HTTP/JSON on a Unix socket, for people and their tools.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/ports`, `queues`, `hogs`, `flows`, `routes`, `neighbours`, `drops`, `netfilter` | a list of the values in [`weir_model::report`] |
//! | `GET /v1/hogs?all=true&most=200` | watched flows too, and more than 50 of them; 1000 at most |
//! | `GET /v1/config` | what is in force: path and value of every component |
//! | `PUT /v1/config` with a configuration file as body | [`ApplyReport`](weir_model::report::ApplyReport); 422 if it was refused and nothing changed |
//! | `PATCH /v1/config` with a list of [`ChangeRequest`](weir_model::ChangeRequest)s | the same; what is not named stays as it is, and so does the state of every discipline whose kind stays; a value that is set again is a change too |
//! | `POST /v1/capture` with a [`CaptureRequest`](weir_model::capture::CaptureRequest) | [`CaptureTicket`](weir_model::capture::CaptureTicket); 422 if it is wrong, 409 if another one runs |
//! | `GET /v1/capture/ID` | what is new of it, pcapng from where the last answer ended; 204 after the last of it; 404 if it was not fetched for too long |
//! | `DELETE /v1/capture/ID` | ends it: [`CaptureReport`](weir_model::capture::CaptureReport) |
//!
//! A router whose forwarding thread does not answer gives 503.
//!
//! The service knows the model only; an [`Operator`] stands between it and the router. It is
//! bounded: connections, time, size of a request, changes a second. The socket belongs to its owner alone.

pub mod client;
pub mod server;

pub use server::{Answer, Operator, Service};
