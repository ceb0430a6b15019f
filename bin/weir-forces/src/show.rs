//! `weir-forces show`: tables of a control element and of a forwarding element.

use weir::Failure;
use weir::show::{self, How, Subject, subjects};
use weir_forces_live::ce::TABLES;

/// Arguments of `weir-forces show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArguments {
    /// Table to print
    #[arg(value_name = "TABLE", value_parser = subjects(TABLES))]
    subject: Subject,
    #[command(flatten)]
    how: How,
}

/// `weir-forces show`.
pub(crate) fn run(arguments: &ShowArguments) -> Result<(), Failure> {
    show::show(arguments.subject, &arguments.how)
}
