//! The commands of docs/forces-tutorial.md, unchanged, in private namespaces.

use crate::common::as_it_stands;

#[test]
fn the_tutorial_does_what_it_says() {
    let Some(said) = as_it_stands("docs/forces-tutorial.md") else {
        return;
    };
    assert_eq!(said.matches("in sync").count(), 4, "twice both FEs");
    let is_rate = |line: &&str| {
        let number = line.strip_suffix(" Mbit");
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    let rates: Vec<_> = said.lines().filter(is_rate).collect();
    let expected = ["50 Mbit", "20 Mbit", "20 Mbit", "20 Mbit"];
    assert_eq!(rates, expected, "the rate of each `weir get`");
    assert!(said.contains("refused, as it should be"));
    assert_eq!(said.matches(" 0% packet loss").count(), 2, "both pings");
}
