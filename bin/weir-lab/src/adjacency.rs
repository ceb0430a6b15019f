//! `weir run network/adjacency`: arguments and the table.

use std::path::Path;

use weir::Failure;
use weir::output::{print, print_json};
use weir::table::Column::{Left, Right};
use weir::table::Table;
use weir_base::Span;
use weir_experiment::scenario::Override;
use weir_forces_lab::network::adjacency::{
    self, Flaps, Kind, NAME, Options, PROTOCOLS, Row, VARIANTS, Variant,
};

use crate::run::{On, RunArguments, failure};

/// Permitted lengths of the flood, in seconds.
const DURATION_S: std::ops::RangeInclusive<u64> = 2..=3600;
/// Default length of the flood, and with `--quick`.
const DURATION: Span = Span::from_secs(60);
const DURATION_QUICK: Span = Span::from_secs(10);
/// Other programs that keep more CPUs busy make the figures unreliable.
const OTHERS_MAX: f64 = 0.25;

/// Whether these are arguments for this run.
pub(crate) fn is_named(arguments: &RunArguments) -> bool {
    let mut given = arguments.scenarios.iter();
    given.any(|given| given == Path::new(NAME))
}

/// Runs it. Arguments that only scenarios have are refused.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let options = options(arguments)?;
    let rows = adjacency::run(&options).map_err(failure)?;
    if arguments.json {
        return print_json(&rows);
    }
    let kinds = options.kinds.iter().map(|kind| kind.name());
    print(&text(
        &rows,
        &kinds.collect::<Vec<_>>().join(", "),
        options.duration,
    ))
}

fn options(arguments: &RunArguments) -> Result<Options, Failure> {
    let runs = &arguments.runs;
    let refused = [
        ("another scenario", arguments.scenarios.len() > 1),
        ("--on both", runs.on == On::Both),
        ("--as-printed", arguments.as_printed),
        ("--sweep", !arguments.sweep.is_empty()),
        ("--capture", !arguments.capture.is_empty()),
        ("--out", arguments.out.is_some()),
    ];
    if let Some((what, _)) = refused.iter().find(|(_, given)| *given) {
        let why = format!("`{NAME}` starts real routing daemons, and cannot run with {what}");
        return Err(Failure::Usage(why));
    }
    let mut options = Options {
        duration: if runs.quick { DURATION_QUICK } else { DURATION },
        kinds: Kind::DEFAULT.to_vec(),
        variants: chosen(&arguments.variant)?,
        seed: runs.seed.unwrap_or(1),
        runs: runs.runs.unwrap_or(1),
        executable: None,
        progress: true,
        interrupt: weir_experiment::interrupt_flag().map_err(failure)?,
    };
    for set in &arguments.set {
        apply(&mut options, set).map_err(Failure::Usage)?;
    }
    Ok(options)
}

/// The variants with these names; all without names.
fn chosen(names: &[String]) -> Result<Vec<Variant>, Failure> {
    if names.is_empty() {
        return Ok(VARIANTS.to_vec());
    }
    let find = |name: &String| {
        let all = VARIANTS.map(|variant| variant.name).join(", ");
        let variant = VARIANTS.into_iter().find(|variant| variant.name == name);
        variant.ok_or_else(|| {
            Failure::Usage(format!("no variant \"{name}\" in {NAME}; permitted: {all}"))
        })
    };
    names.iter().map(find).collect()
}

/// Sets `duration` or `flood`.
fn apply(options: &mut Options, set: &Override) -> Result<(), String> {
    let value = set.value.trim_matches('"');
    match &set.path[..] {
        "duration" => {
            let wrong = || {
                let (first, last) = (DURATION_S.start(), DURATION_S.end());
                format!("duration = \"{value}\" must be from \"{first} s\" to \"{last} s\"")
            };
            let span = value.parse::<Span>().map_err(|_| wrong())?;
            if !DURATION_S.contains(&(span.as_nanos() / 1_000_000_000)) {
                return Err(wrong());
            }
            options.duration = span;
        }
        "flood" => {
            let kind = |word: &str| {
                let found = Kind::ALL.into_iter().find(|kind| kind.name() == word);
                found.ok_or_else(|| {
                    let all = Kind::ALL.map(Kind::name).join(" ");
                    format!("flood = \"{value}\": no kind of packets \"{word}\"; permitted: {all}")
                })
            };
            let kinds = value.split_whitespace().map(kind);
            let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
            if kinds.is_empty() {
                return Err("flood must name kinds of packets, like flood=\"ttl ping\"".into());
            }
            options.kinds = kinds;
        }
        other => {
            return Err(format!(
                "{NAME} has no `{other}`; permitted: duration, flood"
            ));
        }
    }
    Ok(())
}

