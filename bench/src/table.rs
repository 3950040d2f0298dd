//! Printed tables: numbers for people, in columns of even width.
//!
//! It knows neither what the numbers are nor how many columns there should be.

use std::fmt;

use crate::summary::Spread;

/// Columns are apart by this much.
const GAP: &str = "   ";

/// Rows of any length, in columns as wide as their widest cell.
pub(crate) fn write_rows(formatter: &mut fmt::Formatter<'_>, rows: &[Vec<String>]) -> fmt::Result {
    let widths = column_widths(rows);
    for row in rows {
        let line: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(formatter, "{}", line.join(GAP).trim_end())?;
    }
    Ok(())
}

/// The median, and between what it lies.
pub(crate) fn cell(spread: &Spread, decimals: usize) -> String {
    format!(
        "{} ({} to {})",
        number(spread.median, decimals),
        number(spread.min, decimals),
        number(spread.max, decimals)
    )
}

/// A non-negative number with its thousands apart: `154,321` or `1.40`.
fn number(value: f64, decimals: usize) -> String {
    let plain = format!("{value:.decimals$}");
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut text = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

fn column_widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or_default())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_kept_apart() {
        assert_eq!(number(0.0, 0), "0");
        assert_eq!(number(999.4, 0), "999");
        assert_eq!(number(154_321.0, 0), "154,321");
        assert_eq!(number(1_234_567.5, 1), "1,234,567.5");
        assert_eq!(number(1.404, 2), "1.40");
    }
}
