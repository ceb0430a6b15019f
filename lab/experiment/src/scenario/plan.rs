//! Reads one file and derives its points: every variant at every point of the sweep.

use std::path::{Path, PathBuf};

use super::checked::Scenario;
use super::parameters::QUICK;
use super::reader::Section;
use super::reading::{self, Reading};
use super::source::{self, Files};
use serde_json::{Map, Value as Json};
use weir_config::{ConfigError, Node, Origin, Value, parse_value};

/// Maximum number of points of one file.
const POINTS_MAX: usize = 10_000;

/// A value from the command line, set at a path of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The path: `link.out.rate`.
    pub path: String,
    /// The value as written.
    pub value: String,
}

impl Override {
    /// Whether the override sets the value at this path, or a table that contains it.
    fn holds(&self, path: &str) -> bool {
        let below = path.strip_prefix(&self.path);
        below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
    }
}

impl std::str::FromStr for Override {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (path, value) = weir_config::split(text, "duration=\"20 s\"")?;
        Ok(Self {
            path: path.to_owned(),
            value: value.to_owned(),
        })
    }
}

/// Values from the command line to sweep at a path of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The path: `link.out.rate`.
    pub path: String,
    /// The values as written.
    pub values: Vec<String>,
}

impl std::str::FromStr for Sweep {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let example = "must be PATH=VALUE,VALUE.., like link.out.rate=\"10 Mbit\",\"20 Mbit\"";
        let wrong = || format!("\"{text}\" {example}");
        let Override { path, value } = text.parse().map_err(|_| wrong())?;
        let values = split_list(&value);
        if values.iter().any(String::is_empty) {
            Err(wrong())
        } else {
            Ok(Self { path, values })
        }
    }
}

/// Splits at commas outside of strings, tables and lists.
pub(crate) fn split_list(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let (mut depth, mut quoted) = (0_i32, false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            _ => {}
        }
        match (c, items.last_mut()) {
            (',', _) if depth == 0 && !quoted => items.push(String::new()),
            (c, Some(item)) => item.push(c),
            (_, None) => unreachable!("there is always an item"),
        }
    }
    items.iter().map(|item| item.trim().to_owned()).collect()
}

/// A variant that the caller gives in place of the file's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The name, which is also the position in errors about the variant's values.
    pub name: String,
    /// Values set at paths.
    pub set: Vec<Override>,
}

/// The caller's choices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choices<'a> {
    /// Values set at paths.
    pub overrides: &'a [Override],
    /// Values swept at paths, in place of the file's.
    pub sweeps: &'a [Sweep],
    /// Names of the variants to run; all if empty.
    pub variants: &'a [String],
    /// Variants that replace the file's; if empty, the file's. Paths that they set are not swept.
    pub given: &'a [Given],
    /// Chooses between calibrated and printed values.
    pub reading: Reading,
    /// Uses the short runs of the file's `[quick]`.
    pub quick: bool,
}

/// The complete work for one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The file.
    pub file: String,
    /// The scenario without variants and sweep: its title, duration, runs.
    pub base: Scenario,
    /// The points, in the order of execution.
    pub points: Vec<Point>,
}

/// One scenario to run, with the values that identify it.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The variant's name, if the file has variants.
    pub variant: Option<String>,
    /// The values set at paths.
    pub set: Map<String, Json>,
    /// The swept values of `set`.
    pub sweep: Map<String, Json>,
    /// The scenario, checked.
    pub scenario: Scenario,
}

/// Reads a file, applies the caller's choices, and checks every point.
pub fn load(path: &Path, choices: Choices<'_>) -> Result<Plan, ConfigError> {
    of_tree(path, None, choices)
}

/// Like [`load`], for a text, treated as a built-in file of this name.
pub fn load_text(file: &Path, text: &str, choices: Choices<'_>) -> Result<Plan, ConfigError> {
    of_tree(file, Some(text), choices)
}

