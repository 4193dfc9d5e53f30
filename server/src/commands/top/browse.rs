//! The page that is shown, the selected row, and how the list is sorted and filtered. Keys change them.

use super::list::{List, Page};
use super::terminal::Key;
use crate::commands::show::{Align, by_name, clean_name, columns};

/// Lines above the rows of a list: the summary, an empty line, and the heading.
const ABOVE: usize = 3;

/// Consequence of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyEffect {
    /// The page is drawn again from the same data.
    Draw,
    /// Other data is needed.
    Request,
    /// Updates are paused or resumed.
    Pause,
    Quit,
}

/// State of the display. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Browse {
    page: Page,
    /// Name of the object whose details are shown instead of the list.
    detail: Option<String>,
    /// Position of the column by which rows are sorted.
    sort: usize,
    is_descending: bool,
    /// Text that some cell of each shown row contains, in lower case.
    filter: String,
    /// Whether keys are added to the filter.
    is_typing: bool,
    /// Position of the selected row among the shown rows, or of the first shown line of a detail.
    at: usize,
}

impl Browse {
    pub(super) fn page(&self) -> Page {
        self.page
    }

    pub(super) fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Keys that have an effect, for the last line of the screen.
    pub(super) fn help(&self, is_halted: bool) -> String {
        if self.is_typing {
            return format!("filter: {}_  Enter: keep, Esc: clear", clean_name(&self.filter));
        }
        if is_halted {
            return "paused - space: resume, q: quit".to_owned();
        }
        let text = match (self.page, &self.detail) {
            (Page::Overview, _) => "q: quit, space: pause, j: jobs, m: machines",
            (_, Some(_)) => "up, down: scroll, Esc: back, q: quit, space: pause",
            (_, None) => {
                "Enter: details, s: sort, r: reverse, /: filter, Esc: back, q: quit, space: pause"
            }
        };
        text.to_owned()
    }

    /// Handles a key. The list may have shrunk since the last key; `lines` is the length of the shown detail.
    pub(super) fn key(&mut self, key: Key, list: &List, lines: usize) -> KeyEffect {
        if self.is_typing {
            return self.type_filter(key);
        }
        let rows = self.shown(list);
        let last = if self.detail.is_some() { lines } else { rows.len() }.saturating_sub(1);
        self.at = self.at.min(last);
        match (key, self.page) {
            (Key::Interrupt | Key::Char('q'), _) => return KeyEffect::Quit,
            (Key::Escape, Page::Overview) => return KeyEffect::Quit,
            (Key::Char(' '), _) => return KeyEffect::Pause,
            (Key::Char('j'), _) => return self.go(Page::Jobs),
            (Key::Char('m'), _) => return self.go(Page::Machines),
            (Key::Char('o'), _) => return self.go(Page::Overview),
            (_, Page::Overview) => {}
            (Key::Up, _) => self.at = self.at.saturating_sub(1),
            (Key::Down, _) => self.at = (self.at + 1).min(last),
            (Key::Escape, _) if self.detail.is_none() => return self.go(Page::Overview),
            (Key::Escape, _) => {
                (self.detail, self.at) = (None, 0);
                return KeyEffect::Request;
            }
            _ if self.detail.is_some() => {}
            (Key::Enter, _) => {
                if let Some(row) = rows.get(self.at) {
                    (self.detail, self.at) = (Some(row[0].clone()), 0);
                    return KeyEffect::Request;
                }
            }
            (Key::Char('s'), _) => self.sort = (self.sort + 1) % list.columns.len().max(1),
            (Key::Char('r'), _) => self.is_descending = !self.is_descending,
            (Key::Char('/'), _) => self.is_typing = true,
            _ => {}
        }
        KeyEffect::Draw
    }

    fn type_filter(&mut self, key: Key) -> KeyEffect {
        self.at = 0;
        match key {
            Key::Interrupt => return KeyEffect::Quit,
            Key::Enter => self.is_typing = false,
            Key::Escape => (self.filter, self.is_typing) = (String::new(), false),
            Key::Backspace => _ = self.filter.pop(),
            Key::Char(letter) => self.filter.extend(letter.to_lowercase()),
            Key::Up | Key::Down => {}
        }
        KeyEffect::Draw
    }

    fn go(&mut self, page: Page) -> KeyEffect {
        *self = Browse { page, ..Browse::default() };
        KeyEffect::Request
    }

