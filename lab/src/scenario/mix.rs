//! Which files web clients fetch, and how often each.

use std::fmt;
use std::str::FromStr;

use weir_base::Bytes;

/// Sizes of web files and how often each is fetched.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Bytes and weight of each file.
    pub files: Vec<(u64, f64)>,
}

impl Mix {
    /// The mix of the Webstone benchmark: mean 19.2 kB.
    pub fn webstone() -> Self {
        Self {
            files: vec![
                (500, 35.0),
                (5_000, 50.0),
                (50_000, 14.0),
                (500_000, 0.9),
                (5_000_000, 0.1),
            ],
        }
    }

    /// The size at `place` (0 to 1) of the cumulative distribution.
    pub fn size_at(&self, place: f64) -> u64 {
        let total: f64 = self.files.iter().map(|(_, weight)| weight).sum();
        let mut left = place * total;
        for (size, weight) in &self.files {
            left -= weight;
            if left < 0.0 {
                return *size;
            }
        }
        self.files.last().map_or(0, |(size, _)| *size)
    }
}

impl FromStr for Mix {
    type Err = String;
    /// `webstone`, or sizes with weights: `500 B: 35, 5 kB: 50`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "webstone" {
            return Ok(Self::webstone());
        }
        let wrong =
            || "must be \"webstone\" or sizes with weights like \"500 B: 35, 5 kB: 65\"".to_owned();
        let file = |entry: &str| {
            let (size, weight) = entry.split_once(':')?;
            let size: Bytes = size.trim().parse().ok()?;
            let weight: f64 = weight.trim().parse().ok()?;
            let sane = (1..=1_000_000_000).contains(&size.0) && weight > 0.0 && weight < 1e9;
            sane.then_some((size.0, weight))
        };
        let files: Option<Vec<_>> = text.split(',').map(file).collect();
        files.map(|files| Self { files }).ok_or_else(wrong)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.files.iter().map(|(s, w)| format!("{s} B: {w}"));
        f.write_str(&files.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_webstone_mix_by_hand() {
        let mix: Mix = "webstone".parse().unwrap();
        // 0.35 * 500 + 0.5 * 5000 + 0.14 * 50000 + 0.009 * 500000 + 0.001 * 5000000 = 19175
        let mean: f64 = mix.files.iter().map(|(s, w)| *s as f64 * w / 100.0).sum();
        assert!((mean - 19_175.0).abs() < 1e-6);
        let sizes = [0.0, 0.349, 0.351, 0.849, 0.851, 0.991, 0.9991].map(|x| mix.size_at(x));
        assert_eq!(sizes, [500, 500, 5_000, 5_000, 50_000, 500_000, 5_000_000]);
    }

    #[test]
    fn a_mix_can_be_written() {
        let mix: Mix = "500 B: 1, 5 kB: 3".parse().unwrap();
        assert_eq!(mix.files, [(500, 1.0), (5000, 3.0)]);
        assert_eq!(mix.to_string().parse(), Ok(mix));
        for wrong in ["", "500", "500 B: 0", "0 B: 1", "webston", "5 kB: -1"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }
}