/// Like [`load`], for a built-in scenario, by its name.
pub fn load_built_in(name: &str, choices: Choices<'_>) -> Result<Plan, ConfigError> {
    let file = PathBuf::from(format!("scenarios/{name}.toml"));
    let text = source::built_in(&file)?;
    load_text(&file, text, choices)
}

fn of_tree(file: &Path, text: Option<&str>, choices: Choices<'_>) -> Result<Plan, ConfigError> {
    let tree = source::read(file, text)?;
    let files = Files::of(file, text);
    let file = file.display().to_string();
    let (base, points) = points(tree, choices, &files)?;
    Ok(Plan { file, base, points })
}

/// The scenario and the points of a text.
pub fn plan(
    text: &str,
    overrides: &[Override],
    variants: &[String],
) -> Result<(Scenario, Vec<Point>), ConfigError> {
    let choices = Choices {
        overrides,
        variants,
        ..Choices::default()
    };
    let file = Path::new("scenario");
    let files = Files::of(file, Some(text));
    points(source::read(file, Some(text))?, choices, &files)
}

fn points(
    mut tree: Node,
    choices: Choices<'_>,
    files: &Files,
) -> Result<(Scenario, Vec<Point>), ConfigError> {
    let Choices {
        overrides,
        sweeps,
        variants: only,
        given,
        reading,
        quick,
    } = choices;
    reading::choose(&mut tree, reading)?;
    shorten(&mut tree, quick)?;
    put(&mut tree, overrides)?;
    let of_file = tree.remove("variant");
    let variants = match given {
        [] => read_variants(of_file)?,
        given => given.iter().map(Variant::given).collect::<Result<_, _>>()?,
    };
    let mut sweep = read_sweep(tree.remove("sweep"))?;
    // A value that the caller has set is not swept.
    let of_given = given.iter().flat_map(|variant| &variant.set);
    let set: Vec<&Override> = overrides.iter().chain(of_given).collect();
    sweep.retain(|(path, _)| !set.iter().any(|o| o.holds(path)));
    for Sweep { path, values } in sweeps {
        let origin = Origin::named(format!("--sweep {path}={}", values.join(",")));
        let values = values.iter().map(|value| parse_value(value, &origin));
        let values = values.collect::<Result<Vec<Node>, _>>()?;
        sweep.retain(|(swept, _)| swept != path);
        sweep.push((path.clone(), values));
    }
    if let Some(name) = only
        .iter()
        .find(|n| !variants.iter().any(|v| v.name == **n))
    {
        let known: Vec<_> = variants.iter().map(|v| v.name.as_str()).collect();
        let why = format!(
            "unknown variant `{name}`; the scenario has: {}",
            known.join(", ")
        );
        return Err(ConfigError::new(Origin::named("--variant"), why));
    }
    let mut variants: Vec<Option<Variant>> = variants
        .into_iter()
        .filter(|v| only.is_empty() || only.contains(&v.name))
        .map(Some)
        .collect();
    if variants.is_empty() {
        variants.push(None);
    }
    let mut points = Vec::new();
    for steps in product(&sweep)? {
        for variant in &variants {
            points.push(point(&tree, variant.as_ref(), &steps, overrides, files)?);
        }
    }
    // The base alone may lack values that every variant sets; then the first point replaces it.
    let base = Scenario::check(&tree, files).or_else(|error| {
        let first = points.first().map(|p| p.scenario.clone());
        first.ok_or(error)
    })?;
    Ok((base, points))
}

/// Removes `[quick]`, and applies its values if `quick`.
fn shorten(tree: &mut Node, quick: bool) -> Result<(), ConfigError> {
    let Some(node) = tree.remove("quick") else {
        let why = "no [quick] section, which sets the length of quick runs";
        return if quick {
            Err(ConfigError::new(tree.origin.clone(), why))
        } else {
            Ok(())
        };
    };
    let known: Vec<&str> = QUICK.iter().map(|key| key.name).collect();
    Section::new("quick", &node)?.finish_with(&[], &known)?;
    let values = node.entries().iter().filter(|_| quick);
    for (key, value) in values {
        tree.set(key, value.clone())?;
    }
    Ok(())
}