fn text(rows: &[Row], kinds: &str, duration: Span) -> String {
    let first = [Left("variant"), Right("seed"), Right("flood/s")];
    let last = [
        Right("all Full"),
        Right("convergence"),
        Right("under flood"),
        Right("Full after kill"),
    ];
    let protocols = PROTOCOLS.iter().map(|protocol| Right(protocol.title));
    let columns = first.into_iter().chain(protocols).chain(last);
    let mut table = Table::new(&columns.collect::<Vec<_>>());
    for row in rows {
        let flaps = |name| {
            let flaps: Flaps = row.flaps.get(name).copied().unwrap_or_default();
            format!("{} / {}", flaps.same_port, flaps.elsewhere)
        };
        let time = |time: Option<f64>| time.map_or("none".to_owned(), |s| format!("{s:.2} s"));
        let first = [
            row.variant.to_owned(),
            row.seed.to_string(),
            format!("{:.0}", row.flood_per_s),
        ];
        let last = [
            format!("{:.0} %", 100.0 * row.full_ratio),
            time(row.convergence_s),
            time(row.convergence_flooded_s),
            time(row.full_after_kill_s),
        ];
        let flaps = PROTOCOLS.iter().map(|protocol| flaps(protocol.name));
        table.row(first.into_iter().chain(flaps).chain(last));
    }
    let busy = rows.iter().filter(|row| row.others_cpu_ratio > OTHERS_MAX);
    let busy = busy.map(|row| {
        format!(
            "{}, seed {}: other programs kept {:.1} CPUs of this machine busy\n",
            row.variant, row.seed, row.others_cpu_ratio
        )
    });
    format!(
        "{table}{}\n\
         Flood for {duration} through the port of r1: {kinds}.\n\
         Protocols: adjacencies that ended during the flood, with r1 / with neighbours at other ports.\n\
         all Full: samples in which every OSPF neighbour of the routers was Full. convergence: from the failure of a\n\
         link to the new routes. Full after kill: from kill -9 of the CE, which starts again at once.\n",
        busy.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use weir_forces_lab::network::adjacency::AllFlaps;

    use super::*;

    #[test]
    fn the_table_has_a_column_for_each_figure() {
        let row = Row {
            variant: "classes",
            seed: 1,
            flood_per_s: 14_648.4,
            flaps: AllFlaps::from([(
                "ospf",
                Flaps {
                    same_port: 0,
                    elsewhere: 2,
                },
            )]),
            full_ratio: 0.995,
            convergence_s: Some(0.05),
            convergence_flooded_s: None,
            full_after_kill_s: Some(3.2),
            others_cpu_ratio: 0.0,
        };
        let text = text(&[row], "ttl", Span::from_secs(20));
        let mut lines = text.lines();
        assert!(
            lines
                .next()
                .unwrap()
                .ends_with("under flood  Full after kill"),
            "{text}"
        );
        let cells: Vec<_> = lines.next().unwrap().split("  ").map(str::trim).collect();
        let cells: Vec<_> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
        let expected = [
            "classes", "1", "14648", "0 / 2", "0 / 0", "0 / 0", "0 / 0", "0 / 0", "100 %",
            "0.05 s", "none", "3.20 s",
        ];
        assert_eq!(cells, expected, "{text}");
    }

    #[test]
    fn only_its_own_values_can_be_set() {
        let mut options = Options {
            duration: DURATION,
            kinds: Vec::new(),
            variants: Vec::new(),
            seed: 1,
            runs: 1,
            executable: None,
            progress: false,
            interrupt: std::sync::Arc::default(),
        };
        let mut set = |text: &str| apply(&mut options, &text.parse().unwrap());
        assert_eq!(set("duration=\"20 s\""), Ok(()));
        assert_eq!(set("flood=\"ttl ospf\""), Ok(()));
        for wrong in [
            "duration=\"1 s\"",
            "duration=\"x\"",
            "flood=\"tcp\"",
            "flood=\"\"",
            "rate=\"1 Mbit\"",
        ] {
            assert!(set(wrong).is_err(), "{wrong}");
        }
        assert_eq!(options.duration, Span::from_secs(20));
        assert_eq!(options.kinds, [Kind::Ttl, Kind::Ospf]);
        assert!(chosen(&["fifo".into()]).is_err());
        assert_eq!(chosen(&[]).unwrap().len(), 4);
    }
}
