//! A report of experiments: claims, results, plots and tables; as one self-contained HTML file, or
//! as Markdown.

use crate::plot::{Plot, escape};
use std::fmt::Write;

/// A report.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Heading of the report.
    pub title: String,
    /// Introduction of a few sentences.
    pub lead: String,
    /// Sections of the report, in order.
    pub sections: Vec<Section>,
}

/// A part of a report, about one question.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Identifier of the section in addresses and file names: `fig5`.
    pub id: String,
    /// Heading of the section.
    pub title: String,
    /// Paragraphs at the beginning of the section.
    pub prose: Vec<String>,
    /// Expectations, each with a flag whether the expectation is met.
    pub checks: Vec<Check>,
    /// Plots, each with the name of its files without suffix.
    pub plots: Vec<(String, Plot)>,
    /// Tables.
    pub tables: Vec<Table>,
}

/// An expectation.
#[derive(Clone, Debug)]
pub struct Check {
    /// The expectation as a sentence.
    pub claim: String,
    /// Whether the expectation is met.
    pub holds: bool,
    /// Figures that show whether the expectation is met.
    pub found: String,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Title of the table.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Rows, each with as many fields as `head`.
    pub rows: Vec<Vec<String>>,
}

/// Formats a number with three significant digits.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.1 => format!("{value:.3}"),
        size if size < 0.000_05 => "<0.0001".to_owned(),
        _ => format!("{value:.4}"),
    }
}

const STYLE: &str = "\
:root{color-scheme:light dark;--back:#f5f6f8;--device:#fff;--ink:#18202c;--soft:#5a6473;--line:#e2e6eb;\
--good:#0b8068;--bad:#b3261e}\
@media(prefers-color-scheme:dark){:root{--back:#10141a;--device:#181d25;--ink:#e7ebf0;--soft:#9aa5b4;\
--line:#2a323d;--good:#3fc9a7;--bad:#ff8a80}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',\
Roboto,'Noto Sans',Arial,sans-serif;font-variant-numeric:tabular-nums}\
main{max-width:1232px;margin:0 auto;padding:24px}\
h1{margin:0;font-size:26px}h2{margin:0 0 8px;font-size:18px}h3{margin:18px 0 6px;font-size:14px}\
p{max-width:80ch;margin:6px 0}nav a{margin-right:14px}a{color:inherit}\
section{margin:16px 0 0;padding:20px 24px;background:var(--device);border:1px solid var(--line);border-radius:10px}\
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:20px}\
.plots svg{width:100%;height:auto;display:block}\
ul.checks{list-style:none;margin:10px 0;padding:0}ul.checks li{padding:2px 0}\
ul.checks b{display:inline-block;min-width:4.5em}.holds{color:var(--good)}.fails{color:var(--bad)}\
ul.checks span{color:var(--soft)}code{font-size:.92em}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13.5px}\
th,td{padding:3px 12px 3px 0;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}\
th{color:var(--soft);font-weight:500}td.number,th.number{text-align:right}";

impl Page {
    /// Whether all expectations are met.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.sections.iter().flat_map(|section| &section.checks).all(|check| check.holds)
    }

    /// Converts to one HTML file.
    #[must_use]
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let links: String = self
            .sections
            .iter()
            .map(|s| format!("<a href=\"#{}\">{}</a>", escape(&s.id), escape(&s.title)))
            .collect();
        let sections: String = self.sections.iter().map(Section::html).collect();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; img-src data:\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
             </head>\n<body>\n<main>\n<h1>{title}</h1>\n<p>{}</p>\n<nav>{links}</nav>\n\
             {sections}</main>\n</body>\n</html>\n",
            prose(&self.lead)
        )
    }

    /// Converts to Markdown. The text refers to plots by relative paths such as `plots/NAME.svg`; `plots` is the
    /// folder.
    #[must_use]
    pub fn markdown(&self, plots: &str) -> String {
        let mut out = format!("# {}\n\n{}\n", self.title, self.lead);
        for section in &self.sections {
            section.markdown(plots, &mut out);
        }
        out
    }
}

