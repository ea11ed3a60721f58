//! Reads what `cargo test -- --show-output` prints, as it comes.
//!
//! A test that finds that it cannot run here prints a line that starts with `skipped: ` and returns.
//! libtest calls it passed; here it counts as skipped, once, and not as passed. A binary that dies
//! prints no result line: the tests that it had finished count, and its death counts as a failure.

/// Tests by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ran and succeeded.
    pub passed: usize,
    /// Ran and failed.
    pub failed: usize,
    /// Ignored, or found at run time that they cannot run here.
    pub skipped: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// A reader of one or more test binaries' output.
#[derive(Default)]
pub struct Reader {
    /// All results so far.
    pub counts: Counts,
    /// Why tests were skipped, `test: reason`, and which binaries died.
    pub reasons: Vec<String>,
    /// Whether this is inside the output of tests that passed.
    successes: bool,
    /// The test whose output this is.
    test: String,
    /// The last test whose skip was counted.
    counted: String,
    /// Skips since the last result line.
    skips: usize,
    /// The tests that have ended since a binary began whose result line has not come yet.
    running: Option<Counts>,
}

impl Reader {
    /// Takes the next line and says whether to show it: everything but the output of passed tests.
    pub fn line(&mut self, line: &str) -> bool {
        if line.starts_with("running ") && line.trim_end_matches('s').ends_with(" test") {
            self.close();
            self.running = Some(Counts::default());
        }
        if let (Some(running), true) = (&mut self.running, line.starts_with("test ")) {
            running.passed += usize::from(line.ends_with(" ... ok"));
            running.failed += usize::from(line.ends_with(" ... FAILED"));
            running.skipped += usize::from(line.contains(" ... ignored"));
        }
        if let Some(rest) = line.strip_prefix("test result:") {
            self.running = None;
            self.successes = false;
            // `12 passed` among parts that `;` and `.` separate.
            let number = |word: &str| -> usize {
                rest.split([';', '.'])
                    .filter_map(|part| part.trim().strip_suffix(word))
                    .find_map(|n| n.trim().parse().ok())
                    .unwrap_or(0)
            };
            let skips = std::mem::take(&mut self.skips);
            self.counts += Counts {
                passed: number("passed").saturating_sub(skips),
                failed: number("failed"),
                skipped: number("ignored") + skips,
            };
            self.counted.clear();
            return true;
        }
        match line {
            "successes:" => self.successes = true,
            "failures:" => self.successes = false,
            _ => {}
        }
        if let Some(name) = line
            .strip_prefix("---- ")
            .and_then(|l| l.strip_suffix(" stdout ----"))
        {
            self.test = name.to_string();
        }
        if self.successes {
            if let Some(reason) = line.strip_prefix("skipped: ") {
                if self.counted != self.test {
                    self.counted.clone_from(&self.test);
                    self.skips += 1;
                }
                let reason = format!("{}: {reason}", self.test);
                if !self.reasons.contains(&reason) {
                    self.reasons.push(reason);
                }
            }
        }
        !self.successes
    }

    /// Call at the end of the output.
    pub fn close(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.failed += 1;
            self.reasons.push(format!(
                "a test binary died after {} tests",
                running.passed + running.failed - 1
            ));
            self.counts += running;
            self.successes = false;
            self.skips = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 4 tests
test a ... ok
test b ... FAILED
test c ... ok
test d ... ignored

successes:

---- a stdout ----
skipped: no GL driver
skipped: no second queue

---- c stdout ----
all is well

successes:
    a
    c

failures:

---- b stdout ----
skipped: said by a test that failed
thread 'b' panicked

failures:
    b

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 17 filtered out; finished in 0.00s
";

    #[test]
    fn a_test_that_skips_itself_is_not_counted_as_passed() {
        let mut reader = Reader::default();
        let shown: Vec<&str> = OUTPUT.lines().filter(|line| reader.line(line)).collect();
        assert_eq!(
            reader.counts,
            Counts {
                passed: 1,
                failed: 1,
                skipped: 2
            }
        );
        assert_eq!(
            reader.reasons,
            ["a: no GL driver", "a: no second queue"].map(String::from)
        );
        assert!(shown.contains(&"thread 'b' panicked"));
        assert!(!shown.contains(&"all is well"));
    }

    #[test]
    fn a_binary_that_dies_is_a_failure_and_its_tests_count() {
        let mut reader = Reader::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test b ... FAILED",
            "running 1 test",
            "test c ... ok",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s",
            "running 2 tests",
            "test d ... ok",
        ] {
            reader.line(line);
        }
        reader.close();
        assert_eq!(
            reader.counts,
            Counts {
                passed: 3,
                failed: 3,
                skipped: 0
            }
        );
        assert_eq!(
            reader.reasons,
            [2, 1].map(|n| format!("a test binary died after {n} tests"))
        );
    }

    #[test]
    fn results_of_several_binaries_add_up() {
        let mut reader = Reader::default();
        for line in [
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.2s",
            "all doctests ran in 0.9s; merged doctests compilation took 0.2s",
            "test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.0s",
        ] {
            reader.line(line);
        }
        assert_eq!(
            reader.counts,
            Counts {
                passed: 15,
                failed: 0,
                skipped: 2
            }
        );
    }
}
