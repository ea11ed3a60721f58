//! Numbers and tables for people.

/// A table whose columns are as wide as their widest cell; the first is flush left.
#[derive(Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Appends a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Appends a row with one cell, which does not widen its column: a heading, or nothing at all.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.rows.push(vec![text.into()]);
    }

    /// The table, each line ended by a newline.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![0; columns];
        for row in self.rows.iter().filter(|row| row.len() > 1) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (i, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[i].saturating_sub(cell.chars().count()));
                if i == 0 {
                    line.push_str(cell);
                    line.push_str(&pad);
                } else {
                    line.push_str("   ");
                    line.push_str(&pad);
                    line.push_str(cell);
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Bytes as MiB with two digits, or what is missing.
pub fn mib(bytes: Option<u64>) -> String {
    match bytes {
        Some(bytes) => format!("{:.2} MiB", bytes as f64 / (1 << 20) as f64),
        None => "not readable here".to_string(),
    }
}

/// Nanoseconds in the unit that suits them.
pub fn time(ns: f64) -> String {
    if ns < 1e3 {
        format!("{ns:.0} ns")
    } else if ns < 1e6 {
        format!("{:.2} µs", ns / 1e3)
    } else if ns < 1e9 {
        format!("{:.2} ms", ns / 1e6)
    } else {
        format!("{:.2} s", ns / 1e9)
    }
}

/// A ratio with as many digits as it deserves.
pub fn ratio(r: f64) -> String {
    if !r.is_finite() {
        "-".to_string()
    } else if r < 10.0 {
        format!("{r:.2}")
    } else {
        format!("{r:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_headings_do_not_widen_them() {
        let mut table = Table::default();
        table.heading("a heading that is longer than any cell");
        table.row(["a", "1"]);
        table.row(["bcd", "µ22"]);
        assert_eq!(
            table.render(),
            "a heading that is longer than any cell\na       1\nbcd   µ22\n"
        );
    }

    #[test]
    fn units_follow_the_size() {
        assert_eq!(time(999.0), "999 ns");
        assert_eq!(time(1500.0), "1.50 µs");
        assert_eq!(time(2e9), "2.00 s");
        assert_eq!(mib(Some(3 << 19)), "1.50 MiB");
        assert_eq!(ratio(1.234), "1.23");
        assert_eq!(ratio(123.4), "123");
        assert_eq!(ratio(f64::INFINITY), "-");
    }
}
