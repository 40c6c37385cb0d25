//! Plain tables for the terminal.

/// A table: columns of text, numbers to the right.
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table under these headings.
    pub fn new(head: &[&str]) -> Table {
        Table { head: head.iter().map(|word| (*word).to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text, each line indented by two blanks.
    pub fn render(&self) -> String {
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        let columns = self.head.len();
        let width = |at: usize| {
            lines().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
        let numeric: Vec<bool> = (0..columns).map(|at| self.is_numeric(at)).collect();
        let mut text = String::new();
        for row in lines() {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[at] - cell.chars().count());
                line += "  ";
                line += &if numeric[at] { pad + cell } else { cell.clone() + &pad };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }

    fn is_numeric(&self, at: usize) -> bool {
        let number = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit()) || cell == "-";
        self.rows.iter().filter_map(|row| row.get(at)).all(number)
    }
}

/// A count with its thousands apart: 1,234,567.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Breaks paragraphs at 78 columns.
pub fn wrap(docs: &str) -> String {
    let mut text = String::new();
    for paragraph in docs.split("\n\n") {
        let mut width = 0;
        for word in paragraph.split_whitespace() {
            let len = word.chars().count();
            if width > 0 && width + 1 + len > 78 {
                text.push('\n');
                width = 0;
            } else if width > 0 {
                text.push(' ');
                width += 1;
            }
            text += word;
            width += len;
        }
        text += "\n\n";
    }
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right() {
        let mut table = Table::new(&["name", "count"]);
        table.row(vec!["a".into(), thousands(1_234_567)]);
        table.row(vec!["long".into(), "5".into()]);
        assert_eq!(table.render(), "  name      count\n  a     1,234,567\n  long          5\n");
    }
}
