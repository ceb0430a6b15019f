//! The service `queue`: rate and discipline of a port.
//!
//! The rate becomes one setting of the port. The operations set the kind of discipline first, then all its parameters;
//! parameters that are not named get their defaults, so that the request defines the whole queue.

use weir_base::setting::{Scalar, SettingError, did_you_mean, nearest, unknown};
use weir_lfb::class::disciplines;
use weir_model::{Change, ComponentPath, Operation, QueueRequest};

use super::OfFe;

/// The operations of the service.
pub(super) fn operations(queue: &QueueRequest) -> Result<OfFe, String> {
    let port = ComponentPath::new(["port", &queue.port]);
    let set = |path: ComponentPath, value: Scalar| Operation::Set(Change::new(path, value));
    let mut operations = Vec::new();
    if let Some(rate) = &queue.rate {
        operations.push(set(port.join("rate"), rate.clone().into()));
    }
    match &queue.kind {
        Some(kind) => operations.extend(discipline(queue, kind, &port.join("discipline"))?),
        None if !queue.parameters.is_empty() => {
            let why = "`parameters` need a `kind` of discipline";
            return Err(error(queue, &why));
        }
        None => {}
    }
    if operations.is_empty() {
        Err(error(queue, &"give a `rate`, or a `kind` of discipline"))
    } else {
        Ok((queue.fe.clone(), operations))
    }
}

/// Sets the kind, then every parameter of that kind.
fn discipline(
    queue: &QueueRequest,
    kind: &str,
    at: &ComponentPath,
) -> Result<Vec<Operation>, String> {
    let classes = disciplines();
    let Some(class) = classes.iter().find(|class| class.name == kind) else {
        let near = did_you_mean(nearest(kind, classes.iter().map(|class| class.name)));
        let why = format!("there is no kind of discipline `{kind}`{near}");
        return Err(error(queue, &why));
    };
    let named = |name: &String| class.parameters.iter().any(|p| p.name == name);
    if let Some(name) = queue.parameters.keys().find(|name| !named(name)) {
        let why = unknown(name, class.parameters.iter().map(|p| p.name));
        return Err(error(queue, &format!("{kind}: {why}")));
    }
    let word = Scalar::Text(kind.to_owned());
    let mut operations = vec![Operation::Set(Change::new(at.join("kind"), word))];
    for parameter in class.parameters {
        let path = at.join(parameter.name);
        operations.push(match queue.parameters.get(parameter.name) {
            Some(value) => {
                let value = Scalar::from(value.clone());
                let wrong = |why: SettingError| error(queue, &format!("{kind}: {why}"));
                parameter.check(&value).map_err(wrong)?;
                Operation::Set(Change::new(path, value))
            }
            None => Operation::Delete(path),
        });
    }
    Ok(operations)
}

fn error(queue: &QueueRequest, why: &dyn std::fmt::Display) -> String {
    format!("{}: port `{}`: {why}", queue.fe, queue.port)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_model::ChangeValue;

    use super::*;

    fn queue(kind: Option<&str>, parameters: &[(&str, i64)]) -> QueueRequest {
        let parameters = parameters.iter();
        let value = |n: &i64| ChangeValue::Integer(*n);
        QueueRequest {
            fe: "edge1".to_owned(),
            port: "wan".to_owned(),
            rate: None,
            kind: kind.map(str::to_owned),
            parameters: BTreeMap::from_iter(
                parameters.map(|(name, n)| (name.to_string(), value(n))),
            ),
        }
    }

    fn shown(queue: &QueueRequest) -> Result<Vec<String>, String> {
        let (fe, operations) = operations(queue)?;
        assert_eq!(fe, "edge1");
        let shown = operations.iter().map(|operation| match operation {
            Operation::Set(Change { path, value }) => match value {
                Some(value) => format!("{path} = {value}"),
                None => format!("{path} exists"),
            },
            Operation::Delete(path) => format!("{path} default"),
        });
        Ok(shown.collect())
    }

    #[test]
    fn a_queue_is_said_as_a_whole() {
        let fifo = QueueRequest {
            rate: Some(ChangeValue::Text("50 Mbit".to_owned())),
            ..queue(Some("fifo"), &[("limit", 100)])
        };
        let wanted = [
            "port.wan.rate = \"50 Mbit\"",
            "port.wan.discipline.kind = \"fifo\"",
            "port.wan.discipline.limit = 100",
        ];
        assert_eq!(shown(&fifo).unwrap()[..3], wanted);
        let sfq = shown(&queue(Some("sfq"), &[("limit", 100)])).unwrap();
        assert!(
            sfq.contains(&"port.wan.discipline.quantum default".to_owned()),
            "{sfq:?}"
        );
        assert!(
            sfq.contains(&"port.wan.discipline.limit = 100".to_owned()),
            "{sfq:?}"
        );
    }

    #[test]
    fn what_is_wrong_has_its_place_and_its_remedy() {
        let wrong = |kind, parameters: &[_]| shown(&queue(kind, parameters)).unwrap_err();
        assert_eq!(
            wrong(None, &[]),
            "edge1: port `wan`: give a `rate`, or a `kind` of discipline"
        );
        assert!(wrong(None, &[("limit", 1)]).ends_with("need a `kind` of discipline"));
        assert!(wrong(Some("fq_codle"), &[]).ends_with("did you mean `fq_codel`?"));
        assert!(wrong(Some("fifo"), &[("limt", 1)]).ends_with("did you mean `limit`?"));
        let negative = wrong(Some("fifo"), &[("limit", -1)]);
        assert!(
            negative.contains("fifo: `limit` is -1, but must be"),
            "{negative}"
        );
    }
}
