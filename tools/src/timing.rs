//! Samples of a duration: the best and the median, never a mean that one interruption spoils.

use std::time::Instant;

/// Durations in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a duration in nanoseconds.
    pub fn push(&mut self, ns: f64) {
        self.0.push(ns);
    }

    /// Adds all samples of `other`.
    pub fn extend(&mut self, other: Samples) {
        self.0.extend(other.0);
    }

    /// The smallest; NaN without samples.
    pub fn best(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    /// The middle one (the mean of the two middle ones of an even count); NaN without samples.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => sorted[n / 2],
            n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
        }
    }
}

/// Runs `work` and returns how long it took, in nanoseconds, with its result.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_nanos() as f64, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_and_median() {
        let mut samples = Samples::default();
        assert!(samples.best().is_nan() && samples.median().is_nan());
        for ns in [5.0, 1.0, 9.0] {
            samples.push(ns);
        }
        assert_eq!((samples.best(), samples.median()), (1.0, 5.0));
        samples.push(7.0);
        assert_eq!(samples.median(), 6.0);
    }
}
