//! Random changes of text files: some words are moved, repeated or made extreme.

use crate::random::Dice;

/// Extreme or unexpected values.
const VALUES: [&str; 16] = [
    "0",
    "-1",
    "1e308",
    "nan",
    "9223372036854775807",
    "18446744073709551616",
    "-9223372036854775808",
    "\"\"",
    "true",
    "[]",
    "{}",
    "null",
    "1.5Gi",
    "a=b:NoSchedule",
    "\u{202e}",
    "\"1h\"",
];

/// Changes some words of a text. `ends` returns whether a character ends a word; such characters are not changed.
#[must_use]
pub fn mutate(text: &str, ends: impl Fn(char) -> bool, dice: &mut Dice) -> String {
    let mut words: Vec<String> = text.split_inclusive(&ends).map(str::to_owned).collect();
    for _ in 0..1 + dice.below(3) {
        let (at, other) = (dice.below(words.len()), dice.below(words.len()));
        match dice.below(5) {
            0 => words.swap(at, other),
            1 => words.insert(at, words[other].clone()),
            2 if words.len() > 1 => drop(words.remove(at)),
            _ => {
                let end = words[at].chars().last().filter(|one| ends(*one));
                let end = end.map_or(String::new(), String::from);
                words[at] = format!("{}{end}", dice.pick(&VALUES));
            }
        }
    }
    words.concat()
}

/// Whether a character ends a word of a TOML file: a key, a value, or a part of either.
#[must_use]
pub fn ends_in_toml(one: char) -> bool {
    matches!(one, '=' | ',' | '\n' | '[' | ']' | '{' | '}')
}
