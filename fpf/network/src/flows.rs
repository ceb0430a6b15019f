//! The paths that a file requests.

use weir_base::setting::Settings;
use weir_model::Fault;
use weir_paths::{Disjoint, PathError, Paths, Payload, Request, Spread, Step, Target};

use super::{Flow, refused, wrong};

/// Finds the paths of a section, and reserves their rate.
pub(crate) fn flow(name: &str, settings: &Settings, paths: &mut Paths) -> Result<Flow, Fault> {
    let request = request(name, settings, paths)?;
    let (source, key) = (request.source, blamed(&request));
    let (id, _) = paths.request(request).map_err(refused("path", name, key))?;
    let routes = paths.routes_of(id).map_err(refused("path", name, ""))?;
    Ok(Flow {
        name: name.to_owned(),
        id,
        source,
        routes: routes.to_vec(),
        settings: settings.clone(),
    })
}

/// The key to blame if a request has no path.
pub(crate) fn blamed(request: &Request) -> &'static str {
    if request.through.is_empty() {
        ""
    } else {
        "through"
    }
}

/// Converts a section to a request.
pub(crate) fn request(name: &str, settings: &Settings, paths: &Paths) -> Result<Request, Fault> {
    let topology = paths.topology();
    let source = topology.fe_named(settings.text("from"));
    let source = source.map_err(refused("path", name, "from"))?;
    let target = target(paths, to(settings)).map_err(refused("path", name, "to"))?;
    let through = settings.text("through").split_whitespace();
    let through: Result<Vec<Step>, PathError> = through.map(|word| step(paths, word)).collect();
    let through = through.map_err(refused("path", name, "through"))?;
    let (wanted, disjoint) = (settings.count("paths") as usize, settings.word("disjoint"));
    if !through.is_empty() && (wanted > 1 || disjoint != "no") {
        let why = "`through` names a single path; remove it, or remove `paths` and `disjoint`";
        return Err(wrong("path", name, "through", why));
    }
    let spread = match (wanted, disjoint) {
        (1, "no") => Spread::One,
        (n, "no") => Spread::Cheapest(n),
        (n, "links") => Spread::Disjoint(n, Disjoint::Links),
        (n, _) => Spread::Disjoint(n, Disjoint::Domains),
    };
    Ok(Request {
        filter: Default::default(), // the edge checks the packets of the section
        source,
        targets: vec![target],
        through,
        behaviour: Some(settings.text("behaviour").to_owned()).filter(|text| !text.is_empty()),
        rate: Some(settings.rate("reserve")).filter(|rate| rate.as_bps() > 0),
        spread,
        by_packet: settings.word("spread") == "packet",
        timeout: None,
        session: None,
    })
}

/// The target of a section: the last element of a named path, if the section has no `to`.
pub(crate) fn to(settings: &Settings) -> &str {
    match settings.text("to") {
        "" => settings
            .text("through")
            .split_whitespace()
            .last()
            .unwrap_or_default(),
        to => to,
    }
}

/// The target with this name: a domain, or an edge element.
pub fn target(paths: &Paths, name: &str) -> Result<Target, PathError> {
    let topology = paths.topology();
    match topology.domain_named(name) {
        Ok(domain) => Ok(Target::Domain(domain)),
        Err(error) => match topology.fe_named(name) {
            Ok(fe) => Ok(Target::Fe(fe, Payload::Ip)),
            Err(_) => Err(error),
        },
    }
}

fn step(paths: &Paths, name: &str) -> Result<Step, PathError> {
    let topology = paths.topology();
    match topology.domain_named(name) {
        Ok(domain) => Ok(Step::Domain(domain)),
        Err(error) => topology.fe_named(name).map(Step::Fe).map_err(|_| error),
    }
}
