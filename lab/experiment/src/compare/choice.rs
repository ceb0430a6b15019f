//! The picture of a choice: the share that each discipline leaves to honest traffic, in one case after the other.

use super::figures;
use super::load::Load;
use crate::report::Marks;

/// The picture as SVG: for each load and each of these disciplines, the share of its goodput that the most affected
/// kind of honest traffic keeps (the mean over all runs). `None` if no load has such a figure.
pub(super) fn picture(loads: &[&Load], names: &[&str]) -> Option<String> {
    let rows: Vec<_> = loads
        .iter()
        .map(|load| {
            let share = |name: &&str| Some(load.summary(name, figures::worst_kept)?.mean);
            (
                load.title.clone(),
                names.iter().map(share).collect::<Vec<_>>(),
            )
        })
        .filter(|(_, shares)| shares.iter().any(Option::is_some))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let marks = Marks {
        axis:
            "share of its goodput that the worst-off honest traffic keeps: transfers, web or calls"
                .to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        rows,
    };
    marks.svg().ok()
}