/// A paragraph; text between backticks is code, as in Markdown.
fn prose(text: &str) -> String {
    let part = |(index, part): (usize, &str)| match index % 2 {
        0 => escape(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    text.split('`').enumerate().map(part).collect()
}

impl Section {
    fn html(&self) -> String {
        let prose: String = self.prose.iter().map(|p| format!("<p>{}</p>\n", prose(p))).collect();
        let checks: String = self.checks.iter().map(Check::html).collect();
        let checks = if checks.is_empty() {
            checks
        } else {
            format!("<ul class=\"checks\">\n{checks}</ul>\n")
        };
        let plots: String = self.plots.iter().map(|(_, plot)| plot.svg()).collect();
        let tables: String = self.tables.iter().map(Table::html).collect();
        format!(
            "<section id=\"{}\">\n<h2>{}</h2>\n{prose}{checks}<div class=\"plots\">\n{plots}</div>\n{tables}</section>\n",
            escape(&self.id),
            escape(&self.title)
        )
    }

    fn markdown(&self, plots: &str, out: &mut String) {
        // Writing to a string does not fail.
        let _ = writeln!(out, "\n## {}", self.title);
        for paragraph in &self.prose {
            let _ = writeln!(out, "\n{paragraph}");
        }
        if !self.checks.is_empty() {
            out.push('\n');
        }
        for check in &self.checks {
            let _ = writeln!(out, "- **{}** {}: {}", check.word(), check.claim, check.found);
        }
        for (name, plot) in &self.plots {
            let _ = writeln!(out, "\n![{}]({plots}/{name}.svg)", plot.title);
        }
        for table in &self.tables {
            table.markdown(out);
        }
    }
}

impl Check {
    fn word(&self) -> &'static str {
        if self.holds { "holds" } else { "fails" }
    }

    fn html(&self) -> String {
        let (word, claim) = (self.word(), escape(&self.claim));
        format!(
            "<li><b class=\"{word}\">{word}</b> {claim} <span>{}</span></li>\n",
            escape(&self.found)
        )
    }
}

impl Table {
    /// Whether a column has only numbers; such a column is right-aligned.
    fn is_number(&self, column: usize) -> bool {
        let cells = || self.rows.iter().filter_map(|row| row.get(column));
        let number =
            |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit() || "+-–.<".contains(c));
        cells().next().is_some() && cells().all(number)
    }

    fn html(&self) -> String {
        let class = |column| if self.is_number(column) { " class=\"number\"" } else { "" };
        let row = |tag: &str, cells: &[String]| {
            let cells: String = cells
                .iter()
                .enumerate()
                .map(|(i, cell)| format!("<{tag}{}>{}</{tag}>", class(i), escape(cell)))
                .collect();
            format!("<tr>{cells}</tr>\n")
        };
        let rows: String = self.rows.iter().map(|cells| row("td", cells)).collect();
        format!(
            "<h3>{}</h3>\n<div class=\"scroll\"><table>\n<thead>{}</thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n",
            escape(&self.title),
            row("th", &self.head)
        )
    }

    fn markdown(&self, out: &mut String) {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            let cells: Vec<String> = cells.map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        if !self.title.is_empty() {
            let _ = writeln!(out, "\n{}:", self.title);
        }
        out.push('\n');
        out.push_str(&line(&mut self.head.iter().cloned()));
        let rules = (0..self.head.len()).map(|i| if self.is_number(i) { "--:" } else { "---" });
        out.push_str(&format!("|{}|\n", rules.collect::<Vec<_>>().join("|")));
        for row in &self.rows {
            out.push_str(&line(&mut row.iter().cloned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Axis;

    fn page() -> Page {
        let plot = Plot::new("A plot", Axis::linear("x"), Axis::linear("y"));
        let table = Table {
            title: "Figures".to_owned(),
            head: ["name", "share"].map(str::to_owned).to_vec(),
            rows: vec![["a|<b>", "0.5"].map(str::to_owned).to_vec()],
        };
        let check =
            |holds| Check { claim: "It grows".to_owned(), holds, found: "1 to 2".to_owned() };
        let section = Section {
            id: "one".to_owned(),
            title: "One & only".to_owned(),
            prose: vec!["Why `a<b`.".to_owned()],
            checks: vec![check(true)],
            plots: vec![("one".to_owned(), plot)],
            tables: vec![table],
        };
        let fails = Section { checks: vec![check(false)], ..Section::default() };
        Page {
            title: "Report".to_owned(),
            lead: "Of it.".to_owned(),
            sections: vec![section, fails],
        }
    }

    #[test]
    fn a_page_needs_nothing_else_and_escapes_names() {
        let html = page().html();
        for outside in ["https:", "@import", "url(", "src=", "<script"] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("One &amp; only") && html.contains("a|&lt;b&gt;"));
        assert!(html.contains("<svg") && html.contains("<td class=\"number\">0.5</td>"));
        assert!(html.contains("class=\"fails\">fails"));
        assert!(html.contains("<p>Why <code>a&lt;b</code>.</p>"));
    }

    #[test]
    fn markdown_has_the_same_parts() {
        assert_eq!(
            page().markdown("plots"),
            "# Report\n\nOf it.\n\n## One & only\n\nWhy `a<b`.\n\n- **holds** It grows: 1 to 2\n\n\
             ![A plot](plots/one.svg)\n\nFigures:\n\n| name | share |\n|---|--:|\n| a\\|<b> | 0.5 |\n\n\
             ## \n\n- **fails** It grows: 1 to 2\n"
        );
    }

    #[test]
    fn a_page_holds_if_all_of_it_does() {
        let mut page = page();
        assert!(!page.holds());
        page.sections.pop();
        assert!(page.holds());
    }

    #[test]
    fn figures_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (123.4, "123"),
            (12.34, "12.3"),
            (1.234, "1.23"),
            (0.1234, "0.123"),
            (0.012_34, "0.0123"),
            (0.000_01, "<0.0001"),
        ] {
            assert_eq!(figure(value), text);
        }
    }
}
