//! Converts a store of earlier versions of weir, a redb database, to the format of this version.
//!
//! `cargo run -p weir-forces-live --example convert-store -- OLD.redb NEW.store`, while no `weir ce` uses either file.
//! It only reads `OLD`; `NEW` must not exist.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use redb::{ReadOnlyDatabase, ReadableDatabase, ReadableTable, TableDefinition};
use weir_ce::contract::Records;
use weir_ce::route::Hop;
use weir_forces_live::ce::Store;
use weir_forces_live::ce::store::wish;
use weir_model::ComponentPath;

type Texts = TableDefinition<'static, (&'static str, &'static str), &'static str>;
type Routes =
    TableDefinition<'static, (&'static str, &'static str, u32), (&'static str, &'static str)>;
type Requests = TableDefinition<'static, (u64, &'static str), &'static str>;

const DESIRED: Texts = TableDefinition::new("desired");
const COMPONENTS: Texts = TableDefinition::new("components");
const ROUTES: Routes = TableDefinition::new("routes");
const REQUESTS: Requests = TableDefinition::new("requests");

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [old, new] = &arguments[..] else {
        return Err("usage: convert-store OLD.redb NEW.store".into());
    };
    if Path::new(new).exists() {
        return Err(format!("{new} exists, and is not changed").into());
    }
    let read = ReadOnlyDatabase::open(old)?.begin_read()?;
    let path = |text: &str| ComponentPath::new(text.split('\u{1f}'));
    let mut changes: BTreeMap<String, Records> = BTreeMap::new();
    for row in read.open_table(DESIRED)?.iter()? {
        let (key, text) = row?;
        let (fe, at) = key.value();
        let wish = wish(text.value()).ok_or_else(|| format!("{fe}:{at}: {}", text.value()))?;
        let records = changes.entry(fe.to_owned()).or_default();
        records.desired.push((path(at), Some(wish)));
    }
    for row in read.open_table(COMPONENTS)?.iter()? {
        let (key, text) = row?;
        let (fe, at) = key.value();
        let records = changes.entry(fe.to_owned()).or_default();
        records
            .components
            .push((path(at), Some(text.value().to_owned())));
    }
    for row in read.open_table(ROUTES)?.iter()? {
        let (key, hop) = row?;
        let ((fe, prefix, metric), (gateway, port)) = (key.value(), hop.value());
        let gateway = match gateway {
            "" => None,
            gateway => Some(gateway.parse()?),
        };
        let hop = Hop {
            gateway,
            port: port.into(),
        };
        let records = changes.entry(fe.to_owned()).or_default();
        records.routes.push(((prefix.parse()?, metric), Some(hop)));
    }
    let mut requests: BTreeMap<u64, BTreeMap<String, String>> = BTreeMap::new();
    for row in read.open_table(REQUESTS)?.iter()? {
        let (place, text) = row?;
        let (number, key) = place.value();
        let keys = requests.entry(number).or_default();
        keys.insert(key.to_owned(), text.value().to_owned());
    }
    let store = Store::open(Path::new(new))?;
    store.keep(&changes.into_iter().collect::<Vec<_>>())?;
    for (number, keys) in requests {
        store.keep_request(&(number, Some(keys)))?;
    }
    println!("{new}: written, with the permissions of a new store; set its owner");
    Ok(())
}
