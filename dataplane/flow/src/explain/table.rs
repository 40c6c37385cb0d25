//! Columns of text.

use std::fmt;

/// Longest cell; longer ones are cut.
const CELL_MAX: usize = 60;

/// A table that is printed with its columns aligned.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(head: Vec<String>) -> Table {
        Table { rows: vec![head] }
    }

    /// Leaves out columns that say nothing in any row.
    pub(super) fn without_empty(mut self) -> Table {
        let columns = self.rows.first().map_or(0, Vec::len);
        let says = |column: usize| self.rows.iter().skip(1).any(|row| row[column] != "-");
        let kept: Vec<usize> = (0..columns).filter(|column| says(*column)).collect();
        for row in &mut self.rows {
            *row = kept.iter().map(|column| std::mem::take(&mut row[*column])).collect();
        }
        self
    }

    pub(super) fn row(&mut self, row: Vec<String>) {
        let cut = |cell: String| match cell.char_indices().nth(CELL_MAX) {
            Some((end, _)) => format!("{}...", &cell[..end]),
            None => cell,
        };
        self.rows.push(row.into_iter().map(cut).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            writeln!(f, "  {}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}
