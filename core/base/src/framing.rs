//! The bytes that a frame occupies on a link: added headers, a minimum length, and cells.
//!
//! ```text
//!  length + overhead --> at least `least` --> cells: ATM 53 B for each 48 B, PTM 65 B for each 64 B
//! ```
//!
//! Source: `cake_calc_overhead` of Linux' sch_cake.c, and the keywords of tc-cake(8) with the values of iproute2's
//! q_cake.c. Both count from the IP packet.
//!
//! Deviations: `via-ethernet` has no effect, as in today's CAKE. `raw` counts Ethernet's header, because CAKE then
//! counts the length that the interface counts. Two keywords for the same thing (`docsis ethernet`) are refused; tc
//! adds them up.

use std::fmt;

/// Bytes of an Ethernet header.
const ETHERNET_HEADER: i32 = 14;
/// Minimum bytes of a frame on an Ethernet interface, which pads shorter frames.
const ETHERNET_FRAME_MIN: u32 = 60;
/// Payload and length of an ATM cell.
const ATM_CELL: (u64, u64) = (48, 53);
/// Bytes after which PTM inserts one byte (64b/65b encoding).
const PTM_BLOCK: u64 = 64;

/// Converts the length of a frame to the bytes that it occupies on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Bytes beyond the length; negative if the length includes headers that are not on the link.
    pub overhead: i32,
    /// Minimum bytes of a frame, `overhead` included.
    pub least: u32,
    /// The cells that carry the frame.
    pub cells: Cells,
}

/// How a link carries the bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cells {
    /// No cells: the bytes as they are.
    None,
    /// Whole ATM cells (ADSL).
    Atm,
    /// One more byte for each 64 bytes or part of them (VDSL2): CAKE's slight overestimate.
    Ptm,
}

/// A keyword for a framing, whose overhead counts from the IP packet.
struct Preset {
    word: &'static str,
    framing: Framing,
}

const fn preset(word: &'static str, overhead: i32, least: u32, cells: Cells) -> Preset {
    Preset {
        word,
        framing: Framing {
            overhead,
            least,
            cells,
        },
    }
}

const PRESETS: [Preset; 14] = [
    preset("ethernet", 38, 84, Cells::None),
    preset("docsis", 18, 64, Cells::None),
    preset("raw", ETHERNET_HEADER, 0, Cells::None),
    preset("conservative", 48, 0, Cells::Atm),
    preset("pppoe-ptm", 30, 0, Cells::Ptm),
    preset("bridged-ptm", 22, 0, Cells::Ptm),
    preset("pppoa-vcmux", 10, 0, Cells::Atm),
    preset("pppoa-llc", 14, 0, Cells::Atm),
    preset("pppoe-vcmux", 32, 0, Cells::Atm),
    preset("pppoe-llcsnap", 40, 0, Cells::Atm),
    preset("bridged-vcmux", 24, 0, Cells::Atm),
    preset("bridged-llcsnap", 32, 0, Cells::Atm),
    preset("ipoa-vcmux", 8, 0, Cells::Atm),
    preset("ipoa-llcsnap", 16, 0, Cells::Atm),
];
/// Keywords that accompany a preset: a VLAN tag, and a keyword without effect.
const VLAN: &str = "ether-vlan";
const VLAN_TAG: i32 = 4;
const NO_EFFECT: &str = "via-ethernet";

/// Every keyword.
pub const KEYWORDS: &[&str] = &{
    let mut words = [""; PRESETS.len() + 2];
    let mut n = 0;
    while n < PRESETS.len() {
        words[n] = PRESETS[n].word;
        n += 1;
    }
    words[n] = VLAN;
    words[n + 1] = NO_EFFECT;
    words
};

impl Framing {
    /// Frames of an Ethernet interface on its wire: padding, frame check sequence, preamble and gap.
    pub const ETHERNET: Self = Self::of_frames(24);

    /// `overhead` bytes beyond each length.
    pub const fn bytes(overhead: i32) -> Self {
        Self {
            overhead,
            least: 0,
            cells: Cells::None,
        }
    }

    /// `overhead` bytes beyond the length of a frame on an Ethernet interface, which pads short ones.
    pub const fn of_frames(overhead: u32) -> Self {
        Self {
            least: ETHERNET_FRAME_MIN + overhead,
            ..Self::bytes(overhead as i32)
        }
    }

    /// The framing that keywords name, for lengths from the IP packet on. The error names the unknown, contradictory or
    /// missing keyword.
    pub fn of_words(text: &str) -> Result<Self, String> {
        let mut found: Option<&Preset> = None;
        let mut tags = 0;
        for word in text.split_whitespace() {
            match (PRESETS.iter().find(|preset| preset.word == word), found) {
                (Some(preset), None) => found = Some(preset),
                (Some(preset), Some(other)) => {
                    let (a, b) = (other.word, preset.word);
                    return Err(format!(
                        "`{a}` and `{b}` are mutually exclusive; write only one of them"
                    ));
                }
                (None, _) if word == VLAN => tags += VLAN_TAG,
                (None, _) if word == NO_EFFECT => {}
                (None, _) => return Err(format!("`{word}` is not a keyword")),
            }
        }
        let add =
            || format!("`{VLAN}` and `{NO_EFFECT}` need another keyword, like \"ethernet {VLAN}\"");
        let framing = found.ok_or_else(add)?.framing;
        Ok(Self {
            overhead: framing.overhead + tags,
            ..framing
        })
    }

    /// The same framing for lengths that include an Ethernet header.
    pub const fn from_ethernet(self) -> Self {
        Self {
            overhead: self.overhead - ETHERNET_HEADER,
            ..self
        }
    }

