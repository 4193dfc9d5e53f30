//! Names of copies that differ from all other names.

use omega_core::Text;
use omega_core::limits::TEXT_BYTES_MAX;

/// Returns a name that is not taken: `name` with this mark, and with as many plus signs as needed. A name that would be
/// too long is shortened before the mark.
pub(crate) fn free_name(name: &str, mark: &str, is_taken: impl Fn(&str) -> bool) -> Text {
    let mut mark = mark.to_owned();
    loop {
        let kept = name.floor_char_boundary(TEXT_BYTES_MAX - mark.len());
        let free = format!("{}{mark}", &name[..kept]);
        if !is_taken(&free) {
            return free.into();
        }
        mark.push('+');
    }
}
