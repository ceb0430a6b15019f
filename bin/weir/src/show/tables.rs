//! The tables of `weir show`, generated from the declaration of a class: one value per cell, numbers right-aligned,
//! and a sentence for an empty table.

use weir_base::setting::Settings;
use weir_model::Value;
use weir_model::class::{Cell, Class, Component, Form, Type};

use super::Sample;
use super::cells::{is_number, written};
use crate::numbers::elapsed;
use crate::table::Column as Side;
use crate::table::Table;

/// A column: a component of the class, or a member of one.
#[derive(Clone, Copy)]
struct Column {
    component: &'static Component,
    /// The component, or the member shown in the cell.
    of: &'static Component,
    cell: &'static Cell,
    /// The component with the inner rows that this column belongs to.
    within: Option<&'static str>,
}

/// Two samples, reduced to the values that rates need.
struct Samples<'a> {
    class: &'a Class,
    now: &'a [Value],
    before: &'a [Value],
    seconds: f64,
}

/// The tables of a sample; rates are relative to `before`.
pub(super) fn text(
    class: &'static Class,
    now: &Sample,
    before: Option<&Sample>,
    query: &Settings,
) -> String {
    if class.key.is_empty() {
        return list(class, &now.answer);
    }
    let rows = now.answer.rows();
    let samples = Samples {
        class,
        now: rows,
        before: before.map_or(&[], |before| before.answer.rows()),
        seconds: before.map_or(0.0, |before| (now.at - before.at).as_secs_f64()),
    };
    if class.layout.is_divided && !rows.is_empty() {
        let texts: Vec<_> = rows.iter().map(|row| divided(class, row)).collect();
        return texts.join("\n");
    }
    let all = columns(class);
    let since_start = |column: &Column| column.cell.form == Form::SinceStart;
    let since = if all.iter().any(since_start) {
        let uptime = now.status.real("uptime_s").unwrap_or_default() as u64;
        format!("Since the start, {} ago:\n", elapsed(uptime))
    } else {
        String::new()
    };
    if rows.is_empty() {
        return format!("{since}{}\n", class.layout.empty);
    }
    let head = match class.layout.head {
        "" => String::new(),
        head => format!("{head}\n"),
    };
    let table = if class.layout.totals_apart {
        let key = |column: &&Column| class.key.contains(&column.of.name);
        let totals: Vec<_> = all
            .iter()
            .filter(|c| key(c) || since_start(c))
            .copied()
            .collect();
        let mut current: Vec<_> = all.into_iter().filter(|c| !since_start(c)).collect();
        current.sort_by_key(|column| column.cell.form == Form::PerSecond);
        format!(
            "{head}{}\n{since}{}",
            samples.table(&current),
            samples.table(&totals)
        )
    } else {
        format!("{since}{head}{}", samples.table(&all))
    };
    format!(
        "{table}{}{}{}",
        samples.maps(),
        beside(class, now.beside),
        cut(class, rows, query)
    )
}

/// The columns of a class in the order of its components, without maps, which have their own tables.
fn columns(class: &'static Class) -> Vec<Column> {
    let of = |component: &'static Component, within| {
        component.cells.iter().map(move |cell| Column {
            component,
            of: component
                .kind
                .members()
                .iter()
                .find(|m| m.name == cell.member)
                .unwrap_or(component),
            cell,
            within,
        })
    };
    let components = class
        .components
        .iter()
        .filter(|c| !matches!(c.kind, Type::Map(_)));
    let all = components.flat_map(|component| {
        let inner = match component.kind {
            Type::Rows(members) => members,
            _ => &[],
        };
        let inner = inner
            .iter()
            .flat_map(move |member| of(member, Some(component.name)));
        of(component, None).chain(inner)
    });
    all.collect()
}

/// The value of a row in a column: a component, or a member of it.
fn shown(column: &Column, row: &Value) -> Option<Value> {
    let component = row.get(column.component.name)?;
    match column.cell.member {
        "" => Some(component.clone()),
        member => component.get(member).cloned(),
    }
}

/// The single value of a class without rows, one line for each component. It is one sample, so it has no rates.
fn list(class: &'static Class, value: &Value) -> String {
    let columns = columns(class);
    lines(
        columns.iter().filter(|c| c.cell.form != Form::PerSecond),
        value,
    )
}

/// A line for each of these columns of a row.
fn lines<'a>(columns: impl Iterator<Item = &'a Column>, row: &Value) -> String {
    let mut table = Table::new(&[Side::Left(""); 2]);
    for column in columns {
        let value = written(column.of, column.cell, shown(column, row).as_ref());
        table.row([column.cell.heading.to_lowercase(), value]);
    }
    table.to_string().trim_start().to_owned()
}