/// Sets the caller's values at their paths.
fn put<'a>(
    tree: &mut Node,
    overrides: impl IntoIterator<Item = &'a Override>,
) -> Result<(), ConfigError> {
    for Override { path, value } in overrides {
        let origin = Origin::named(format!("--set {path}={value}"));
        tree.set(path, parse_value(value, &origin)?)?;
    }
    Ok(())
}

#[derive(Clone, Debug)]
struct Variant {
    name: String,
    set: Vec<(String, Node)>,
}

impl Variant {
    fn given(given: &Given) -> Result<Self, ConfigError> {
        let value = |Override { path, value }: &Override| {
            let origin = Origin::named(&*given.name);
            Ok((path.clone(), parse_value(value, &origin)?))
        };
        Ok(Self {
            name: given.name.clone(),
            set: given.set.iter().map(value).collect::<Result<_, _>>()?,
        })
    }
}

fn read_variants(node: Option<Node>) -> Result<Vec<Variant>, ConfigError> {
    let Some(node) = node else {
        return Ok(Vec::new());
    };
    let mut variants: Vec<Variant> = Vec::new();
    for item in node.items() {
        let section = Section::new("variant", item)?;
        let name = section.required_word("name")?;
        if variants.iter().any(|v| v.name == name) {
            return Err(section.error("name", format!("\"{name}\" is a duplicate")));
        }
        let set = item.entry("set").map(Node::entries).unwrap_or_default();
        let set = set.to_vec();
        section.finish_with(&[], &["name", "set"])?;
        variants.push(Variant { name, set });
    }
    Ok(variants)
}

/// The paths of the sweep, and the values of each.
fn read_sweep(node: Option<Node>) -> Result<Vec<(String, Vec<Node>)>, ConfigError> {
    let Some(node) = node else {
        return Ok(Vec::new());
    };
    let axis = |(path, values): &(String, Node)| match &values.value {
        Value::List(items) if !items.is_empty() => Ok((path.clone(), items.clone())),
        _ => Err(ConfigError::new(
            values.origin.clone(),
            format!(
                "`sweep.{path}` must be a list of values, and its path must be quoted, like \"link.out.rate\" = \
                     [..]"
            ),
        )),
    };
    node.entries().iter().map(axis).collect()
}

type Steps = Vec<(String, Node)>;

/// Every combination of the sweep's values; the last path varies fastest.
fn product(sweep: &[(String, Vec<Node>)]) -> Result<Vec<Steps>, ConfigError> {
    let mut all: Vec<Steps> = vec![Vec::new()];
    for (path, values) in sweep {
        if all.len() * values.len() > POINTS_MAX {
            let why = format!("the sweep has more points than the maximum, {POINTS_MAX}");
            return Err(ConfigError::new(values[0].origin.clone(), why));
        }
        let extended = all.iter().flat_map(|steps| {
            values.iter().map(move |value| {
                let mut steps = steps.clone();
                steps.push((path.clone(), value.clone()));
                steps
            })
        });
        all = extended.collect();
    }
    Ok(all)
}

/// The error of a variant, with a probable cause: `link.out.rate` without quotes replaces all links.
fn unquoted(error: ConfigError, set: &[(String, Node)]) -> ConfigError {
    let is_whole = |(path, node): &&(String, Node)| {
        !path.contains('.') && matches!(node.value, Value::Table(_))
    };
    match set.iter().find(is_whole) {
        None => error,
        Some((path, _)) => ConfigError {
            message: format!(
                "{}; this `set` replaces all of `{path}`; quote a path to set one value: set = {{ \"link.out.rate\" = \
                 \"5 Mbit\" }}",
                error.message
            ),
            ..error
        },
    }
}

