//! Messages of etcd's JSON gateway: keys and values in Base64, integers as strings, fields with a default omitted.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use weir_ce::election::{Answer, Compare, Failure, Key, Op, Request};

/// Codes of gRPC with which etcd refuses a request without executing it: invalid, not found, denied, exhausted (full, or
/// too large), failed precondition, out of range, not implemented, not authenticated.
const REFUSALS: [u64; 8] = [3, 5, 7, 8, 9, 11, 12, 16];

/// Path and body of a request.
pub(super) fn request(request: &Request) -> (&'static str, Value) {
    match request {
        Request::Range(prefix) => ("/v3/kv/range", range(prefix)),
        Request::Txn {
            compares,
            then,
            otherwise,
        } => {
            let ops = |ops: &[Op]| ops.iter().map(op).collect::<Vec<_>>();
            let compares: Vec<_> = compares.iter().map(compare).collect();
            let body =
                json!({ "compare": compares, "success": ops(then), "failure": ops(otherwise) });
            ("/v3/kv/txn", body)
        }
        Request::Compact(revision) => (
            "/v3/kv/compaction",
            json!({ "revision": revision.to_string() }),
        ),
    }
}

/// Body of the request for a watch of all keys with a prefix.
pub(super) fn watch(prefix: &str, from: u64) -> Value {
    let mut body = range(prefix);
    body["start_revision"] = from.to_string().into();
    json!({ "create_request": body })
}

/// The answer to a request.
pub(super) fn answer(body: &Value) -> Option<Answer> {
    let done = body["responses"].as_array().into_iter().flatten();
    let read = done.filter_map(|op| op.get("response_range"));
    let kvs = read.chain([body]).find_map(|read| read["kvs"].as_array());
    Some(Answer {
        succeeded: body["succeeded"].as_bool().unwrap_or(false),
        revision: number(&body["header"]["revision"])?,
        keys: kvs.into_iter().flatten().map(key).collect::<Option<_>>()?,
    })
}

/// Why etcd has not executed a request, or may not have.
pub(super) fn failure(status: u16, body: &Value) -> Failure {
    let text = ["message", "error"]
        .iter()
        .find_map(|name| body[name].as_str());
    let why = format!(
        "etcd: {} (HTTP {status})",
        text.unwrap_or("unexpected answer")
    );
    match number(&body["code"]) {
        Some(code) if REFUSALS.contains(&code) => Failure::Refused(match text {
            Some(text) if text.contains("too many operations") => {
                format!("{why}; split the change, or set a larger `--max-txn-ops` of etcd")
            }
            Some(text) if text.contains("too large") => {
                format!("{why}; split the change, or set a larger `--max-request-bytes` of etcd")
            }
            _ => why,
        }),
        _ => Failure::Lost(why),
    }
}

/// The changed keys of a message of a watch, each with its new value; or why the watch has ended.
pub(super) fn events(message: &Value) -> Result<Vec<(String, Option<Key>)>, String> {
    let result = &message["result"];
    if let Some(error) = message["error"]["message"].as_str() {
        return Err(format!("etcd: {error}"));
    }
    if result["canceled"].as_bool() == Some(true) {
        let why = result["cancel_reason"]
            .as_str()
            .unwrap_or("it no longer has these changes");
        return Err(format!("etcd has ended the watch: {why}"));
    }
    let event = |event: &Value| {
        let key = key(&event["kv"]).ok_or("etcd has sent an event without a key")?;
        let is_deleted = event["type"] == "DELETE";
        Ok((key.name.clone(), (!is_deleted).then_some(key)))
    };
    result["events"]
        .as_array()
        .into_iter()
        .flatten()
        .map(event)
        .collect()
}

fn range(prefix: &str) -> Value {
    // The first key behind all that begin with the prefix, which ends in `/`.
    let end = prefix.strip_suffix('/').map(|prefix| format!("{prefix}0"));
    json!({ "key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end.unwrap_or_default()) })
}

fn op(op: &Op) -> Value {
    match op {
        Op::Put(key, value) => json!({ "request_put": {
            "key": STANDARD.encode(key), "value": STANDARD.encode(value),
        }}),
        Op::Delete(key) => json!({ "request_delete_range": { "key": STANDARD.encode(key) } }),
        Op::Range(prefix) => json!({ "request_range": range(prefix) }),
    }
}

fn compare(compare: &Compare) -> Value {
    let (key, target, field, revision) = match compare {
        Compare::Created(key, revision) => (key, "CREATE", "create_revision", revision),
        Compare::Changed(key, revision) => (key, "MOD", "mod_revision", revision),
    };
    json!({ "key": STANDARD.encode(key), "target": target, "result": "EQUAL", field: revision.to_string() })
}

fn key(kv: &Value) -> Option<Key> {
    Some(Key {
        name: text(&kv["key"])?,
        value: text(&kv["value"])?,
        created: number(&kv["create_revision"])?,
        changed: number(&kv["mod_revision"])?,
    })
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Null => Some(0),
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    }
}

fn text(value: &Value) -> Option<String> {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).ok()?;
    String::from_utf8(bytes).ok()
}