/// A row as a list of its values, and the rows within it as tables below.
fn divided(class: &'static Class, row: &Value) -> String {
    let columns = columns(class);
    let has_value = |c: &&Column| shown(c, row).is_some_and(|value| value != Value::Absent);
    let single = columns.iter().filter(|c| c.within.is_none());
    let mut text = lines(single.filter(has_value), row);
    for component in class.components {
        let inner = columns.iter().filter(|c| c.within == Some(component.name));
        let inner: Vec<_> = inner
            .map(|column| Column {
                component: column.of,
                within: None,
                ..*column
            })
            .collect();
        let samples = Samples {
            class,
            now: row.get(component.name).map_or(&[], Value::rows),
            before: &[],
            seconds: 0.0,
        };
        if !inner.is_empty() && !samples.now.is_empty() {
            text += &format!("\n{}", samples.table(&inner));
        }
    }
    text
}

impl Samples<'_> {
    fn table(&self, columns: &[Column]) -> Table {
        let side = |column: &Column| {
            if is_number(column.of) {
                Side::Right(column.cell.heading)
            } else {
                Side::Left(column.cell.heading)
            }
        };
        let mut table = Table::new(&columns.iter().map(side).collect::<Vec<_>>());
        for row in self.now {
            let inner = columns.iter().find_map(|column| row.get(column.within?));
            let inner = inner.map_or(&[][..], Value::rows);
            for line in 0..inner.len().max(1) {
                table.row(columns.iter().map(|column| match column.within {
                    None if line == 0 => self.cell(column, row),
                    None => String::new(),
                    Some(_) => match inner.get(line) {
                        Some(inner) => self.cell(column, inner),
                        None => "-".to_owned(),
                    },
                }));
            }
        }
        table
    }

    fn cell(&self, column: &Column, row: &Value) -> String {
        let value = |row: &Value| shown(column, row);
        let shown = match column.cell.form {
            Form::PerSecond => self.speed(row, value),
            _ => value(row),
        };
        written(column.of, column.cell, shown.as_ref())
    }

    /// Growth of a counter per second; `None` if it restarted or no time has passed.
    fn speed(&self, row: &Value, counter: impl Fn(&Value) -> Option<Value>) -> Option<Value> {
        let key = |row: &Value| {
            self.class
                .key
                .iter()
                .map(|k| row.get(k).cloned())
                .collect::<Vec<_>>()
        };
        let before = self.before.iter().find(|before| key(before) == key(row))?;
        let (Value::Whole(now), Value::Whole(before)) = (counter(row)?, counter(before)?) else {
            return None;
        };
        let grown = now.checked_sub(before)? as f64;
        (self.seconds > 0.0).then(|| Value::Real(grown / self.seconds))
    }

    /// A table for each component that is a map: the key of the row, the name, the value.
    fn maps(&self) -> String {
        let components = self.class.components.iter();
        let maps = components.filter(|c| matches!(c.kind, Type::Map(_)) && !c.cells.is_empty());
        let table = |map: &'static Component| {
            let words = self
                .class
                .components
                .iter()
                .filter(|c| matches!(c.kind, Type::Text));
            let words: Vec<_> = words
                .flat_map(|c| c.cells.iter().map(move |cell| (c, cell)))
                .collect();
            let mut sides: Vec<_> = words
                .iter()
                .map(|(_, cell)| Side::Left(cell.heading))
                .collect();
            sides.extend([Side::Left(map.cells[0].heading), Side::Right("VALUE")]);
            let mut table = Table::new(&sides);
            for row in self.now {
                let Some(Value::Struct(pairs)) = row.get(map.name) else {
                    continue;
                };
                for (name, value) in pairs {
                    let words = words
                        .iter()
                        .map(|(c, cell)| written(c, cell, row.get(c.name)));
                    let pair = [name.to_string(), written(map, &map.cells[0], Some(value))];
                    table.row(words.chain(pair));
                }
            }
            if table.is_empty() {
                String::new()
            } else {
                format!("\n{}\n{table}", map.about)
            }
        };
        maps.map(table).collect()
    }
}

/// A line about another class, if that class has rows.
fn beside(class: &Class, rows: usize) -> String {
    match class.layout.beside.filter(|_| rows > 0) {
        Some((_, sentence)) => format!("\n{}\n", sentence.replace("{}", &rows.to_string())),
        None => String::new(),
    }
}