fn point(
    tree: &Node,
    variant: Option<&Variant>,
    steps: &Steps,
    overrides: &[Override],
    files: &Files,
) -> Result<Point, ConfigError> {
    let mut tree = tree.clone();
    let of_variant = variant.map(|v| v.set.as_slice()).unwrap_or_default();
    for (path, value) in of_variant.iter().chain(steps) {
        tree.set(path, value.clone())?;
    }
    let as_json = |values: &[(String, Node)]| -> Map<String, Json> {
        let values = values.iter();
        values
            .map(|(path, value)| (path.clone(), reading::to_json(value)))
            .collect()
    };
    let (mut set, sweep) = (as_json(of_variant), as_json(steps));
    set.extend(sweep.clone());
    // The caller's values apply to every variant as well. Values for the list of variants and for the sweep have
    // already been applied.
    let of_plan =
        |o: &&Override| ["variant", "sweep"].contains(&o.path.split('.').next().unwrap_or(""));
    put(&mut tree, overrides.iter().filter(|o| !of_plan(o)))?;
    Ok(Point {
        variant: variant.map(|v| v.name.clone()),
        set,
        sweep,
        scenario: Scenario::check(&tree, files).map_err(|error| unquoted(error, of_variant))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Kind, Mode, Offered, TrafficKind};

    const SMALL: &str = r#"
title = "small"
duration = "20 s"
warm_up = "5 s"
[router.r]
[host.tcp]
count = 2
[host.server]
[link.access]
ends = ["tcp", "r"]
rate = "100 Mbit"
[link.out]
ends = ["r", "server"]
rate = "10 Mbit"
discipline = { kind = "fifo", limit = "100 packets" }
[traffic.long]
kind = "tcp"
from = "tcp"
to = "server"
congestion = "sack"
[traffic.flood]
kind = "udp"
from = "tcp"
to = "server"
flows = 2
total_rate = "8 Mbit"
"#;

    fn error(text: &str) -> String {
        let error = plan(text, &[], &[]).unwrap_err().to_string();
        error.lines().next().unwrap().to_owned()
    }

    /// SMALL with one line replaced.
    fn with(old: &str, new: &str) -> String {
        assert!(SMALL.contains(old));
        SMALL.replace(old, new)
    }

    #[test]
    fn a_small_scenario_is_read() {
        let (base, points) = plan(SMALL, &[], &[]).unwrap();
        assert_eq!(points.len(), 1);
        assert_eq!(base.group("tcp").unwrap().members(), ["tcp1", "tcp2"]);
        assert_eq!(base.window(), (5.0, 20.0));
        let [long, flood] = &base.traffic[..] else {
            panic!()
        };
        assert_eq!(long.kind.kind(), Kind::Tcp);
        // 8 Mbit in total, two flows on each of two hosts: 2 Mbit each.
        let TrafficKind::Udp { offered, .. } = &flood.kind else {
            panic!()
        };
        assert_eq!(*offered, "2 Mbit".parse::<Offered>().unwrap());
    }

    #[test]
    fn unknown_keys_name_the_nearest_and_the_line() {
        assert_eq!(
            error(&with("congestion = ", "congestoin = ")),
            "scenario:20:1: unknown key `congestoin` in [traffic.long]; did you mean `congestion`?"
        );
        assert_eq!(
            error(&with("warm_up", "warmup")),
            "scenario:4:1: unknown key `warmup`; did you mean `warm_up`?"
        );
        assert_eq!(
            error(&with("limit = ", "limits = ")),
            "scenario:15:31: `link.out.discipline`: unknown key `limits`; did you mean `limit`?"
        );
        assert_eq!(
            error(&with("\"fifo\"", "\"fifi\"")),
            "scenario:15:16: `link.out.discipline`: unknown discipline `fifi`; did you mean `fifo`?"
        );
    }

    #[test]
    fn values_out_of_range_are_told_range_and_line() {
        assert_eq!(
            error(&with("count = 2", "count = 0")),
            "scenario:7:1: `host.tcp.count` is 0, but must be an integer from 1 to 100000"
        );
        assert_eq!(
            error(&with("rate = \"10 Mbit\"", "rate = \"10 Mb\"")),
            "scenario:14:1: `link.out.rate` is \"10 Mb\", but must be a rate from \"8 kbit\" to \"400 Gbit\" (units: bit, kbit, Mbit, Gbit); did you mean \"10 Mbit\"?"
        );
        assert_eq!(
            error(&with("warm_up = \"5 s\"", "warm_up = \"20 s\"")),
            "scenario:4:1: `warm_up` must be shorter than `duration`"
        );
        assert_eq!(
            error(&with("to = \"server\"\ncong", "to = \"sever\"\ncong")),
            "scenario:19:1: `traffic.long.to` names the unknown router or host \"sever\"; did you mean `server`?"
        );
    }

    #[test]
    fn a_router_masquerades_only_at_its_own_links_and_in_mode_queue() {
        let router = |keys: &str| with("[router.r]", &format!("[router.r]\n{keys}"));
        let both = router("mode = \"queue\"\nmasquerade = [\"out\"]");
        let (scenario, _) = plan(&both, &[], &[]).unwrap();
        assert_eq!(scenario.routers[0].mode, Mode::Queue);
        assert_eq!(scenario.routers[0].masquerade, ["out"]);
        assert_eq!(
            error(&router("masquerade = [\"out\"]")),
            "scenario:6:1: `router.r.masquerade` needs `mode = \"queue\"`: weir itself does not translate addresses"
        );
        assert_eq!(
            error(&router("mode = \"queue\"\nmasquerade = [\"outs\"]")),
            "scenario:7:1: `router.r.masquerade` names \"outs\", which is not a link of this router; did you mean `out`?"
        );
    }

    #[test]
    fn the_caller_may_sweep_too() {
        let text = format!("{SMALL}[sweep]\n\"traffic.long.flows\" = [1, 2]\n");
        let sweep = |text: &str| text.parse::<Sweep>();
        let long = sweep("traffic.long.flows=3,4,5").unwrap();
        let queue = "link.out.discipline={ kind = \"fifo\", limit = 5 },{ kind = \"fq_codel\" }";
        let queue = sweep(queue).unwrap();
        assert_eq!(queue.values.len(), 2);
        let choices = Choices {
            sweeps: &[long, queue],
            ..Choices::default()
        };
        let (_, points) = points(
            weir_config::parse("f", &text).unwrap(),
            choices,
            &Files::of(Path::new(""), Some(&text)),
        )
        .unwrap();
        assert_eq!(points.len(), 6);
        assert_eq!(points[1].set["traffic.long.flows"], 3);
        assert_eq!(points[1].set["link.out.discipline"]["kind"], "fq_codel");
        for wrong in ["traffic.long.flows", "traffic.long.flows=1,,2", "a="] {
            assert!(sweep(wrong).unwrap_err().contains("PATH=VALUE,VALUE"));
        }
    }

    #[test]
    fn what_the_caller_says_holds_for_every_point() {
        let text = format!(
            "{SMALL}[[variant]]\nname = \"a\"\nset = {{ \"duration\" = \"30 s\" }}\n\
             [sweep]\n\"traffic.long.flows\" = [1, 2]\n\"traffic.flood.flows\" = [3, 4]\n"
        );
        let overrides = ["duration=40 s", "traffic.long.flows=7"].map(|o| o.parse().unwrap());
        let (_, points) = plan(&text, &overrides, &[]).unwrap();
        assert_eq!(points.len(), 2); // the values of the other sweep
        for point in points {
            assert_eq!(point.scenario.duration, weir_base::Span::from_secs(40));
            assert_eq!(point.scenario.traffic[0].kind.flows(), 7);
        }
        let overrides = ["sweep={ \"traffic.flood.flows\" = [1, 2, 3] }"
            .parse()
            .unwrap()];
        assert_eq!(plan(&text, &overrides, &[]).unwrap().1.len(), 3);
    }

    #[test]
    fn overrides_are_checked_like_the_file() {
        let set = |path: &str, value: &str| Override {
            path: path.into(),
            value: value.into(),
        };
        let (base, _) = plan(SMALL, &[set("duration", "30 s")], &[]).unwrap();
        assert_eq!(base.duration, weir_base::Span::from_secs(30));
        let error = plan(SMALL, &[set("host.tcp.count", "0")], &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--set host.tcp.count=0: `host.tcp.count` is 0, but must be an integer from 1 to 100000"
        );
        let error = plan(SMALL, &[set("link.oot.rate", "1 Mbit")], &[]).unwrap_err();
        assert!(
            error.to_string().contains("did you mean `link.out`?"),
            "{error}"
        );
        assert_eq!("a.b=c=d".parse(), Ok(set("a.b", "c=d")));
        assert!("ab".parse::<Override>().is_err());
    }

    #[test]
    fn every_variant_runs_at_every_point_of_the_sweep() {
        let text = format!(
            "{SMALL}
[[variant]]
name = \"short\"
set = {{ \"link.out.discipline.limit\" = \"10 packets\" }}
[[variant]]
name = \"plain\"
[sweep]
\"traffic.flood.flows\" = [2, 3]
"
        );
        let (_, points) = plan(&text, &[], &[]).unwrap();
        let seen: Vec<_> = points
            .iter()
            .map(|p| {
                (
                    p.variant.clone().unwrap(),
                    p.set["traffic.flood.flows"].clone(),
                )
            })
            .collect();
        let expected = [("short", 2), ("plain", 2), ("short", 3), ("plain", 3)];
        assert_eq!(seen, expected.map(|(v, n)| (v.to_owned(), Json::from(n))));
        assert_eq!(points[0].set["link.out.discipline.limit"], "10 packets");
        let limit = points[0].scenario.links[1].discipline.as_ref().unwrap();
        assert_eq!(limit.spec.limit(), 10);
        let (_, only) = plan(&text, &[], &["plain".into()]).unwrap();
        assert_eq!(only.len(), 2);
        assert!(plan(&text, &[], &["plane".into()]).is_err());
    }

    #[test]
    fn given_variants_replace_those_of_the_file() {
        let text = format!(
            "{SMALL}[[variant]]\nname = \"own\"\n[sweep]\n\"link.out.discipline.kind\" = [\"red\"]\n\
             \"traffic.flood.flows\" = [1, 2]\n"
        );
        let given = |name: &str, value: &str| Given {
            name: name.into(),
            set: vec![Override {
                path: "link.out.discipline".into(),
                value: value.into(),
            }],
        };
        let of = |given: &[Given]| {
            let choices = Choices {
                given,
                ..Choices::default()
            };
            let files = Files::of(Path::new(""), Some(&text));
            points(weir_config::parse("f", &text).unwrap(), choices, &files)
        };
        let two = [
            given("a", "{ kind = \"fifo\" }"),
            given("b", "{ kind = \"sfq\" }"),
        ];
        let (_, points) = of(&two).unwrap();
        let seen: Vec<_> = points
            .iter()
            .map(|p| (p.variant.as_deref(), p.sweep.len()))
            .collect();
        let expected = [Some("a"), Some("b"), Some("a"), Some("b")];
        assert_eq!(seen, expected.map(|name| (name, 1)));
        let error = of(&[given("c:limit=0", "{ kind = \"fifo\", limit = 0 }")]).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("c:limit=0: `link.out.discipline`"),
            "{error}"
        );
    }

    #[test]
    fn a_sweep_that_breaks_a_rule_names_the_line_of_its_value() {
        let text = format!("{SMALL}\n[sweep]\n\"traffic.flood.flows\" = [2,\n0]\n");
        assert_eq!(
            error(&text),
            "scenario:30:1: `traffic.flood.flows` is 0, but must be an integer from 1 to 1000000"
        );
    }
}