    /// Bytes that a frame of `len` bytes occupies on the link.
    #[inline]
    pub const fn wire_bytes(&self, len: u64) -> u64 {
        let len = len as i64 + self.overhead as i64; // no frame is that long
        let least = self.least as i64;
        let len = if len < least { least } else { len } as u64;
        match self.cells {
            Cells::None => len,
            Cells::Atm => len.div_ceil(ATM_CELL.0) * ATM_CELL.1,
            Cells::Ptm => len + len.div_ceil(PTM_BLOCK),
        }
    }
}

impl fmt::Display for Framing {
    /// In words, for a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:+} B", self.overhead)?;
        if self.least > 0 {
            write!(f, ", at least {} B", self.least)?;
        }
        f.write_str(match self.cells {
            Cells::None => "",
            Cells::Atm => ", in ATM cells",
            Cells::Ptm => ", in PTM (65/64)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sch_cake.c: `len` is the length that the interface counts, `off` the offset of the IP header in it.
    fn cake(len: u32, off: u32, overhead: i32, mpu: u32, atm: Cells) -> u32 {
        let mut len = len - off;
        len = len.wrapping_add_signed(overhead);
        if len < mpu {
            len = mpu;
        }
        match atm {
            Cells::Atm => {
                len += 47;
                len /= 48;
                len *= 53;
            }
            Cells::Ptm => len += len.div_ceil(64),
            Cells::None => {}
        }
        len
    }

    #[test]
    fn each_keyword_charges_what_cake_charges() {
        // Values of q_cake.c; `raw` takes the interface's length as it is.
        let keywords: [(&str, u32, i32, u32, Cells); 17] = [
            ("raw", 0, 0, 0, Cells::None),
            ("conservative", 14, 48, 0, Cells::Atm),
            ("ipoa-vcmux", 14, 8, 0, Cells::Atm),
            ("ipoa-llcsnap", 14, 16, 0, Cells::Atm),
            ("bridged-vcmux", 14, 24, 0, Cells::Atm),
            ("bridged-llcsnap", 14, 32, 0, Cells::Atm),
            ("pppoa-vcmux", 14, 10, 0, Cells::Atm),
            ("pppoa-llc", 14, 14, 0, Cells::Atm),
            ("pppoe-vcmux", 14, 32, 0, Cells::Atm),
            ("pppoe-llcsnap", 14, 40, 0, Cells::Atm),
            ("pppoe-ptm", 14, 30, 0, Cells::Ptm),
            ("bridged-ptm", 14, 22, 0, Cells::Ptm),
            ("ethernet", 14, 38, 84, Cells::None),
            ("docsis", 14, 18, 64, Cells::None),
            ("ethernet ether-vlan", 14, 42, 84, Cells::None),
            ("ether-vlan pppoe-ptm ether-vlan", 14, 38, 0, Cells::Ptm),
            ("via-ethernet docsis", 14, 18, 64, Cells::None),
        ];
        for (words, off, overhead, mpu, cells) in keywords {
            let framing = Framing::of_words(words).unwrap().from_ethernet();
            for len in (34..1600).chain([9014, 65_549]) {
                let expected = cake(len, off, overhead, mpu, cells);
                assert_eq!(
                    framing.wire_bytes(len.into()),
                    expected.into(),
                    "{words} {len}"
                );
            }
        }
        let tried = keywords.iter().flat_map(|keyword| keyword.0.split(' '));
        let tried: Vec<_> = tried.collect();
        assert!(KEYWORDS.iter().all(|word| tried.contains(word)));
    }

    #[test]
    fn charges_by_hand() {
        // A TCP acknowledgment of 40 B via PPPoE over ATM with LLC: 80 B, two cells. RFC 2684's example of a full
        // packet.
        let adsl = Framing::of_words("pppoe-llcsnap").unwrap();
        assert_eq!((adsl.wire_bytes(40), adsl.wire_bytes(1492)), (106, 32 * 53));
        // 1500 + 22 B and a byte for each of 24 blocks.
        let vdsl = Framing::of_words("bridged-ptm").unwrap();
        assert_eq!(vdsl.wire_bytes(1500), 1546);
        // 60 B or less are 84 B on an Ethernet wire.
        let lengths = [14, 42, 60, 61, 1514];
        let wire = lengths.map(|len| Framing::ETHERNET.wire_bytes(len));
        assert_eq!(wire, [84, 84, 84, 85, 1538]);
        let ethernet = Framing::of_words("ethernet").unwrap();
        assert_eq!(Framing::ETHERNET, ethernet.from_ethernet());
    }

    #[test]
    fn keywords_that_contradict_each_other_are_refused() {
        let error = |words| Framing::of_words(words).unwrap_err();
        assert_eq!(
            error("docsis pppoe-ptm"),
            "`docsis` and `pppoe-ptm` are mutually exclusive; write only one of them"
        );
        assert_eq!(error("ethernets"), "`ethernets` is not a keyword");
        assert!(error("ether-vlan").ends_with("like \"ethernet ether-vlan\""));
    }

    #[test]
    fn a_framing_in_words() {
        let words = |words| {
            Framing::of_words(words)
                .unwrap()
                .from_ethernet()
                .to_string()
        };
        assert_eq!(words("ethernet"), "+24 B, at least 84 B");
        assert_eq!(words("pppoa-vcmux"), "-4 B, in ATM cells");
        assert_eq!(words("pppoe-ptm"), "+16 B, in PTM (65/64)");
    }
}
