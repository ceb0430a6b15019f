//! Parsers for LIDs, vectors and Ethernet types in a configuration. An error names the permitted form.

use weir_fpf_path::header::Vector;

/// An Ethernet type: `0xc000`.
pub(super) fn ether_type(text: &str) -> Result<u16, String> {
    let digits = text.strip_prefix("0x").filter(|digits| is_hex(digits));
    digits
        .and_then(|digits| u16::from_str_radix(digits, 16).ok())
        .ok_or_else(|| format!("\"{text}\" is not an Ethernet type, like \"0xc000\""))
}

/// A LID with this number of bytes: `b1`, or `00b1`.
pub(super) fn lid(text: &str, bytes: u8) -> Result<u16, String> {
    let digits = 2 * usize::from(bytes);
    let lid = u16::from_str_radix(text, 16).ok();
    lid.filter(|_| is_hex(text) && text.len() == digits)
        .ok_or_else(|| {
            let example = &"00b1"[4 - digits..];
            format!(
                "\"{text}\" is not a LID; in this domain a LID has {digits} hexadecimal digits, like \"{example}\""
            )
        })
}

/// A vector of LIDs: `b1a1`.
pub(super) fn vector(text: &str) -> Result<Vector, String> {
    let wrong = || {
        format!(
            "\"{text}\" is not a vector; a vector is a sequence of LIDs in hexadecimal, like \"b1a1\""
        )
    };
    if !is_hex(text) || !text.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let bytes: Option<Vec<u8>> = (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect();
    let vector = bytes.and_then(|bytes| Vector::new(&bytes).ok());
    vector.ok_or_else(|| format!("\"{text}\" is longer than the 255 bytes of a vector"))
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_is_read() {
        assert_eq!(ether_type("0xCCCC"), Ok(0xcccc));
        assert!(
            ["c000", "0x", "0x12345", "0x+1", "49152"]
                .map(ether_type)
                .iter()
                .all(Result::is_err)
        );
        assert_eq!((lid("b1", 1), lid("00b1", 2)), (Ok(0xb1), Ok(0xb1)));
        assert_eq!(
            lid("b1", 2).unwrap_err(),
            "\"b1\" is not a LID; in this domain a LID has 4 hexadecimal digits, like \"00b1\""
        );
        assert!(
            ["", "+1", "1", "g1", "b1a1"]
                .iter()
                .all(|text| lid(text, 1).is_err())
        );
        assert_eq!(vector("b1A1"), Ok(Vector::new(&[0xb1, 0xa1]).unwrap()));
        assert!(
            ["", "b", "b1 ", "0xb1"]
                .iter()
                .all(|text| vector(text).is_err())
        );
        assert!(vector(&"b1".repeat(256)).unwrap_err().contains("255 bytes"));
    }
}
