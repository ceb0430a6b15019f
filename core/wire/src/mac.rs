//! MAC addresses as operators write them: `02:00:00:00:00:0b`.

use crate::ethernet::Mac;

/// Parses an address; `None` if the text is not a MAC address.
pub fn read(text: &str) -> Option<Mac> {
    let mut mac = Mac::default();
    let mut parts = text.split(':');
    for byte in &mut mac {
        let is_hex = |part: &&str| part.bytes().all(|digit| digit.is_ascii_hexdigit());
        let part = parts.next().filter(is_hex).filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

/// The text of an address.
pub fn shown(mac: &Mac) -> String {
    let bytes: Vec<_> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_is_read() {
        assert_eq!(read("02:00:00:00:00:0B"), Some([2, 0, 0, 0, 0, 11]));
        assert_eq!(shown(&[2, 0, 0, 0, 0, 11]), "02:00:00:00:00:0b");
        for wrong in [
            "",
            "2:0:0:0:0:b",
            "02:00:00:00:00",
            "02:00:00:00:00:0b:01",
            "02-00-00-00-00-0b",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