    /// The rows that pass the filter, sorted. Equal rows are sorted by name.
    fn shown<'a>(&self, list: &'a List) -> Vec<&'a Vec<String>> {
        let passes =
            |row: &&Vec<String>| row.iter().any(|cell| cell.to_lowercase().contains(&self.filter));
        let mut rows: Vec<&Vec<String>> = list.rows.iter().filter(passes).collect();
        rows.sort_by(|one, other| {
            let order = by_name(&one[self.sort], &other[self.sort]);
            let order = if self.is_descending { order.reverse() } else { order };
            order.then_with(|| by_name(&one[0], &other[0]))
        });
        rows
    }

    /// The list as text of at most `height` lines, with the selected row among them.
    pub(super) fn list_text(&self, list: &List, height: usize) -> String {
        let rows = self.shown(list);
        let what = if self.page == Page::Jobs { "jobs" } else { "machines" };
        let by = list.columns.get(self.sort).map_or("", |(name, _)| name);
        let order = if self.is_descending { ", descending" } else { "" };
        let filter = match &*self.filter {
            "" => String::new(),
            filter => format!(", filtered by {}", clean_name(filter)),
        };
        let count = if rows.len() == list.rows.len() {
            rows.len().to_string()
        } else {
            format!("{} of {}", rows.len(), list.rows.len())
        };
        let selected = self.at.min(rows.len().saturating_sub(1));
        let room = height.saturating_sub(ABOVE).max(1);
        let first = (selected + 1).saturating_sub(room);
        let heading = std::iter::once(("", Align::Left)).chain(list.columns.iter().copied());
        let heading: Vec<_> = heading.collect();
        let window = rows.iter().enumerate().skip(first).take(room);
        let marked = window.map(|(at, row)| {
            let mark = if at == selected { ">" } else { "" };
            std::iter::once(mark.to_owned()).chain(row.iter().cloned()).collect()
        });
        let marked: Vec<Vec<String>> = marked.collect();
        format!("{count} {what}, sorted by {by}{order}{filter}\n\n{}", columns(&heading, &marked))
    }

    /// The details of an object from the first shown line on. The last line always stays.
    pub(super) fn detail_text(&self, text: &str) -> String {
        let last = text.lines().count().saturating_sub(1);
        text.lines().skip(self.at.min(last)).flat_map(|line| [line, "\n"]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> List {
        let row = |name: &str, tenant: &str, tasks: &str| {
            vec![name.to_owned(), tenant.to_owned(), tasks.to_owned()]
        };
        List {
            columns: vec![("name", Align::Left), ("tenant", Align::Left), ("tasks", Align::Right)],
            rows: vec![
                row("web-10", "Shop", "9"),
                row("web-2", "Shop", "10"),
                row("db", "ops", "9"),
            ],
        }
    }

    fn after(keys: &[Key]) -> Browse {
        let mut browse = Browse::default();
        keys.iter().for_each(|key| _ = browse.key(*key, &list(), 3));
        browse
    }

    fn names(browse: &Browse) -> Vec<String> {
        browse.shown(&list()).iter().map(|row| row[0].clone()).collect()
    }

    #[test]
    fn rows_are_sorted_by_any_column() {
        let jobs = Key::Char('j');
        assert_eq!(names(&after(&[jobs])), ["db", "web-2", "web-10"]);
        let by_tasks = [jobs, Key::Char('s'), Key::Char('s')];
        assert_eq!(names(&after(&by_tasks)), ["db", "web-10", "web-2"]);
        let descending = [&by_tasks[..], &[Key::Char('r')]].concat();
        assert_eq!(names(&after(&descending)), ["web-2", "db", "web-10"]);
        assert_eq!(after(&[&by_tasks[..], &[Key::Char('s')]].concat()).sort, 0, "round again");
    }

    #[test]
    fn a_filter_is_typed_kept_and_cleared() {
        let typed =
            [Key::Char('j'), Key::Char('/'), Key::Char('S'), Key::Char('h'), Key::Char('q')];
        let mut browse = after(&typed);
        assert_eq!(names(&browse), [""; 0], "q is a letter of the filter");
        browse.key(Key::Backspace, &list(), 3);
        browse.key(Key::Enter, &list(), 3);
        assert_eq!(names(&browse), ["web-2", "web-10"]);
        assert!(
            browse
                .list_text(&list(), 20)
                .starts_with("2 of 3 jobs, sorted by name, filtered by sh\n")
        );
        browse.key(Key::Char('/'), &list(), 3);
        browse.key(Key::Escape, &list(), 3);
        assert_eq!(names(&browse).len(), 3);
    }

    #[test]
    fn a_row_is_selected_and_opened() {
        let mut browse = after(&[Key::Char('m'), Key::Down, Key::Down, Key::Down]);
        let text = browse.list_text(&list(), 4);
        let last =
            "3 machines, sorted by name\n\n   NAME    TENANT  TASKS\n>  web-10  Shop        9\n";
        assert_eq!(text, last, "one row has room");
        assert_eq!(browse.key(Key::Enter, &list(), 3), KeyEffect::Request);
        assert_eq!(browse.detail(), Some("web-10"));
        browse.key(Key::Down, &list(), 3);
        assert_eq!(browse.detail_text("a\nb\nc\n"), "b\nc\n");
        (0..9).for_each(|_| _ = browse.key(Key::Down, &list(), 3));
        assert_eq!(browse.detail_text("a\nb\nc\n"), "c\n");
        assert_eq!(browse.key(Key::Escape, &list(), 3), KeyEffect::Request);
        assert_eq!((browse.detail(), browse.page()), (None, Page::Machines));
        assert_eq!(browse.key(Key::Escape, &list(), 3), KeyEffect::Request);
        assert_eq!(browse.page(), Page::Overview);
        assert_eq!(browse.key(Key::Escape, &list(), 3), KeyEffect::Quit);
    }

    #[test]
    fn an_empty_list_has_no_details() {
        let mut browse = after(&[Key::Char('j')]);
        let empty = List::default();
        for key in [Key::Down, Key::Char('s'), Key::Enter] {
            assert_eq!(browse.key(key, &empty, 3), KeyEffect::Draw);
        }
        assert_eq!(browse.list_text(&empty, 9), "0 jobs, sorted by \n\n\n");
    }
}