/// A line below a list that its limit may have cut off.
fn cut(class: &Class, rows: &[Value], query: &Settings) -> String {
    let Some(parameter) = class
        .query
        .iter()
        .find(|parameter| parameter.name == "limit")
    else {
        return String::new();
    };
    let limit = query.count("limit");
    if (rows.len() as u64) < limit {
        String::new()
    } else {
        format!(
            "There may be more: `--limit` is {limit} ({}; {})\n",
            parameter.about, parameter.kind
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use weir_lfb::class::Block;
    use weir_model::class::Unit;

    use super::*;

    /// The output for a class's example, with a second sample in which every counter is `grown`.
    fn shown(name: &str, grown: Option<u64>) -> String {
        let class = &Block::find(name).unwrap().class;
        let query = Settings::defaults(class.query);
        let at = Instant::now();
        let sample = |at, row: Value| Sample {
            at,
            status: Value::Struct(vec![("uptime_s".into(), 60.0.into())]),
            answer: match class.key {
                [] => row,
                _ => Value::List(vec![row]),
            },
            beside: 2,
        };
        let before = sample(at, class.example());
        let Some(grown) = grown else {
            return text(class, &before, None, &query);
        };
        let grow = |component: &Component| match component.example_value() {
            Value::Struct(members) => Value::Struct(
                members
                    .into_iter()
                    .map(|(name, value)| match value {
                        Value::Whole(n) => (name, Value::Whole(n + grown)),
                        other => (name, other),
                    })
                    .collect(),
            ),
            other => other,
        };
        let now = Component::values(class.components, grow);
        text(
            class,
            &sample(at + Duration::from_secs(2), now),
            Some(&before),
            &query,
        )
    }

    #[test]
    fn a_class_without_rows_is_a_list() {
        assert!(
            shown("status", None).contains("\nuptime            7 s\n"),
            "{}",
            shown("status", None)
        );
    }

    #[test]
    fn rows_within_a_row_are_lines() {
        let expected = "\
PREFIX     ACTION   GATEWAY    INTERFACE  WEIGHT  METRIC
0.0.0.0/0  forward  192.0.2.1  eth1            1     100
";
        assert_eq!(shown("routes", None), expected);
    }

    #[test]
    fn rates_need_two_samples_and_totals_stand_apart() {
        let expected = "\
PORT  INTERFACE  STATE  PACED TO  DISCIPLINE  WIRE OVERHEAD         IN PKT/S  IN MBIT/S  OUT PKT/S  OUT MBIT/S
wan   eth1       up      95 Mbit  fq_codel    +24 B, at least 84 B       500       0.00        500        0.00

Since the start, 1 min 0 s ago:
PORT  IN PACKETS  IN BYTES  OUT PACKETS  OUT BYTES  LOCAL SENT  LOCAL DROPPED  RING LOST  REFUSED
wan        1,015   10.0 kB        1,015    10.0 kB       1,015          1,015          0        0

Netfilter chains of this machine that forwarded packets bypass: 2 (`weir show netfilter`).
";
        assert_eq!(shown("ports", Some(1000)), expected);
        let once = shown("drops", None);
        assert!(
            once.lines()
                .any(|l| l.split_whitespace().nth(5) == Some("-")),
            "{once}"
        );
    }

    #[test]
    fn a_map_has_a_table_of_its_own() {
        let queues = shown("queues", None);
        assert!(
            queues.contains("GAUGE      VALUE\nwan   fq_codel    new_flows    736\n"),
            "{queues}"
        );
    }

    #[test]
    fn a_divided_row_is_a_list_with_tables_below() {
        const INNER: &[Component] = &[
            Component::new(1, "port", Type::Text, "wan").shown(&[Cell::new("PORT")]),
            Component::new(2, "routes", Type::Gauge(Unit::One), "12").shown(&[Cell::new("ROUTES")]),
        ];
        static CLASS: Class = Class {
            name: "network",
            key: &["fe"],
            components: &[
                Component::new(1, "fe", Type::Text, "edge1").shown(&[Cell::new("FE")]),
                Component::new(2, "why", Type::Text, "")
                    .optional()
                    .shown(&[Cell::new("WHY")]),
                Component::new(3, "hops", Type::Rows(INNER), ""),
            ],
            ..Class::PLAIN
        };
        let expected = "fe  edge1\n\nPORT  ROUTES\nwan       12\n";
        assert_eq!(divided(&CLASS, &CLASS.example()), expected);
    }

    #[test]
    fn an_empty_table_and_a_list_that_is_cut_say_so() {
        let hogs = Block::find("hogs").unwrap();
        let rows = [Value::Absent, Value::Absent];
        let cut = |limit| cut(&hogs.class, &rows, &hogs.query([("limit", limit)]).unwrap());
        assert_eq!(cut("3"), "");
        assert!(cut("2").starts_with("There may be more: `--limit` is 2"));
    }
}
