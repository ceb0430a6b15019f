//! A network for Graphviz.

use std::fmt::Write as _;

use weir_model::NetworkReport;

/// Colours of paths, used cyclically.
const COLOURS: [&str; 6] = [
    "#c0392b", "#2471a3", "#1e8449", "#b9770e", "#7d3c98", "#117a65",
];

/// The network as a graph: domains as boxes, the LID of each exit at its link, paths in colours. A failed link is
/// dashed, a link in hold-down dotted.
pub(super) fn of(network: &NetworkReport) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
    let mut text = "graph network {\n  node [shape=ellipse];\n".to_owned();
    for (number, domain) in network.domains.iter().enumerate() {
        let name = quoted(&domain.domain);
        let _ = writeln!(text, "  subgraph cluster_{number} {{\n    label={name};");
        for element in &domain.elements {
            let style = match style(&element.state) {
                "" => String::new(),
                style => format!(" [style={style}]"),
            };
            let _ = writeln!(text, "    {}{style};", quoted(&element.element));
        }
        text += "  }\n";
    }
    for link in &network.links {
        let [a, b] = link.ends.each_ref().map(|end| quoted(end));
        let [tail, head] = &link.lids;
        let style = match style(&link.state) {
            "" => String::new(),
            style => format!(", style={style}"),
        };
        let _ = writeln!(
            text,
            "  {a} -- {b} [taillabel=\"{tail}\", headlabel=\"{head}\"{style}];"
        );
    }
    for (path, colour) in network.paths.iter().zip(COLOURS.iter().cycle()) {
        for route in &path.routes {
            let label = quoted(&format!("{} {}", path.path, route.vector));
            let names: Vec<String> = route.elements.iter().map(|name| quoted(name)).collect();
            let _ = writeln!(
                text,
                "  {} [color=\"{colour}\", penwidth=2, constraint=false, label={label}, fontcolor=\"{colour}\"];",
                names.join(" -- ")
            );
        }
    }
    text + "}\n"
}

/// The style of an element or a link in this state; empty if it works.
fn style(state: &str) -> &'static str {
    match state {
        "failed" => "dashed",
        "held" => "dotted",
        _ => "",
    }
}
