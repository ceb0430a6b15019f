//! `weir-forces describe`: the manual pages of controllers, in addition to those of the router.

use std::fmt::Write as _;

use weir::Failure;
use weir::describe::{head, page, tail, unknown};
use weir::output::print;
use weir_controller::spec::KINDS;
use weir_model::Class;

/// `weir-forces describe`.
pub(crate) fn run(name: &str) -> Result<(), Failure> {
    let page = page(name).or_else(|| controller(name));
    let controllers = KINDS.iter().map(|kind| kind.manual.name);
    let page = page.ok_or_else(|| Failure::Usage(unknown(name, controllers)))?;
    print(&page)
}

/// The manual page of the controller with this name.
fn controller(name: &str) -> Option<String> {
    let kind = KINDS.iter().find(|kind| kind.manual.name == name)?;
    let m = &kind.manual;
    let class = Class::mechanism((m.id, m.name, m.purpose), m.parameters, m.gauges);
    let mut page = head(&class, m.source, m.text);
    let _ = writeln!(page, "QUEUES");
    for role in m.roles {
        let _ = writeln!(page, "    {}\n        {}", role.name, role.about);
        if !role.sets.is_empty() {
            let _ = writeln!(page, "        sets {}", role.sets.join(", "));
        }
    }
    page.push('\n');
    Some(page + &tail(&class))
}
