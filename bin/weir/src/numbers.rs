//! Numbers as text for people: one form for each quantity in all commands. Programs read raw numbers (`--json`).

/// A count, with commas between its thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in a suitable unit.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        ..1e3 => format!("{bytes:.0} B"),
        ..1e6 => format!("{:.1} kB", bytes / 1e3),
        ..1e9 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} GB", bytes / 1e9),
    }
}

/// A delay: in milliseconds, or in seconds from one second.
pub fn delay(seconds: f64) -> String {
    match seconds {
        ..0.09995 => format!("{:.1} ms", seconds * 1e3),
        ..0.9995 => format!("{:.0} ms", seconds * 1e3),
        ..9.995 => format!("{seconds:.2} s"),
        _ => format!("{seconds:.1} s"),
    }
}

/// A time in its two largest units.
pub fn elapsed(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes} min {rest} s"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// The time of day in UTC, like that of the log.
pub fn time_of_day(unix_s: f64) -> String {
    let millis = (unix_s * 1e3) as u64 % 86_400_000;
    let (seconds, millis) = (millis / 1000, millis % 1000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{millis:03}Z", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_that_a_person_reads() {
        let all = [999.0, 1_000.0, 2_500_000.0, 7_000_000_000.0].map(bytes);
        assert_eq!(all, ["999 B", "1.0 kB", "2.5 MB", "7.0 GB"]);
        assert_eq!(elapsed(3_600 * 3 + 60 * 20 + 5), "3 h 20 min");
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        let all = [0.0, 0.000_21, 0.0996, 0.575, 0.9999, 12.34].map(delay);
        assert_eq!(
            all,
            ["0.0 ms", "0.2 ms", "99.6 ms", "575 ms", "1.00 s", "12.3 s"]
        );
        assert_eq!(time_of_day(1_764_081_600.25), "14:40:00.250Z");
    }
}
