//! The condition on two thresholds of a queue and its limit.

use weir_base::setting::SettingError;

/// The lower threshold must be below the upper one, and below the limit; otherwise the queue never exceeds
/// the lower threshold, which then has no effect. The error names the setting `name`.
pub(crate) fn check(
    name: &'static str,
    min: f64,
    max: f64,
    limit: usize,
) -> Result<(), SettingError> {
    let why = if min >= max {
        format!(
            "the lower threshold is {min} packets, but must be below the upper threshold of {max}"
        )
    } else if min >= limit as f64 {
        format!("the threshold is {min} packets, but must be below the limit of {limit}")
    } else {
        return Ok(());
    };
    Err(SettingError::Contradiction { name, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_that_is_never_passed_is_refused() {
        let error = |min, max, limit| {
            let error = check("min_threshold", min, max, limit).unwrap_err();
            error.to_string()
        };
        assert_eq!(check("min_threshold", 9.0, 30.0, 10), Ok(()));
        assert_eq!(
            error(30.0, 30.0, 100),
            "`min_threshold`: the lower threshold is 30 packets, but must be below the upper threshold of 30"
        );
        assert_eq!(
            error(10.0, 30.0, 10),
            "`min_threshold`: the threshold is 10 packets, but must be below the limit of 10"
        );
    }
}
